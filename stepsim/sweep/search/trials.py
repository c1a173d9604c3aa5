"""Simulating designs of a search, through the store of a sweep that grows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from stepsim.errors import SweepError
from stepsim.machine import Machine, load_machine
from stepsim.results import MEASURES
from stepsim.sweep.analysis.labels import flat
from stepsim.sweep.backends import Backend
from stepsim.sweep.planning.designs import Design, resolve_points
from stepsim.sweep.planning.needed_traces import Needs, traces_of, unread_keys
from stepsim.sweep.planning.optional_measures import measure_problems, optional_measures
from stepsim.sweep.planning.plan import CODE, Plan, differing_parts
from stepsim.sweep.planning.points import Point
from stepsim.sweep.planning.services import (
    columns_of,
    design_of,
    fit_of,
    machines_of,
    source_of,
)
from stepsim.sweep.planning.traces import NO_TRACE, Trace
from stepsim.sweep.running.dispatch import dispatch
from stepsim.sweep.running.work import ChunkRows
from stepsim.sweep.search.spec import TuneSpec
from stepsim.sweep.spec.filter_types import Kinds, kinds_of
from stepsim.sweep.spec.problems import Problems
from stepsim.sweep.spec.reading import Draft
from stepsim.sweep.spec.services import key_problems
from stepsim.sweep.storage.digests import digest_of_json
from stepsim.sweep.storage.saving import Saving
from stepsim.sweep.storage.store import Store
from stepsim.workloads import Source

_OF_ROWS = (
    "parameters", "model", "machine", "traces", "lengths", "pairs", "metrics", "counting", "units",
    "limits", "chunk",
)  # fmt: skip
"""Keys other than the axes that rows depend on: if they differ, a folder holds another search."""


_KINDS: Mapping[str, Kinds] = {
    "bool": kinds_of([True]),
    "int64": kinds_of([1]),
    "double": kinds_of([1.0]),
}
"""Kinds of columns by their Arrow types."""


@dataclass(frozen=True)
class SearchPlan(Plan):
    """The designs chosen so far. Its identity does not change as it grows."""

    @cached_property
    def parts(self) -> dict[str, str]:
        """SHA-256 of the inputs of the rows, apart from versions and the designs."""
        later = {
            name
            for name in ("ensemble", "bounds", "batch", "service")
            if getattr(self.spec, name) not in (None, False)
        }
        keys = {*_OF_ROWS, *later}
        common = self.spec.model_dump(mode="json", include=keys)
        contents = {"workload": self.source.text, CODE: self.source.digest, **common}
        return {name: digest_of_json(content) for name, content in contents.items()}

    def differences(self, parts: Mapping[str, str]) -> list[str]:
        return differing_parts(self.parts, parts)


@dataclass(frozen=True)
class Refused:
    """A design that cannot be run, with the reason."""

    reason: str


class TrialPlanner:
    """Resolves one design after the other; traces and machines are read once."""

    def __init__(self, draft: Draft) -> None:
        spec = draft.spec
        if not isinstance(spec, TuneSpec):
            raise draft.refusal()
        problems = Problems(draft.lines)
        if "grid" not in draft.wrong and "search" not in draft.wrong:
            for problem in spec.search_problems():
                problems.add(problem)
        for problem in key_problems(spec):
            problems.add(problem)
        with problems.collected("workload"):
            self.source: Source = source_of(spec)
        listed = problems.listed()
        if listed or draft.problems:
            raise draft.refusal(listed)
        self.spec = spec
        self._draft = draft
        self._workload = self.source.load()
        self._machines: dict[str, Any] = {}
        self._read: dict[Needs, tuple[Trace, ...]] = {}
        self._check_axes()
        if absent := measure_problems(spec, self.optional_measures):
            raise draft.refusal(absent)

    def refusal(self, problem: str) -> SweepError:
        """The error for another problem of the specification, with its line."""
        return self._draft.refusal([problem])

    def machines(self) -> list[dict[str, Any]]:
        """Values of the machines of designs, one for each that can be chosen, with the first value
        of every other axis.
        """
        axes = {name: values[0] for name, values in self.spec.grid.items()}
        return [{**_values_of(load_machine(one)), **axes} for one in machines_of(self.spec)]

    def kinds(self) -> dict[str, Kinds]:
        """Names that conditions and costs may use apart from metrics, with the kinds of their
        values."""
        spec = self.spec
        usual = machines_of(spec.model_copy(update={"grid": {}}))
        machine = [pair for one in usual for pair in _values_of(load_machine(one)).items()]
        found = {name: kinds_of([value]) for name, value in machine}
        # A text may also be a number, as for a tile that may be 16 or dynamic.
        for name, column in columns_of(self._workload).items():
            found[name] = _KINDS.get(str(column.type), frozenset())
        for name in dict.fromkeys([*spec.grid, *(key for point in spec.points for key in point)]):
            listed = [point[name] for point in spec.points if name in point]
            found[name] = kinds_of([*spec.grid.get(name, ()), *listed])
        return found

    def point(
        self, design: Mapping[str, Any], index: int
    ) -> tuple[Point, Sequence[Trace]] | Refused:
        """A design with its traces."""
        problems = Problems()
        one = self._design(dict(design), index, problems)
        if one.check(machine_known=True):
            traces = traces_of(self.spec, self._workload, [one], problems, self._read)
            (point,) = resolve_points([one], traces, problems).values() or (None,)
            if point is not None and index in traces:
                tried = fit_of(point, traces[index], build=False)
                if not tried.misfit:
                    return point, traces[index]
                problems.add_of_point(one.where, tried.misfit)
        return Refused("; ".join(problems.listed()).partition(": ")[2])

    def plan(self, designs: Sequence[Mapping[str, Any]], resolved: Sequence[Any]) -> SearchPlan:
        """The plan of some designs, each with its point and traces."""
        listed = [dict(design) for design in designs]
        spec = self.spec.model_copy(update={"grid": {}, "points": listed})
        points = tuple(point for point, _ in resolved)
        traces = {point.index: tuple(own) for point, own in resolved}
        examples = {
            index: next((one for one in own if not one.error), NO_TRACE)
            for index, own in traces.items()
        }
        return SearchPlan(
            spec, self.source, points, traces, examples, optional=self.optional_measures
        )

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """All measures that the runs of this search have."""
        always = MEASURES if self.spec.service is None else ()
        return tuple(dict.fromkeys([*(self.spec.metrics or always), *self.optional_measures]))

    @cached_property
    def optional_measures(self) -> tuple[str, ...]:
        """Optional measures that the runs of this search have."""
        machines = [load_machine(one).to_dict() for one in machines_of(self.spec)]
        return optional_measures(self.spec, machines)

    def _check_axes(self) -> None:
        """Every value of an axis, combined with the first values of the others."""
        first = {name: values[0] for name, values in self.spec.grid.items()}
        problems = Problems(self._draft.lines)
        valid: list[Design] = []
        singles = [first] + [
            first | {name: value} for name, values in self.spec.grid.items() for value in values
        ]
        for design in [*singles, *self.spec.points]:
            alone = self._design(design, 0, problems)
            if not alone.check(machine_known=True):
                continue
            if not valid:
                traces_of(self.spec, self._workload, [alone], problems, self._read)
            valid.append(alone)
        for problem in unread_keys(self.spec, self._workload, valid):
            problems.add(problem)
        listed = problems.listed()
        if listed:
            raise self._draft.refusal(listed)

    def _design(self, design: Mapping[str, Any], index: int, problems: Problems) -> Design:
        spec = self.spec
        listed = next((i for i, one in enumerate(spec.points) if one == design), -1)
        return design_of(spec)(
            spec, self.source, spec.common(), design, index, listed, problems, self._machines
        )


@dataclass
class Trials:
    """All simulated designs with their rows; known designs are not run again."""

    planner: TrialPlanner
    designs: list[dict[str, Any]] = field(default_factory=list)
    _resolved: list[tuple[Point, Sequence[Trace]]] = field(default_factory=list)
    _by_content: dict[str, int] = field(default_factory=dict)
    _rows: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    _failures: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, design: Mapping[str, Any]) -> int | Refused:
        """The number of a design; the same for those that are equal once defaults are filled in."""
        found = self.planner.point(design, len(self.designs))
        if isinstance(found, Refused):
            return found
        content = json.dumps(found[0].content, sort_keys=True)
        if content in self._by_content:
            return self._by_content[content]
        index = self._by_content[content] = len(self.designs)
        self.designs.append(dict(design))
        self._resolved.append(found)
        return index

    def plan(self) -> SearchPlan:
        """All designs, in the order in which they were added."""
        return self.planner.plan(self.designs, self._resolved)

    def take_saved(self, store: Store) -> None:
        """Rows that an earlier start saved.

        Raises
        ------
        SweepError
            The rows belong to other machines or traces than these designs have now.
        """
        for name in ("runs", "failures"):
            for table in store.tables(name):
                self._take(name, table.to_pylist())
        plan = self.plan()
        for chunk in plan.chunks():
            keys = {chunk.run_key(trace) for trace in self._resolved[chunk.point.index][1]}
            known = [
                *self._rows.get(chunk.point.index, ()),
                *self._failures.get(chunk.point.index, ()),
            ]
            if any(row["run"] not in keys for row in known):
                raise SweepError(
                    f"{store.folder}: holds another search: machine, traces or defaults of design "
                    f"'{chunk.point.label}' differ now; choose another folder"
                )

    def run(self, saving: Saving, backend: Backend) -> Mapping[str, str]:
        """Simulate the missing runs; returns the reason for each chunk that cannot be computed."""

        def save(rows: ChunkRows) -> None:
            saving.save(rows)
            self._take("runs", rows.runs)
            self._take("failures", rows.failures)

        return {chunk.key: why for chunk, why in dispatch(saving.missing(), backend, save)}

    def failure(self, index: int) -> str:
        """Why a design cannot be judged: the first of its runs that failed on a good trace."""
        bad = {trace.error for trace in self._resolved[index][1] if trace.error}
        for row in self._failures.get(index, ()):
            if row["message"] not in bad:
                return f"{row['error']}: {row['message']}"
        return "" if self._rows.get(index) else "has no run that ended"

    def rows(self, index: int) -> list[dict[str, Any]]:
        """The successful runs of a design."""
        return [row for row in self._rows.get(index, ()) if row["status"] == "ok"]

    def values(self, index: int) -> dict[str, Any]:
        """Values that conditions and costs may name, apart from metrics: axes, parameters,
        machine."""
        point = self._resolved[index][0]
        machine = dict(flat("machine", point.machine_values))
        return {**machine, **point.content[1], **self.designs[index]}

    def _take(self, name: str, rows: Sequence[dict[str, Any]]) -> None:
        kept = self._rows if name == "runs" else self._failures
        for row in rows:
            kept.setdefault(row["point"], []).append(row)


def _values_of(machine: Machine) -> dict[str, Any]:
    """Values of a machine by the keys of a specification."""
    return dict(flat("machine", machine.to_dict()))
