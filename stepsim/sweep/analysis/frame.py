"""The runs of a sweep that succeeded, with the values of their designs and shared traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepsim.deferred import deferred
from stepsim.errors import ArgError, SweepError
from stepsim.results import EVERY_MEASURE, MEASURES
from stepsim.sweep.analysis.labels import (
    POINT_COLUMNS,
    TRACE_COLUMNS,
    label_points,
    point_values,
)
from stepsim.sweep.analysis.objectives import COST, Objective, weighted_cost
from stepsim.sweep.analysis.statistics import Statistics, statistics
from stepsim.sweep.analysis.tables import read_failures, read_runs
from stepsim.sweep.spec.filter_types import Kinds, kinds_of
from stepsim.sweep.spec.filters import find_name, names_ending_with, parse_condition
from stepsim.sweep.storage.manifest import read_manifest

if TYPE_CHECKING:
    from stepsim.sweep.analysis import absence
else:
    absence = deferred("stepsim.sweep.analysis.absence")

_CONTENT = ("trace_id", "lengths_id")
TraceKey = tuple[Any, ...]


@dataclass(frozen=True)
class Frame:
    """Runs by design point.

    Attributes
    ----------
    folder : of the sweep.
    designs : values of each design point by full name: its axes, parameters and machine.
    labels : short names of the design points, which state their differences.
    axes : names of the axes, in the order of the specification.
    runs : by design point and trace.
    """

    folder: str
    designs: Mapping[int, Mapping[str, Any]]
    labels: Mapping[int, str]
    axes: tuple[str, ...]
    runs: Mapping[int, Mapping[TraceKey, Mapping[str, Any]]]

    @cached_property
    def varying(self) -> tuple[str, ...]:
        """Names whose values differ among the design points."""
        names = dict.fromkeys(name for values in self.designs.values() for name in values)
        return tuple(
            name
            for name in names
            if len({repr(values.get(name)) for values in self.designs.values()}) > 1
        )

    @property
    def constants(self) -> dict[str, Any]:
        """Values that all design points share."""
        first = next(iter(self.designs.values()))
        return {name: value for name, value in first.items() if name not in self.varying}

    def where(self, condition: str) -> Frame:
        """The runs that satisfy a condition on their columns and the values of their designs.

        Raises
        ------
        ArgError
            The condition cannot be read, or has an unknown name.
        SweepError
            No run satisfies it.
        """
        found = parse_condition(condition).resolved(self.kinds())
        kept = {
            point: {
                key: row
                for key, row in own.items()
                if found.holds({n: {**row, **self.designs[point]}.get(n) for n in found.names})
            }
            for point, own in self.runs.items()
        }
        kept = {point: own for point, own in kept.items() if own}
        if not kept:
            raise SweepError(f"{self.folder}: no run that succeeded satisfies '{condition}'")
        return self.of(kept)

    def of(self, runs: Mapping[int, Mapping[TraceKey, Mapping[str, Any]]]) -> Frame:
        """Some of the runs, by design point and trace."""
        designs = {point: self.designs[point] for point in runs}
        labels = {point: self.labels[point] for point in runs}
        return Frame(self.folder, designs, labels, self.axes, runs)

    def kinds(self) -> dict[str, Kinds]:
        """Names that conditions may use, with the kinds of their values, also of designs that have
        no runs.
        """
        seen: dict[str, list[Any]] = {}
        for values in [*self.designs.values(), *read_manifest(self.folder).designs.values()]:
            for name, value in values.items():
                seen.setdefault(name, []).append(value)
        rows = [row for own in self.runs.values() for row in own.values()]
        found = {name: kinds_of(values) for name, values in seen.items()}
        found |= {name: kinds_of(row[name] for row in rows) for name in TRACE_COLUMNS}
        return found | {name: kinds_of([0.0]) for name in _measures(self.folder)}

    def design_value(self, name: str) -> str | None:
        """The full name of the axis, parameter or field of the machine that ``name`` is short for,
        as ``channels`` for ``machine.hbm.channels``; None if there is none.

        Raises
        ------
        ArgError
            The name is ambiguous.
        """
        known = dict.fromkeys(full for values in self.designs.values() for full in values)
        return find_name(name, known, "metric") if names_ending_with(name, known) else None

    def numbers(self, name: str) -> dict[int, float]:
        """A design value by design point, by its full name.

        Raises
        ------
        SweepError
            A value is not a number.
        """
        found = {}
        for point, values in self.designs.items():
            value = values.get(name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise SweepError(
                    f"{self.folder}: {name} of design point '{self.labels[point]}' is {value!r}, "
                    "expected a number to compare designs by; choose another metric, or leave "
                    "these designs out with --where"
                )
            found[point] = float(value)
        return found

    def grouped(self, by: Sequence[str]) -> list[tuple[tuple[Any, ...], Frame]]:
        """The runs by the values of columns, such as layer and step, in ascending order.

        Raises
        ------
        ArgError
            A column is unknown, or named twice.
        """
        names = self._columns_named(by)
        # By their text, since values of axes may be lists and mappings.
        groups: dict[str, tuple[Any, ...]] = {}
        found: dict[str, dict[int, dict[TraceKey, Mapping[str, Any]]]] = {}
        for point, own in self.runs.items():
            for key, row in own.items():
                values = {**row, **self.designs[point]}
                group = tuple(values.get(name) for name in names)
                text = repr(group)
                groups[text] = group
                found.setdefault(text, {}).setdefault(point, {})[key] = row
        order = sorted(groups, key=lambda text: group_order(groups[text]))
        return [(groups[text], self.of(found[text])) for text in order]

    def values(
        self,
        point: int,
        objective: Objective,
        traces: Iterable[TraceKey],
        weights: Mapping[str, float] | None,
    ) -> Statistics:
        """A metric of a design point over traces.

        Raises
        ------
        SweepError
            A run does not have it.
        """
        return statistics([self.value(point, key, objective.metric, weights) for key in traces])

    def value(
        self, point: int, trace: TraceKey, metric: str, weights: Mapping[str, float] | None
    ) -> float:
        """A metric of one run; raises like `values`."""
        row = self.runs[point][trace]
        if metric == COST:
            return self.cost(point, row, weights)
        found = row.get(metric)
        if found is None:
            raise SweepError(
                f"{self.folder}: run {row['run']} has no {metric}; "
                f"{absence.why_absent(self.folder, [metric], [row['run']])}"
            )
        return float(found)

    def cost(
        self, point: int, row: Mapping[str, Any], weights: Mapping[str, float] | None
    ) -> float:
        """The cost of a run by weights, or by the prices of its machine."""
        return weighted_cost(
            weights,
            {**row, **self.designs[point]},
            lambda name: absence.why_absent(self.folder, [name], [row["run"]]),
        )

    def _columns_named(self, by: Sequence[str]) -> list[str]:
        known = [*TRACE_COLUMNS, *_measures(self.folder), *self.varying, *self.axes]
        found: dict[str, str] = {}
        for name in by:
            full = find_name(name, known, "--per or --by")
            if full in found:
                raise ArgError(
                    f"--per or --by: '{found[full]}' and '{name}' are the same column, {full}; "
                    "name it once"
                )
            found[full] = name
        return list(found)


def group_order(group: Iterable[Any]) -> list[tuple[bool, bool, Any]]:
    """A key to sort groups by: in each column numbers, then other values as text, then none."""
    return [
        (value is None, not is_number, value if is_number else str(value))
        for value in group
        for is_number in [isinstance(value, int | float)]
    ]


@dataclass(frozen=True, slots=True)
class Failed:
    """A run that failed.

    Attributes
    ----------
    label : its design and trace, as text.
    values : values of its columns and its design, by full name.
    """

    label: str
    error: str
    values: Mapping[str, Any]

    def is_on(self, traces: Iterable[TraceKey]) -> bool:
        """Whether its trace is one of these traces of a :class:`Frame`."""
        own = [self.values[name] for name in (*TRACE_COLUMNS, *_CONTENT)]
        # The last part of a key distinguishes copies; without contents, keys are shorter.
        return any(list(key[:-1]) == own[: len(key) - 1] for key in traces)


def read_failed(folder: str | Path) -> list[Failed]:
    """The runs of a sweep that failed.

    Raises
    ------
    SweepError
        The folder holds no sweep, or a file is damaged.
    """
    columns = dict.fromkeys(["run", "error", *POINT_COLUMNS, *TRACE_COLUMNS, *_CONTENT])
    rows = read_failures(folder, [*columns]).to_pylist()
    first = {row["point"]: row for row in reversed(rows)}
    values = _design_values(folder, first)
    designs = read_manifest(folder).designs
    found = []
    for row in rows:
        trace = {name: row[name] for name in TRACE_COLUMNS if row[name] is not None}
        label = " ".join(f"{name}={at}" for name, at in {**designs[row["design"]], **trace}.items())
        found.append(Failed(label, row["error"], {**row, **values[row["point"]]}))
    return found


def read_frame(folder: str | Path) -> Frame:
    """The runs of a sweep that succeeded.

    Raises
    ------
    SweepError
        The folder holds no sweep, a file is damaged, or no run succeeded.
    """
    columns = dict.fromkeys(
        ["run", "counting", *POINT_COLUMNS, *TRACE_COLUMNS, *_CONTENT, *_measures(folder)]
    )
    rows = read_runs(folder, [*columns]).to_pylist()
    if not rows:
        raise SweepError(f"{folder}: {absence.why_none_succeeded(folder)}")
    first: dict[int, Mapping[str, Any]] = {}
    runs: dict[int, dict[TraceKey, Mapping[str, Any]]] = {}
    # Each model has its own routings; those of the same layer, step and window are matched.
    content = _CONTENT if len({row["model"] for row in rows}) == 1 else ()
    for row in rows:
        point = row["point"]
        first.setdefault(point, row)
        own = runs.setdefault(point, {})
        key = tuple(row[name] for name in (*TRACE_COLUMNS, *content))
        copy = 0
        while (*key, copy) in own:
            copy += 1
        own[*key, copy] = row
    specified = _specified(folder)
    return Frame(
        str(folder),
        _design_values(folder, first),
        label_points(folder, first, specified, read_manifest(folder).replicates),
        tuple(specified),
        runs,
    )


def _specified(folder: str | Path) -> list[str]:
    designs = read_manifest(folder).designs.values()
    return list(dict.fromkeys(name for design in designs for name in design))


def _design_values(
    folder: str | Path, first: Mapping[int, Mapping[str, Any]]
) -> dict[int, dict[str, Any]]:
    """Values of design points by full name; ``first`` is a row of each."""
    manifest = read_manifest(folder)
    # For a tile that may be a number or a word, the rows have the text.
    given = {
        point: manifest.spec.get("parameters", {}) | manifest.designs[row["design"]]
        for point, row in first.items()
    }
    found = point_values(folder, first, manifest.replicates)
    return {p: {**values, **given[p]} for p, values in found.items()}


def _measures(folder: str | Path) -> list[str]:
    """The measures of the runs of a folder."""
    added = read_manifest(folder).parameters
    return [*MEASURES, *(name for name in EVERY_MEASURE if name in added)]
