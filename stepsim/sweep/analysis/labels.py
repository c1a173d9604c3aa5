"""Short names of design points and runs, which state only their differences."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from stepsim.documents import parse_json
from stepsim.errors import SweepError

POINT_COLUMNS = (
    "run", "design", "point", "workload", "model", "parameters", "machine", "machine_json",
)  # fmt: skip
"""Columns of the runs that `label_points` looks at."""

TRACE_COLUMNS = (
    "trace", "layer", "step", "window", "replicate", "lengths", "lengths_step", "lengths_window",
)  # fmt: skip
"""Columns that distinguish the runs of a design point."""

_WORDS = ("name", "description")

_Row = Mapping[str, Any]
_Key = TypeVar("_Key")


def label_points(
    folder: str | Path, rows: Mapping[int, _Row], specified: Sequence[str],
    replicates: Collection[str] = (),
) -> dict[int, str]:  # fmt: skip
    """``tile=8 machine.hbm.channels=16``: what differs among design points.

    Parameters
    ----------
    folder : folder of the sweep, for messages.
    rows : one run of every design point, any of them.
    specified : keys of the specification, which come first. Machines with different names show
        these keys only; the name represents the rest.
    replicates : axes that belong to the runs of a design point.

    Raises
    ------
    SweepError
        A row has no JSON objects as parameters and machine.
    """
    machines = {point: _machine(folder, row) for point, row in rows.items()}
    everything = point_values(folder, rows, replicates)
    shown = _varying(list(everything.values()))
    named: dict[str, list[_Row]] = {}
    for point, row in rows.items():
        named.setdefault(row["machine"], []).append(machines[point])
    own = {key for group in named.values() for key in _varying(group)}.union(specified)
    kept = [key for key in shown if key in own or not key.startswith("machine.")]
    shown = sorted(kept, key=lambda key: [*specified, key].index(key))
    labels = {
        point: _text({key: values.get(key) for key in shown})
        or " ".join(filter(None, (rows[point]["workload"], rows[point]["model"])))
        for point, values in everything.items()
    }
    return _distinct(labels, lambda point: f"design {point}")


def point_values(
    folder: str | Path, rows: Mapping[int, _Row], replicates: Collection[str] = ()
) -> dict[int, dict[str, Any]]:
    """Parameters and the machine of design points, by the keys of a specification.

    Without those of ``replicates``, which differ among the runs of a point.

    Raises
    ------
    SweepError
        A row has no JSON objects as parameters and machine.
    """
    found = {
        point: nested(folder, row, "parameters")
        | {"machine": row["machine"]}
        | _machine(folder, row)
        for point, row in rows.items()
    }
    return {
        point: {key: value for key, value in values.items() if key not in replicates}
        for point, values in found.items()
    }


def label_runs(rows: Sequence[_Row], points: Mapping[int, str]) -> dict[str, str]:
    """``tile=8 layer=3 step=7``: what differs among runs, by key, with labels of their points."""
    shown = _varying([{name: row[name] for name in TRACE_COLUMNS} for row in rows])
    several = len({row["point"] for row in rows}) > 1
    labels = {}
    for row in rows:
        trace = _text({name: row[name] for name in shown if row[name] is not None})
        design = points[row["point"]] if several or not trace else ""
        labels[row["run"]] = " ".join(filter(None, (design, trace)))
    return _distinct(labels, lambda run: f"run {run}")


def flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """``machine.hbm.channels`` and its value, for all leaves of nested mappings."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flat(f"{path}.{key}" if path else key, inner)
    else:
        yield path, value


def nested(folder: str | Path, row: _Row, column: str) -> dict[str, Any]:
    """The JSON object in a column of a row; the row also has its run and design.

    Raises
    ------
    SweepError
        The text is not a JSON object.
    """
    where = f"{folder}: run {row['run']} of design {row['design']}, column {column}"
    found = parse_json(row[column], where, SweepError).data
    if not isinstance(found, dict):
        raise SweepError(
            f"{where}: expected a JSON object, found {row[column]:.40}; delete the file of the "
            "design and run the sweep again with --resume"
        )
    return found


def _machine(folder: str | Path, row: _Row) -> dict[str, Any]:
    """Values of the machine by the keys of a specification: ``machine.hbm.channels``."""
    machine = nested(folder, row, "machine_json")
    return dict(flat("machine", {k: v for k, v in machine.items() if k not in _WORDS}))


def _varying(rows: Sequence[_Row]) -> list[str]:
    """Keys with several values, or that some rows lack."""
    keys = dict.fromkeys(key for row in rows for key in row)
    return [key for key in keys if len({repr(row.get(key)) for row in rows}) > 1]


def _text(values: _Row) -> str:
    return " ".join(
        f"{key}={value if isinstance(value, str) else json.dumps(value)}"
        for key, value in values.items()
    )


def _distinct(labels: dict[_Key, str], more: Callable[[_Key], str]) -> dict[_Key, str]:
    """Extend equal labels, as those of machines that differ only in their description."""
    times = Counter(labels.values())
    return {
        key: f"{label} ({more(key)})" if times[label] > 1 else label
        for key, label in labels.items()
    }
