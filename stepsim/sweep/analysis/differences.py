"""The parts in which the keys of the runs of two sweeps differ."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from stepsim.sweep.analysis.labels import flat, nested
from stepsim.sweep.analysis.tables import read_failures, read_runs
from stepsim.sweep.storage.manifest import read_manifest

_PLACES = ("layer", "step", "window", "lengths_step", "lengths_window")
_CONTENTS = {"trace_id": "trace", "lengths_id": "lengths"}
_COLUMNS = ["workload", "parameters", "machine_json", *_PLACES]

_EXAMPLE = ("run", "design")

_SHOWN_VALUES = 3
_VALUE_WIDTH = 60
_DIGITS = 12
"""Digits of a hash that are shown, enough to distinguish contents."""

_Parts = dict[str, dict[str, str]]
"""The values of every part of a key, each with its text for messages."""


def key_differences(before: str | Path, after: str | Path) -> list[str]:
    """``fifo_depth: 4 in A, 8 in B``: parts for which the sweeps share no value.

    Without such parts, those for which they do not share all values. Empty if the runs of the
    sweeps differ only in how values are combined.

    Raises
    ------
    SweepError
        A folder holds no sweep, or a file is damaged.
    """
    first, second = _parts(before), _parts(after)
    if first["workload"] != second["workload"]:
        # Then all parameters differ.
        first, second = ({"workload": parts["workload"]} for parts in (first, second))
    apart: list[str] = []
    partly: list[str] = []
    for name in dict.fromkeys([*first, *second]):
        a, b = first.get(name, {}), second.get(name, {})
        if a.keys() != b.keys():
            group = partly if a.keys() & b.keys() else apart
            group.append(f"{name}: {_text(a)} in A, {_text(b)} in B")
    return apart or partly


def _parts(folder: str | Path) -> _Parts:
    parts: _Parts = {}
    for name, value in _values(folder):
        text = value if isinstance(value, str) else json.dumps(value)
        parts.setdefault(name, {})[text] = text
    for column, name in _CONTENTS.items():
        for row in _distinct(folder, [name, column]):
            if row[column] is not None:
                text = f"{row[name]} (content {row[column][:_DIGITS]})"
                parts.setdefault(name, {})[row[column]] = text
    return parts


def _values(folder: str | Path) -> Iterator[tuple[str, Any]]:
    for row in _distinct(folder, _COLUMNS):
        yield "workload", row["workload"]
        yield from flat("", nested(folder, row, "parameters"))
        yield from flat("machine", nested(folder, row, "machine_json"))
        for name in _PLACES:
            if row[name] is not None:
                yield name, row[name]
    # The rows have the name of a model, and no limits.
    spec = read_manifest(folder).spec
    yield from flat("model", spec.get("model"))
    yield from flat("limits", spec.get("limits"))


def _distinct(folder: str | Path, columns: list[str]) -> list[dict[str, Any]]:
    """Values of these columns over all runs, failed ones included, and the first run of each."""
    read = [*columns, *_EXAMPLE]
    tables = read_runs(folder, read, ok_only=False), read_failures(folder, read)
    found: list[dict[str, Any]] = (
        pa.concat_tables(tables)
        .group_by(columns, use_threads=False)
        .aggregate([(name, "first") for name in _EXAMPLE])
        .rename_columns([*columns, *_EXAMPLE])
        .to_pylist()
    )  # fmt: skip
    return found


def _text(values: dict[str, str]) -> str:
    if not values:
        return "none"
    shown = [textwrap.shorten(v, _VALUE_WIDTH) for v in list(values.values())[:_SHOWN_VALUES]]
    left = len(values) - len(shown)
    return ", ".join(shown) + (f" and {left:,} more" if left else "")
