"""Turning validation failures into messages that say key, expected, found and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from stepsim.machine.model import Machine

__all__ = ["describe_problems", "did_you_mean", "known_keys"]


def known_keys() -> dict[str, str]:
    """Dotted path of every settable value, with what is expected there."""
    return dict(_leaves(Machine.model_json_schema()))


def did_you_mean(word: str, choices: Sequence[str]) -> str:
    """End of a sentence: ``"; did you mean 'x'?"`` for the nearest choice, else ``"."``."""
    near = difflib.get_close_matches(word, choices, n=1, cutoff=0.6)
    if not near:
        # 'channels' alone is what people write for 'hbm.channels'.
        last = {choice.rsplit(".", 1)[-1]: choice for choice in choices}
        near = [last[name] for name in difflib.get_close_matches(word, last, n=1, cutoff=0.75)]
    return f"; did you mean '{near[0]}'?" if near else "."


def describe_problems(error: ValidationError, lines: Mapping[str, int]) -> list[str]:
    """One line per problem of a machine, in file order where the lines are known."""
    expected = known_keys()
    problems: dict[str, str] = {}
    for item in error.errors(include_url=False):
        path = ".".join(str(part) for part in item["loc"] if str(part) not in _UNION_ARMS)
        problems.setdefault(path, _one(item["type"], path, item["input"], expected))
    order = sorted(problems, key=lambda path: (lines.get(path, 0), path))
    return [
        (f"line {lines[path]}, " if path in lines else "") + f"{path}: {problems[path]}"
        for path in order
    ]


# pydantic adds the arm of a union to the location of an error.
_UNION_ARMS = frozenset({"int", "none", "constrained-int"})


def _one(kind: str, path: str, found: Any, expected: Mapping[str, str]) -> str:
    if kind == "extra_forbidden":
        section, _, word = path.rpartition(".")
        siblings = sorted(_fields(section))
        return f"unknown key{did_you_mean(word, siblings)} Known here: {', '.join(siblings)}"
    if path in expected:
        want = expected[path]
    else:
        want = f"a mapping with the keys {', '.join(_fields(path))}"
    if kind == "missing":
        return f"missing; expected {want}"
    return f"expected {want}, found {_show(found)}"


def _fields(section: str) -> list[str]:
    """Keys of a section, '' being the top level."""
    model: type[BaseModel] = Machine
    for part in filter(None, section.split(".")):
        annotation = model.model_fields[part].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return list(model.model_fields)


def _leaves(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    definitions = schema["$defs"]
    for name, value in schema["properties"].items():
        reference = value.get("$ref") or next(
            (arm["$ref"] for arm in value.get("allOf", ()) if "$ref" in arm), None
        )
        if reference is None:
            yield name, _expectation(value)
        else:
            section = definitions[reference.rsplit("/", 1)[-1]]
            for key, leaf in section["properties"].items():
                yield f"{name}.{key}", _expectation(leaf)


def _expectation(leaf: Mapping[str, Any]) -> str:
    arms = leaf.get("anyOf", [leaf])
    return " or ".join(_expected_arm(arm) for arm in arms) + f" ({leaf['description']})"


def _expected_arm(arm: Mapping[str, Any]) -> str:
    if "const" in arm:
        return f"'{arm['const']}'"
    if "enum" in arm:
        return " or ".join(f"'{choice}'" for choice in arm["enum"])
    if arm["type"] == "integer":
        return f"an integer from {arm['minimum']} to {arm['maximum']}"
    if arm["type"] == "null":
        return "null"
    return "a non-empty text" if arm.get("minLength") else "a text"


def _show(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return f"{value!r}"
