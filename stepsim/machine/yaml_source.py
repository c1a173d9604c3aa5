"""Reading YAML text strictly: text keys only, no key twice, and a line number for each key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from stepsim.errors import MachineError

__all__ = ["YamlDocument", "read_yaml", "read_yaml_value"]


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """Plain data and the 1-based line on which each dotted key path stands."""

    data: Any
    lines: dict[str, int]


def read_yaml(text: str, where: str) -> YamlDocument:
    """Parse one YAML document.

    Raises
    ------
    MachineError : the text is not YAML, has a key that is not text, or a key twice; the message
        starts with ``where`` and names the line.
    """
    lines: dict[str, int] = {}
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return YamlDocument(None, lines)
        _check_keys(node, "", lines, where, set())
        return YamlDocument(loader.construct_document(node), lines)
    except (yaml.YAMLError, ValueError) as error:
        # PyYAML lets the ValueError of an impossible date through.
        if isinstance(error, MachineError):
            raise
        raise MachineError(
            f"{where}: not valid YAML: {_describe(error)}. "
            "Write 'key: value' lines, indented by spaces; see 'stepsim machines --show sda-1024'."
        ) from error


def read_yaml_value(text: str, where: str) -> Any:
    """Parse a single YAML value, as in ``key=value`` on a command line."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise MachineError(f"{where}: {text!r} is not a YAML value: {_describe(error)}") from error


def _check_keys(
    node: yaml.Node, path: str, lines: dict[str, int], where: str, seen: set[int]
) -> None:
    # An alias is the anchored node itself, and may stand inside it.
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            _check_keys(child, f"{path}[{index}]", lines, where, seen)
        return
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        line = key.start_mark.line + 1
        if key.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
            found = key.value if isinstance(key, yaml.ScalarNode) else "a collection"
            raise MachineError(
                f"{where}, line {line}: expected a text key in {path or 'the top level'}, "
                f"found {found}. Put quotes around the key if it is meant as text."
            )
        child_path = f"{path}.{key.value}" if path else str(key.value)
        if child_path in lines:
            raise MachineError(
                f"{where}, line {line}: key '{child_path}' is given twice, first on line "
                f"{lines[child_path]}. Remove one of them."
            )
        lines[child_path] = line
        _check_keys(value, child_path, lines, where, seen)


def _describe(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        parts = [part for part in (error.context, error.problem) if part]
        mark = error.problem_mark or error.context_mark
        spot = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        return spot + ", ".join(parts)
    return " ".join(str(error).split())
