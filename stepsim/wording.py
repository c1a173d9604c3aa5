"""Problems of a document as sentences: key, expected, found, and advice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from stepsim.errors import did_you_mean
from stepsim.shown import shown

STATED = "stated"
"""Type of a problem whose message is a complete sentence with expected and found."""

_Schema = Mapping[str, Any]


def describe_problems(
    errors: Iterable[Mapping[str, Any]],
    schema: Mapping[str, Any],
    lines: Mapping[str, int] | None = None,
) -> list[str]:
    """One sentence for each wrong key, in the order of the lines if these are known.

    Parameters
    ----------
    errors : type, loc, input and msg of each problem, in the form of pydantic.
    schema : JSON Schema that the document was validated against.
    lines : 1-based line of every key by its dotted path, as in ``grid.tile[2]``.
    """
    known = lines or {}
    schemas = _Schemas(schema)
    problems: dict[str, str] = {}
    for item in errors:
        path, section, leaf = schemas.place(item["loc"])
        # A union has a problem for each of its arms.
        problems.setdefault(path, schemas.sentence(item, path, section, leaf))
    order = sorted(problems, key=lambda path: (known.get(path, 0), path))
    return [
        (f"line {known[path]}, " if path in known else "") + f"{path}: {problems[path]}"
        for path in order
    ]


def version_changes(before: Any, now: Mapping[str, str]) -> str:
    """How versions that something was begun with differ, as ``numba 0.67.0, now 0.68.1``."""
    known = before if isinstance(before, Mapping) else {}
    return "; ".join(
        f"{name} {known.get(name, 'unknown')}, now {now.get(name, 'absent')}"
        for name in dict.fromkeys((*now, *known))
        if known.get(name) != now.get(name)
    )


def expectations(schema: Mapping[str, Any]) -> dict[str, str]:
    """Dotted path of every value in the sections of a schema, with the expectation for it."""
    schemas = _Schemas(schema)
    return dict(schemas.leaves(schemas.root, ""))


class _Schemas:
    """A JSON Schema, with its references followed."""

    def __init__(self, schema: _Schema) -> None:
        self.root = schema
        self._definitions = self.root.get("$defs", {})

    def place(self, location: Sequence[int | str]) -> tuple[str, _Schema, _Schema]:
        """The path without the alternatives of unions, and the schemas of the section and of the
        value."""
        path = ""
        section = node = self.root
        named = False
        for part in location:
            arms = list(self._arms(node))
            sections = [arm for arm in arms if "properties" in arm]
            union = sum(arm.get("type") != "null" for arm in arms) > 1
            if part == "[key]" or (union and not named and isinstance(part, str)):
                named = True  # pydantic says which alternative did not fit, or that a key does not
                continue
            named = False
            if isinstance(part, int):
                path += f"[{part}]"
                node = next((arm["items"] for arm in arms if "items" in arm), {})
            elif sections:
                section = next((s for s in sections if part in s["properties"]), sections[0])
                path += f".{part}" if path else part
                node = section["properties"].get(part, {})
            else:
                path += f".{part}" if path else part
                inner = next((arm.get("additionalProperties") for arm in arms), None)
                node = inner if isinstance(inner, Mapping) else {}
        return path, section, node

    def sentence(self, item: Any, path: str, section: _Schema, leaf: _Schema) -> str:
        if item["type"] == "extra_forbidden":
            keys = sorted(section["properties"])
            word = path.rsplit(".", 1)[-1]
            return f"unknown key '{word}'{did_you_mean(word, keys)} Known here: {', '.join(keys)}"
        if item["type"] == STATED:
            return str(item["msg"])
        want = self.expected(leaf)
        if item["type"] == "missing":
            return f"missing; expected {want}"
        found = item["input"]
        if not want:
            # The message of a check that a schema cannot express.
            return f"{item['msg'][0].lower()}{item['msg'][1:]}, found {_shown(found)}"
        choices = [word for arm in self._arms(leaf) for word in arm.get("enum", ())]
        near = did_you_mean(found, choices) if choices and isinstance(found, str) else ""
        return f"expected {want}, found {_shown(found)}{near.removesuffix('.')}"

    def leaves(self, section: _Schema, path: str) -> Iterator[tuple[str, str]]:
        for name, value in section["properties"].items():
            inner = next((arm for arm in self._arms(value) if "properties" in arm), None)
            by_name = any(arm.get("type") == "string" for arm in self._arms(value))
            if inner is None or by_name:
                yield f"{path}{name}", self.expected(value)
            if inner is not None:
                yield from self.leaves(inner, f"{path}{name}.")

    def expected(self, leaf: _Schema) -> str:
        """``an integer from 1 to 16 (description)``; empty where the schema is silent."""
        arms = list(self._arms(leaf))
        sections = any("properties" in arm for arm in arms)
        about = "" if sections or not leaf.get("description") else f" ({leaf['description']})"
        text = _either(one for arm in arms for one in self._of_arm(arm))
        return text and text + about

    def _arms(self, node: _Schema) -> Iterator[_Schema]:
        """The alternatives of a union; otherwise the schema itself."""
        if "$ref" in node:
            yield from self._arms(self._definitions[node["$ref"].rsplit("/", 1)[-1]])
        elif "anyOf" in node:
            for arm in node["anyOf"]:
                yield from self._arms(arm)
        else:
            yield node

    def _of_arm(self, arm: _Schema) -> list[str]:
        if "const" in arm or "enum" in arm:
            return [f"'{choice}'" for choice in arm.get("enum", [arm.get("const")])]
        kind = arm.get("type", "")
        if kind == "object" and "properties" in arm:
            return [f"a mapping with the keys {', '.join(arm['properties'])}"]
        if kind == "array":
            start = "a non-empty list" if arm.get("minItems") else "a list"
            return [f"{start} of {self._items(arm['items'])}".removesuffix(" of ")]
        if kind == "string" and arm.get("minLength"):
            return ["a non-empty text"]
        return [_NAMES[kind] + _limits(arm)] if kind in _NAMES else []

    def _items(self, node: _Schema) -> str:
        arms = list(self._arms(node))
        kinds = [arm["type"] for arm in arms if arm.get("type") in _PLURALS and "enum" not in arm]
        if len(arms) == len(kinds) == 1:
            return _PLURALS[kinds[0]] + _limits(arms[0])
        return _either(one for arm in arms for one in self._of_arm(arm))


_PLURALS = {"integer": "integers", "number": "numbers", "string": "texts"}

_NAMES = {
    "integer": "an integer",
    "number": "a number",
    "string": "a text",
    "boolean": "true or false",
    "object": "a mapping",
    "null": "null",
}

_LARGE = 1 << 30
_SHOWN = 60
_LISTED = 4
_PLAIN = (bool, int, float, type(None))


def _either(choices: Iterable[str]) -> str:
    *first, last = list(dict.fromkeys(choices)) or [""]
    return f"{', '.join(first)} or {last}" if first else last


def _limits(arm: _Schema) -> str:
    least, most = arm.get("minimum"), arm.get("maximum")
    above = arm.get("exclusiveMinimum")
    return (
        (f" from {_number(least)}" if least is not None else "")
        + (f" above {_number(above)}" if above is not None else "")
        + (f" to {_number(most)}" if most is not None else "")
    )


def _number(value: float) -> str:
    power = int(value).bit_length() - 1
    return f"2**{power}" if value > _LARGE and value == 1 << power else f"{value:.15g}"


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {value[:_SHOWN]!r}{'...' if len(value) > _SHOWN else ''}"
    if isinstance(value, Mapping):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        plain = all(isinstance(one, _PLAIN) for one in value[: _LISTED + 1])
        if not value:
            return "an empty list"
        short = plain and len(value) <= _LISTED
        return f"the list [{', '.join(map(_shown, value))}]" if short else "a list"
    return shown(value)
