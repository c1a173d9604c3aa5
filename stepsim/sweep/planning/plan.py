"""A checked specification as a list of chunks: all runs, and which of them share a program."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from stepsim._version import MODEL_VERSION, __version__
from stepsim.errors import MachineError
from stepsim.kernels import compiler_versions
from stepsim.lowering import engine_plugins
from stepsim.machine import load_machine
from stepsim.results import MEASURES
from stepsim.simulation import check_columns
from stepsim.sweep.planning.designs import Design, read_designs, resolve_points
from stepsim.sweep.planning.needed_traces import traces_of, unread_keys
from stepsim.sweep.planning.optional_measures import (
    measure_columns,
    measure_problems,
    optional_measures,
)
from stepsim.sweep.planning.points import Point, is_checked_by_building
from stepsim.sweep.planning.services import (
    columns_of,
    design_of,
    fit_of,
    limit_problems,
    source_of,
)
from stepsim.sweep.planning.traces import NO_TRACE, Trace, of_traces
from stepsim.sweep.spec.problems import Problems
from stepsim.sweep.spec.reading import Draft
from stepsim.sweep.spec.services import key_problems
from stepsim.sweep.spec.sizes import MOST_RUNS, check_size
from stepsim.sweep.spec.specification import SweepSpec
from stepsim.sweep.storage.digests import digest_of_json
from stepsim.sweep.storage.schema import SWEEP_SCHEMA_VERSION
from stepsim.typed import typed
from stepsim.workloads import (
    Source,
    Workload,
)

__all__ = ["CODE", "Chunk", "Plan", "Point", "make_plan", "versions"]

CODE = "the workload's file"
"""The part of a plan that is the code of a user's workload."""

DESIGN_POINTS = "design points"
OF_POINTS = frozenset(("parameters", "machine", "config", "origins", "counting", "traces", "place"))
"""Parts of a plan that have a value for each design point."""

_BUILT = 64
"""Number of design points whose programs are built to check them, if nothing else does."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Runs that are computed and saved together: one design on several traces of one batch size.

    Attributes
    ----------
    key : name of its files.
    metrics : totals to keep.
    ensemble : number, seed and bounds of the disturbed runs of each run; None without them.
    bounds : whether to find what bounds each run.
    """

    key: str
    point: Point
    traces: tuple[Trace, ...]
    metrics: frozenset[str]
    units: bool
    limits: Mapping[str, int | None]
    ensemble: Mapping[str, Any] | None = None
    bounds: bool = False

    def run_key(self, trace: Trace) -> str:
        """The key of a run: all of its inputs except the code of the workload and of stepsim."""
        return digest_of_json([*self.point.content, trace.key, dict(self.limits)])[:20]


@dataclass(frozen=True)
class Plan:
    """All runs of a sweep.

    Attributes
    ----------
    source : where the workload comes from.
    traces_of : the traces of each design point, by its index; models differ in their routing.
    examples : a trace that fits each design point, by its index.
    misfits : design points that do not fit some of the traces; these runs become failures.
    optional : optional measures that the runs of this sweep have.
    """

    spec: SweepSpec
    source: Source
    points: tuple[Point, ...]
    traces_of: Mapping[int, tuple[Trace, ...]]
    examples: Mapping[int, Trace]
    misfits: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    @property
    def runs(self) -> int:
        return sum(map(len, self.traces_of.values()))

    @cached_property
    def workload(self) -> type[Workload]:
        return self.source.load()

    @cached_property
    def columns(self) -> dict[str, pa.Field]:
        """Columns of the parameters of its runs, and of measures that not all sweeps have."""
        return columns_of(self.workload) | measure_columns(self.optional)

    @property
    def traces(self) -> list[Trace]:
        """All traces, each once."""
        different = {id(own): own for own in self.traces_of.values()}
        return [trace for own in different.values() for trace in own]

    @property
    def size(self) -> str:
        """``24 runs: 4 design points x 6 traces``: how much there is to do, in words."""
        replicates = self.spec.replicate_count
        counts = [_count(len(self.points) // replicates, "design point")]
        if replicates > 1:
            counts.append(_count(replicates, "replicate"))
        if self.workload.inputs:
            counts.append(_count(len(self.traces), "trace"))
        return f"{_count(self.runs, 'run')}: {' x '.join(counts)}"

    @property
    def unreadable(self) -> list[str]:
        """Why traces cannot be used; their runs become failures."""
        return [trace.error for trace in self.traces if trace.error]

    @typed
    def chunks(self) -> Iterator[Chunk]:
        """Chunks in a fixed order that does not depend on how they are executed."""
        metrics = frozenset(self.spec.metrics or (*MEASURES, *self.optional))
        options = self.spec.ensemble
        ensemble = None if options is None else options.model_dump()
        for point in self.points:
            number = 0
            for group in self.groups(point):
                for first in range(0, len(group), self.spec.chunk):
                    yield Chunk(
                        key=f"{point.index:04d}-{number:05d}",
                        point=point,
                        traces=tuple(group[first : first + self.spec.chunk]),
                        metrics=metrics,
                        units=self.spec.units,
                        limits=self.spec.limits.model_dump(),
                        ensemble=ensemble,
                        bounds=self.spec.bounds,
                    )
                    number += 1

    def groups(self, point: Point) -> list[list[Trace]]:
        """Traces grouped by shared program; bad traces stay at their place in the order."""
        own = self.traces_of[point.index]
        if not self.shares_programs:
            return [list(own)]
        groups: dict[object, list[Trace]] = {}
        for trace in own:
            shape = trace.shape_for(self.workload, point.content[1])
            groups.setdefault(shape, []).append(trace)
        return list(groups.values())

    @property
    def shares_programs(self) -> bool:
        """Whether several traces of one size have the same program."""
        return set(of_traces(self.workload.inputs)).isdisjoint(self.workload.shaping())

    @cached_property
    def parts(self) -> dict[str, str]:
        """SHA-256 of each part that the rows depend on, by its name, apart from versions."""
        points = self.points
        # The keys of runs identify traces by content; the rows also have their names.
        traces = {
            point.index: [
                [trace.key, trace.label, trace.lengths and trace.lengths.label]
                for trace in self.traces_of[point.index]
            ]
            for point in points
        }
        contents: dict[str, Any] = {
            "workload": self.source.text,
            CODE: self.source.digest,
            DESIGN_POINTS: [point.label for point in points],
            "parameters": [point.content[1] for point in points],
            "machine": [point.machine_values for point in points],
            "config": [point.config for point in points],
            "origins": [dict(point.origins) for point in points],
            "counting": [point.counting for point in points],
            "traces": traces,
            **self.spec.model_dump(include={"limits", "metrics", "units", "chunk"}),
        }
        if self.spec.service is not None:
            contents["requests"] = [point.content[3:] for point in points]
        if self.spec.fix is not None:
            contents["fix"] = [point.fix and point.fix.data for point in points]
        if any(point.place is not None for point in points):
            contents["place"] = [point.place and point.place.content for point in points]
        if self.spec.ensemble is not None:
            contents["ensemble"] = self.spec.model_dump(include={"ensemble"})
        if self.spec.bounds:
            contents["bounds"] = True
        return {name: digest_of_json(content) for name, content in contents.items()}

    @typed
    def digest(self) -> str:
        """Equal plans give equal rows."""
        return digest_of_json([self.parts, versions(), SWEEP_SCHEMA_VERSION])

    def differences(self, parts: Mapping[str, str]) -> list[str]:
        """Names of the parts that differ in another plan."""
        differing = differing_parts(self.parts, parts)
        if DESIGN_POINTS in differing:
            # If the design points differ, everything does.
            differing = [name for name in differing if name not in OF_POINTS]
        return differing


def differing_parts(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Names of the parts that differ, and of those that only one of two plans has."""
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def versions() -> dict[str, str]:
    """Versions and code that the rows of this process depend on."""
    return {
        "stepsim": __version__,
        "model": str(MODEL_VERSION),
        "python": platform.python_version(),
        **compiler_versions(),
        **engine_plugins(),
    }


def make_plan(draft: Draft) -> Plan:
    """Resolve workload, models, machines, parameters and traces, and check all of them.

    Raises
    ------
    SweepError
        Something does not exist or fit. All errors are listed together, and nothing has run.
    UserCodeError
        The file of a user's workload raises.
    """
    spec, problems = draft.spec, Problems(draft.lines)
    if spec is None:
        raise draft.refusal()
    sources: list[Source] = []
    for problem in key_problems(spec):
        problems.add(problem)
    with problems.collected("workload"):
        sources.append(source_of(spec))
        check_columns(sources[0].load())
    if not sources:
        _check_alone(draft, spec, problems)
        raise draft.refusal(problems.listed())
    (source,) = sources
    workload = source.load()
    # Values that depend on wrong keys are not checked, since the right keys are unknown.
    designs: list[Design] = []
    if not draft.wrong & {"grid", "points", "parameters", "model"}:
        known = "machine" not in draft.wrong
        designs = read_designs(spec, source, problems, design_of(spec), machine_known=known)
    else:
        _check_alone(draft, spec, problems)
    traces: dict[int, tuple[Trace, ...]] = {}
    if spec.service is not None:
        traces = {design.index: (NO_TRACE,) for design in designs}
    elif not draft.wrong & {"traces", "lengths", "pairs"}:
        found = traces_of(spec, workload, designs, problems, {})
        for problem in unread_keys(spec, workload, designs):
            problems.add(problem)
        with problems.collected():
            runs = sum(map(len, found.values()))
            check_size("grid", runs, MOST_RUNS, "runs", "divide it, or draw a sample of the traces")
            traces = found
    points = resolve_points(designs, traces, problems)
    points = {where: point for where, point in points.items() if point.index in traces}
    # Whether a fix or a placement is for a program is known only when the program is built.
    build = is_checked_by_building(workload) and len(points) <= _BUILT
    fits = {
        where: fit_of(point, traces[point.index], build=build or point.is_of_one_program)
        for where, point in points.items()
    }
    for where, tried in fits.items():
        if tried.misfit and (tried.example is None or points[where].is_of_one_program):
            problems.add_of_point(where, tried.misfit)
    optional = optional_measures(spec, [point.machine_values for point in points.values()])
    limited = limit_problems(spec, dict.fromkeys(spec.metrics or (), "metrics"))
    for problem in [*measure_problems(spec, optional), *limited]:
        problems.add(problem)
    listed = problems.listed()
    if listed or draft.problems:
        raise draft.refusal(listed)
    return Plan(
        spec,
        source,
        tuple(points.values()),
        {point.index: traces[point.index] for point in points.values()},
        examples={point.index: fits[where].example or NO_TRACE for where, point in points.items()},
        misfits=tuple(f"{where}: {found.misfit}" for where, found in fits.items() if found.misfit),
        optional=optional,
    )


def _check_alone(draft: Draft, spec: SweepSpec, problems: Problems) -> None:
    """Check everything that does not need design points."""
    if "grid" not in draft.wrong:
        for problem in spec.axis_problems():
            problems.add(problem)
    if "machine" not in draft.wrong:
        with problems.collected():
            try:
                load_machine(spec.machine)
            except MachineError as error:
                problems.add(f"machine: {error}")
