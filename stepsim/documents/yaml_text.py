"""YAML: keys that are unique texts, no tags, dates or base 60, aliases within limits."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from stepsim.deferred import deferred
from stepsim.documents.reading import MOST_DIGITS, Document, Reader, read_text, shortened
from stepsim.errors import StepSimError

if TYPE_CHECKING:
    import yaml
else:
    yaml = deferred("yaml")

_MOST_BYTES = 512 * 1024
_MOST_VALUES = 20_000
"""Most keys and values; those repeated by aliases and merges count every time."""


def load_yaml(
    path: str | Path,
    what: str,
    error: type[StepSimError],
    cure: str = "",
    *,
    most_bytes: int = _MOST_BYTES,
    most_values: int = _MOST_VALUES,
) -> Document:
    """Read one YAML document from a file of half a MiB at most, unless more is allowed.

    Parameters
    ----------
    path : the file, UTF-8.
    what : kind of file, such as ``machine file``; every message starts with it and the path.
    error : class of all errors that are raised.
    cure : sentence on where to look up how such a file is written, added to errors of syntax.

    Raises
    ------
    error : the file is unreadable, too large, not UTF-8 or not YAML; a key is not text or occurs
        twice; a tag, alias or number is refused.
    """
    where = f"{what} {path}"
    text = read_text(Path(path), where, error, most_bytes)
    return parse_yaml(text, where, error, cure, most_values=most_values)


def parse_yaml(
    text: str,
    where: str,
    error: type[StepSimError],
    cure: str = "",
    *,
    most_values: int = _MOST_VALUES,
) -> Document:
    """Like `load_yaml`, for a text; messages start with ``where``."""
    advice = f"Write 'key: value' lines, indented by spaces. {cure}".strip()
    reader = _Yaml(text, where, error, advice)
    reader.most_values = most_values
    return reader.read()


def parse_yaml_value(text: str, where: str, error: type[StepSimError]) -> Any:
    """A single YAML value, as in ``key=value`` on a command line; errors as in `load_yaml`."""
    return (
        _YamlValue(text, where, error, "Put quotes around it if it is meant as text.").read().data
    )


class _Yaml(Reader):
    most_values = _MOST_VALUES

    def __init__(self, text: str, where: str, error: type[StepSimError], cure: str) -> None:
        super().__init__(text, where, error)
        self.cure = cure
        self.open: set[int] = set()

    def read(self) -> Document:
        try:
            node = _composer()(self.text, self).get_single_node()
        except self.error:
            raise
        except yaml.MarkedYAMLError as problem:
            mark = problem.problem_mark or problem.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            parts = ", ".join(part for part in (problem.context, problem.problem) if part)
            if "'\\t'" in parts:
                parts = "expected spaces, found a tab"
            self.refuse(line, column, f"not valid YAML: {shortened(parts, 200)}. {self.cure}")
        except yaml.reader.ReaderError as problem:
            before = self.text[: problem.position]
            line, column = before.count("\n") + 1, problem.position - before.rfind("\n")
            self.refuse(
                line,
                column,
                f"not valid YAML: expected printable text, found the character "
                f"#x{problem.character:04x}. {self.cure}",
            )
        except (ValueError, OverflowError):
            # PyYAML does not convert errors of invalid escapes and versions.
            self.refuse(1, 1, f"not valid YAML: an escape or a version is impossible. {self.cure}")
        self.values = 0
        data = None if node is None else self.build(node, "", 1)
        return Document(data, self.lines)

    def build(self, node: yaml.Node, path: str, depth: int) -> Any:
        """Data of a node; the target of an alias is built again at each place."""
        place = node.start_mark.line + 1, node.start_mark.column + 1
        self.count(*place)
        kind = node.tag.removeprefix(_TAG)
        if not isinstance(node.value, list):
            return self.scalar(node.tag, str(node.value), place)
        self.check_depth(depth, *place)
        if id(node) in self.open:
            self.refuse(*place, "a value holds itself; write out what is meant, without the alias")
        self.open.add(id(node))
        data: Any
        if kind == "seq":
            data = []
            for index, item in enumerate(node.value):
                child = f"{path}[{index}]"
                self.lines[child] = item.start_mark.line + 1
                data.append(self.build(item, child, depth + 1))
        elif kind == "map":
            data = self.mapping(node, path, depth)
        else:
            self.refuse_tag(node.tag, place)
        self.open.remove(id(node))
        return data

    def mapping(self, node: yaml.Node, path: str, depth: int) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        keys: dict[str, int] = {}
        for key, value in node.value:
            place = key.start_mark.line + 1, key.start_mark.column + 1
            self.count(*place)
            kind = key.tag.removeprefix(_TAG)
            if kind == "merge":
                # Merged keys have the lines of their anchor, as nothing is written here.
                self.check_key(keys, path, "<<", *place)
                merged = self.merged(value, path, depth)
            elif kind == "str":
                self.check_text(key.value, *place)
                child = self.check_key(keys, path, key.value, *place)
                own[key.value] = self.build(value, child, depth + 1)
            else:
                found = "a collection" if isinstance(key.value, list) else shortened(key.value)
                self.refuse(
                    *place,
                    f"expected a text key in {path or 'the top level'}, found {found}; "
                    "put quotes around the key if it is meant as text",
                )
        return merged | own

    def merged(self, node: yaml.Node, path: str, depth: int) -> dict[str, Any]:
        found = self.build(node, path, depth + 1)
        parts = found if isinstance(found, list) else [found]
        result: dict[str, Any] = {}
        for part in parts:
            if not isinstance(part, dict):
                self.refuse(
                    node.start_mark.line + 1,
                    node.start_mark.column + 1,
                    "expected a mapping, or a list of mappings, to merge with '<<', found "
                    f"{shortened(str(part))}; name the anchor of a mapping",
                )
            result = part | result
        return result

    def scalar(self, tag: str, text: str, place: tuple[int, int]) -> Any:
        kind = tag.removeprefix(_TAG)
        if kind == "str":
            self.check_text(text, *place)
            return text
        if kind not in _SCALARS:
            self.refuse_tag(tag, place)
        expected, convert = _SCALARS[kind]
        try:
            return convert(text.replace("_", "") if kind in ("int", "float") else text.lower())
        except (KeyError, ValueError):
            self.refuse(
                *place,
                f"expected {expected}, found {shortened(text)!r}; "
                "write it plainly, or put quotes around it if it is meant as text",
            )

    def refuse_tag(self, tag: str, place: tuple[int, int]) -> NoReturn:
        shown = tag.replace(_TAG, "!!")
        self.refuse(
            *place,
            f"expected plain data, found the tag '{shortened(shown)}'; remove the tag",
        )


class _YamlValue(_Yaml):
    def refuse(self, line: int, column: int, message: str) -> NoReturn:
        raise self.error(
            f"{self.where}: {shortened(self.text)!r}, column {column}: {message}"
        ) from None


_TAG = "tag:yaml.org,2002:"


@cache
def _composer() -> Callable[[str, _Yaml], yaml.SafeLoader]:
    """Composer of the nodes of a document that stops as soon as it is too deep or too long.

    The composer of libyaml is faster, but has neither these limits nor the same messages.
    """

    class Composer(yaml.SafeLoader):
        # Dates are texts here, as in JSON, and "=" is not a separate type.
        yaml_implicit_resolvers = {  # noqa: RUF012
            first: [(tag, pattern) for tag, pattern in pairs if tag not in _UNTYPED]
            for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def __init__(self, text: str, reader: _Yaml) -> None:
            super().__init__(text)
            self.document = reader
            self.depth = 0

        def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            place = event.start_mark.line + 1, event.start_mark.column + 1
            self.document.count(*place)
            self.depth += 1
            if isinstance(event, yaml.CollectionStartEvent):
                self.document.check_depth(self.depth, *place)
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    return Composer


_UNTYPED = (f"{_TAG}timestamp", f"{_TAG}value")


def _integer(text: str) -> int:
    found = _INTEGER.fullmatch(text)
    if found is None or len(text) > MOST_DIGITS:
        raise ValueError(text)
    return int(text, 0)


def _real(text: str) -> float:
    words = {"inf": "inf", "+inf": "inf", "-inf": "-inf", "nan": "nan"}
    word = words.get(text.replace(".", "", 1).lower()) if "." in text else None
    if word is None and _REAL.fullmatch(text) is None:
        raise ValueError(text)
    return float(word or text)


_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*|0x[0-9a-fA-F]+|0b[01]+)")
_REAL = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_SCALARS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "null": ("null", {"": None, "~": None, "null": None}.__getitem__),
    "bool": (
        "true or false",
        {
            "true": True, "yes": True, "on": True, "false": False, "no": False, "off": False,
        }.__getitem__,
    ),
    "int": (
        f"an integer of at most {MOST_DIGITS} digits, without leading zeros or base 60", _integer,
    ),
    "float": ("a number, not of base 60", _real),
}  # fmt: skip
