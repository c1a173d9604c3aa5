"""A checked specification as a list of chunks: which runs there are, and which share a program."""

from __future__ import annotations

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import llvmlite
import numba
import numpy as np

from stepsim._version import MODEL_VERSION, __version__
from stepsim.errors import SweepError
from stepsim.sweep.decoder_kind import DecoderShape
from stepsim.sweep.designs import Point, fit, resolve_points
from stepsim.sweep.kinds import Shape, find_shape
from stepsim.sweep.pairs import pair_traces
from stepsim.sweep.problems import Problems, SeveralProblems, listing
from stepsim.sweep.schema import METRICS, SWEEP_SCHEMA_VERSION
from stepsim.sweep.selection import kv_traces, routing_traces
from stepsim.sweep.spec import Draft, SweepSpec
from stepsim.sweep.traces import NO_TRACE, Trace

__all__ = ["Chunk", "Plan", "Point", "make_plan"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Runs that are computed and saved together: one design on several traces of one batch size.

    Attributes
    ----------
    key : name of its files.
    metrics : totals to keep.
    """

    key: str
    point: Point
    traces: tuple[Trace, ...]
    metrics: frozenset[str]
    memory_model: str
    units: bool
    limits: Mapping[str, int | None]

    def run_key(self, trace: Trace) -> str:
        """What makes a run what it is, apart from the versions of the software."""
        content = [*self.point.content, trace.key, dict(self.limits)]
        text = json.dumps(content, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


@dataclass(frozen=True)
class Plan:
    """All runs of a sweep.

    Attributes
    ----------
    examples : a trace that fits each design point, by its index.
    misfits : which design points do not fit some of the traces; these runs become failures.
    """

    spec: SweepSpec
    points: tuple[Point, ...]
    traces: tuple[Trace, ...]
    examples: Mapping[int, Trace]
    misfits: tuple[str, ...] = ()

    @property
    def runs(self) -> int:
        return len(self.points) * len(self.traces)

    @property
    def unreadable(self) -> list[str]:
        """Why traces cannot be used; their runs become failures."""
        return [trace.error for trace in self.traces if trace.error]

    def chunks(self) -> Iterator[Chunk]:
        """Chunks in a fixed order that does not depend on how they are executed."""
        metrics = frozenset(self.spec.metrics or METRICS)
        for point in self.points:
            number = 0
            for group in self.groups():
                for first in range(0, len(group), self.spec.chunk):
                    yield Chunk(
                        key=f"{point.index:04d}-{number:05d}",
                        point=point,
                        traces=tuple(group[first : first + self.spec.chunk]),
                        metrics=metrics,
                        memory_model=self.spec.memory_model,
                        units=self.spec.units,
                        limits=self.spec.limits.model_dump(),
                    )
                    number += 1

    def groups(self) -> list[list[Trace]]:
        """Traces that share a program where one is shared; bad ones come along where they stand."""
        groups: dict[object, list[Trace]] = {}
        for trace in self.traces:
            size: object = None if self.spec.workload == "attention" else trace.rows
            if trace.lengths is not None:
                size = size, trace.lengths.identity
            groups.setdefault(size, []).append(trace)
        return list(groups.values())

    def digest(self) -> str:
        """Equal plans give equal rows."""
        keys = [chunk.run_key(trace) for chunk in self.chunks() for trace in chunk.traces]
        spec = self.spec.model_dump(include={"metrics", "memory_model", "units", "chunk"})
        # The keys know traces by content, the rows name them, too.
        names = [point.label for point in self.points] + [
            source.label for t in self.traces for source in (t, t.lengths) if source is not None
        ]
        content = [keys, spec, versions(), SWEEP_SCHEMA_VERSION, names]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def versions() -> dict[str, str]:
    """What the rows of this process depend on."""
    return {
        "stepsim": __version__,
        "model": str(MODEL_VERSION),
        "python": platform.python_version(),
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "numpy": np.__version__,
    }


def make_plan(draft: Draft) -> Plan:
    """Resolve models, machines, parameters and traces, and check all of them.

    Raises
    ------
    SweepError
        Something does not exist or fit. All that can be told is told at once, and nothing has run.
    """
    spec, problems = draft.spec, Problems()
    if spec is None:
        raise draft.refusal()
    # What depends on keys that are wrong is left alone: nobody knows what they should say.
    shape: Shape = None
    if "model" not in draft.wrong:
        with problems.collected():
            shape = find_shape(spec.workload, spec.model)
    shape_known = shape is not None or spec.workload == "swiglu"
    traces: list[Trace] = []
    if shape_known and not draft.wrong & {"traces", "lengths", "pairs"}:
        with problems.collected():
            traces = _usable(_numbered(_traces(spec, shape)))
    points: dict[str, Point] = {}
    if not draft.wrong & {"grid", "points", "parameters"}:
        points = resolve_points(
            spec, shape, traces, problems,
            shape_known=shape_known, machine_known="machine" not in draft.wrong,
        )  # fmt: skip
    fits = {where: fit(point, traces) for where, point in points.items()}
    for where, found in fits.items():
        if found.misfit and found.example is None:
            problems.add_of_point(where, found.misfit)
    told = problems.listed()
    if told or draft.problems:
        raise draft.refusal(told)
    return Plan(
        spec,
        tuple(points.values()),
        tuple(traces),
        examples={point.index: fits[where].example or NO_TRACE for where, point in points.items()},
        misfits=tuple(f"{where}: {found.misfit}" for where, found in fits.items() if found.misfit),
    )


def _traces(spec: SweepSpec, shape: Shape) -> list[Trace]:
    if spec.workload != "decoder":
        given = [key for key in ("lengths", "pairs") if getattr(spec, key) is not None]
        if given:
            raise SeveralProblems(
                [f"{key}: is for workload decoder; remove the key" for key in given]
            )
    if spec.workload == "swiglu":
        if spec.traces is not None:
            raise SweepError("traces: workload swiglu depends on no data; remove the key")
        return [NO_TRACE]
    if isinstance(shape, DecoderShape):
        return _decoder_traces(spec, shape)
    if spec.traces is None:
        raise SweepError(_missing_traces(spec))
    if spec.workload == "attention":
        return kv_traces(spec.traces)
    return routing_traces(spec.traces, shape)  # type: ignore[arg-type]


def _decoder_traces(spec: SweepSpec, shape: DecoderShape) -> list[Trace]:
    problems = Problems()
    routing: list[Trace] = []
    lengths: list[Trace] = []
    if spec.traces is None:
        problems.add(_missing_traces(spec))
    else:
        with problems.collected():
            routing = routing_traces(spec.traces, shape.moe)
    if spec.lengths is None:
        problems.add("lengths: missing; workload decoder needs files of cache lengths")
    else:
        with problems.collected():
            lengths = kv_traces(spec.lengths, "lengths")
    if problems.listed():
        raise SeveralProblems(problems.listed())
    return pair_traces(routing, lengths, spec.pairs or "all")


def _missing_traces(spec: SweepSpec) -> str:
    return f"traces: missing; workload {spec.workload} needs files or synthetic ones"


def _usable(traces: list[Trace]) -> list[Trace]:
    bad = [trace.error for trace in traces if trace.error]
    if len(bad) == len(traces):
        raise SweepError(
            f"traces: none of {len(traces)} can be used; mend them or choose others:" + listing(bad)
        )
    return traces


def _numbered(traces: list[Trace]) -> list[Trace]:
    """Tell copies of a trace under several names apart, for each run to have a key of its own."""
    seen: Counter[tuple[Any, ...]] = Counter()
    numbered = []
    for trace in traces:
        numbered.append(replace(trace, copy=seen[trace.key]))
        seen[trace.key] += 1
    return numbered
