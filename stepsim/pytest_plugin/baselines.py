"""The file of baselines next to a test file: ``test_x.cycles.json``.

JSON with sorted keys and one line for each operator, so that the difference of two versions reads
well in a review. Each machine is defined once, by name and digest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from stepsim.arguments import is_whole, shown
from stepsim.atomic import replacing
from stepsim.documents import load_json
from stepsim.errors import BaselineError
from stepsim.pytest_plugin.entries import Entry, machine_key
from stepsim.results import LANES, is_listing

Baselines = dict[str, dict[str, Entry]]
"""Test -> name of the check -> its measurements."""

_FORMAT: Final = 1
"""Raised when a reader of the present one would misread the file."""

_WIDTH: Final = 100
_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_VALUES: Final = 4_000_000


def read_baselines(path: Path) -> Baselines:
    """All baselines of a file; none if it is not there.

    Raises
    ------
    BaselineError : the file cannot be read, or is not what ``--update-cycles`` writes.
    """
    if not path.exists():
        return {}
    what = "baselines"
    document = load_json(
        path, what, BaselineError, most_bytes=_MOST_BYTES, most_values=_MOST_VALUES
    )
    return _Reader(f"{what} {path}", document.lines).read(document.data)


def write_baselines(path: Path, baselines: Mapping[str, Mapping[str, Entry]]) -> bool:
    """Write the file, or remove it when there are no baselines; False if nothing changed.

    Raises
    ------
    OutputError : the file cannot be written; what was there stays.
    """
    text = _file_text(baselines)
    if not text:
        existed = path.exists()
        path.unlink(missing_ok=True)
        return existed
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    with replacing(path) as (part,):
        part.write_text(text, encoding="utf-8", newline="\n")
    return True


def _file_text(baselines: Mapping[str, Mapping[str, Entry]]) -> str:
    machines: dict[str, Any] = {}
    tests: dict[str, Any] = {}
    for test, checks in baselines.items():
        for name, entry in checks.items():
            key = machine_key(entry.machine)
            machines[key] = entry.machine
            values = {**entry.to_dict(), "machine": key}
            if entry.listing is None:
                del values[_LISTING]
            tests.setdefault(test, {})[name] = values
    if not tests:
        return ""
    data = {"format": _FORMAT, "machines": machines, "tests": tests}
    return f"{_pretty(data, '')}\n"


def _pretty(value: Any, indent: str, key: str = "") -> str:
    """JSON in which a mapping of plain values that fits behind its key takes one line."""
    line = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    if not isinstance(value, Mapping) or not value:
        return line
    nested = any(isinstance(inner, Mapping) for inner in value.values())
    # The fields that matter most in a review get separate lines.
    if not nested and "cycles" not in value and len(indent) + len(key) + len(line) < _WIDTH:
        return line
    inner = indent + "  "
    members = (
        f"{inner}{json.dumps(key, ensure_ascii=False)}: {_pretty(value[key], inner, key)}"
        for key in _order(value)
    )
    return "{\n" + ",\n".join(members) + f"\n{indent}}}"


def _order(value: Mapping[str, Any]) -> list[str]:
    """Names of tests and operators by the alphabet, fields of an entry as they are declared."""
    return list(value) if "stalls" in value else sorted(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_count(value: object) -> bool:
    return is_whole(value) and isinstance(value, int) and value >= 0


def _each(holds: Callable[[Any], Any]) -> Callable[[object], bool]:
    """Whether a value is a mapping of values that pass a check."""
    return lambda value: isinstance(value, dict) and all(map(holds, value.values()))


_is_counts = _each(_is_count)
_is_texts = _each(_is_text)
_is_depths = _each(lambda depth: depth is None or (_is_count(depth) and depth))
_is_stalls = _each(lambda one: _is_counts(one) and one.get(LANES))


_FIELDS: Final[Mapping[str, tuple[str, Callable[[object], bool]]]] = {
    "cycles": ("a whole number", _is_count),
    "offchip_bytes": ("a whole number", _is_count),
    "onchip_bytes": ("a whole number or null", lambda value: value is None or _is_count(value)),
    "flops": ("a whole number", _is_count),
    "program": ("text", _is_text),
    "program_hash": ("text", _is_text),
    "bindings": ("a mapping of texts", _is_texts),
    "machine": ("a name among 'machines'", _is_text),
    "fifo_depth": ("a whole number", _is_count),
    "fifo_depths": ("a mapping of whole numbers from 1, or null", _is_depths),
    "plugins": ("a mapping of texts", _is_texts),
    "model_version": ("a whole number", _is_count),
    "stalls": ("lanes and cycles by operator", _is_stalls),
}

_LISTING: Final = "listing"
"""The field that baselines of stepsim before it do not have."""


class _Reader:
    """Checks a document key by key; errors name the file, the line and the key."""

    def __init__(self, where: str, lines: Mapping[str, int]) -> None:
        self.where = where
        self.lines = lines

    def read(self, data: Any) -> Baselines:
        top = self.mapping(data, "", {"format", "machines", "tests"})
        if top["format"] != _FORMAT:
            self.refuse("format", f"the number {_FORMAT}", top["format"])
        machines = self.mapping(top["machines"], "machines")
        for name, machine in machines.items():
            if not _is_text(self.mapping(machine, f"machines.{name}").get("name")):
                self.refuse(f"machines.{name}", "a machine with its name", machine)
        return {
            test: {
                name: self.entry(entry, f"tests.{test}.{name}", machines)
                for name, entry in self.mapping(checks, f"tests.{test}").items()
            }
            for test, checks in self.mapping(top["tests"], "tests").items()
        }

    def entry(self, data: Any, path: str, machines: Mapping[str, Any]) -> Entry:
        known = isinstance(data, dict) and _LISTING in data
        found = self.mapping(data, path, {*_FIELDS, *([_LISTING] if known else [])})
        if known and not is_listing(found[_LISTING]):
            self.refuse(f"{path}.{_LISTING}", "the outline of a program", found[_LISTING])
        for name, (expected, holds) in _FIELDS.items():
            if not holds(found[name]):
                self.refuse(f"{path}.{name}", expected, found[name])
        if found["machine"] not in machines:
            self.refuse(f"{path}.machine", _FIELDS["machine"][0], found["machine"])
        return Entry(**found | {"machine": machines[found["machine"]]})

    def mapping(self, value: Any, path: str, keys: set[str] | None = None) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.refuse(path, "a mapping", value)
        if keys is not None and value.keys() != keys:
            names = ", ".join(sorted(keys))
            self.refuse(path, f"the keys {names}", sorted(value))
        return value

    def refuse(self, path: str, expected: str, found: object) -> NoReturn:
        line = f":{self.lines[path]}" if path in self.lines else ""
        raise BaselineError(
            f"{self.where}{line}: {path or 'the document'}: expected {expected}, found "
            f"{shown(found)}; take the file from version control, or delete it and run pytest "
            "with --update-cycles"
        )
