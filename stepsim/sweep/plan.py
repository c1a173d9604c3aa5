"""A checked specification as a list of chunks: which runs there are, and which share a program."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np

from stepsim._version import MODEL_VERSION, __version__
from stepsim.errors import MachineError, SweepError
from stepsim.machine import Machine, load_machine
from stepsim.sweep.decoder_kind import DecoderShape
from stepsim.sweep.kinds import Shape, check_point, find_shape, resolve_parameters
from stepsim.sweep.pairs import pair_traces
from stepsim.sweep.problems import listing
from stepsim.sweep.schema import METRICS, SWEEP_SCHEMA_VERSION
from stepsim.sweep.selection import kv_traces, routing_traces
from stepsim.sweep.spec import SweepSpec
from stepsim.sweep.traces import NO_TRACE, Trace

__all__ = ["Chunk", "Plan", "Point", "make_plan"]

_LABEL_LENGTH = 80


@dataclass(frozen=True, slots=True)
class Point:
    """One design: everything but the trace.

    Attributes
    ----------
    index, label : number and short text, which names the partition of the results.
    """

    index: int
    label: str
    workload: str
    shape: Shape
    parameters: Mapping[str, Any]
    machine: Machine

    @property
    def content(self) -> list[Any]:
        """What it is however it is written: part of the keys of its runs."""
        return [self.workload, repr(self.shape), dict(self.parameters), self.machine.to_dict()]


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
    """All runs of a sweep."""

    spec: SweepSpec
    points: tuple[Point, ...]
    traces: tuple[Trace, ...]

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


def make_plan(spec: SweepSpec) -> Plan:
    """Resolve models, machines, parameters and traces, and check all of them.

    Raises
    ------
    SweepError
        Something does not exist or fit; nothing has run yet.
    TraceError
        A trace file cannot be opened at all.
    """
    shape = find_shape(spec.workload, spec.model)
    traces = _numbered(_traces(spec, shape))
    points: list[Point] = []
    problems: list[str] = []
    first: dict[str, str] = {}
    designs = spec.design_points()
    batches = {trace.rows for trace in traces if trace.rows is not None}
    for index, design in enumerate(designs):
        where = f"design point {index}" + (f" ({_text(design)})" if design else "")
        try:
            points.append(_point(spec, index, design, shape, batches, where))
            _check_batches(points[-1], traces, where)
            same = first.setdefault(json.dumps(points[-1].content, sort_keys=True), where)
            if same != where:
                raise SweepError(
                    f"is the same as {same} once defaults are filled in; take one of them out"
                )
        except (SweepError, MachineError) as error:
            text = str(error)
            problems.append(text if text.startswith(where) else f"{where}: {text}")
    if problems:
        raise SweepError(
            f"{len(problems)} of {len(designs)} design points are wrong:{listing(problems)}"
        )
    plan = Plan(spec, tuple(points), tuple(traces))
    if len(plan.unreadable) == len(traces):
        raise SweepError(
            f"traces: none of {len(traces)} can be used; mend them or choose others:"
            + listing(plan.unreadable)
        )
    return plan


def _traces(spec: SweepSpec, shape: Shape) -> list[Trace]:
    if spec.workload != "decoder":
        for key in ("lengths", "pairs"):
            if getattr(spec, key) is not None:
                raise SweepError(f"{key}: is for workload decoder; remove the key")
    if spec.workload == "swiglu":
        if spec.traces is not None:
            raise SweepError("traces: workload swiglu depends on no data; remove the key")
        return [NO_TRACE]
    if spec.traces is None:
        raise SweepError(f"traces: missing; workload {spec.workload} needs files or synthetic ones")
    if spec.workload == "attention":
        return kv_traces(spec.traces)
    if isinstance(shape, DecoderShape):
        if spec.lengths is None:
            raise SweepError("lengths: missing; workload decoder needs files of cache lengths")
        lengths = kv_traces(spec.lengths, "lengths")
        return pair_traces(routing_traces(spec.traces, shape.moe), lengths, spec.pairs or "all")
    return routing_traces(spec.traces, shape)  # type: ignore[arg-type]


def _numbered(traces: list[Trace]) -> list[Trace]:
    """Tell copies of a trace under several names apart, for each run to have a key of its own."""
    seen: Counter[tuple[Any, ...]] = Counter()
    numbered = []
    for trace in traces:
        numbered.append(replace(trace, copy=seen[trace.key]))
        seen[trace.key] += 1
    return numbered


def _point(
    spec: SweepSpec,
    index: int,
    design: Mapping[str, Any],
    shape: Shape,
    batches: Collection[int],
    where: str,
) -> Point:
    values = {**spec.parameters, **design}
    overrides = {k.removeprefix("machine."): v for k, v in values.items() if k[:8] == "machine."}
    base = values.get("machine", spec.machine)
    if not isinstance(base, str):
        raise SweepError(
            f"{where}: machine: expected a name or a file, found {base!r}; name a machine, or "
            "leave the key out"
        )
    machine = load_machine(base, overrides or None)
    own = {k: v for k, v in values.items() if k != "machine" and k[:8] != "machine."}
    parameters = resolve_parameters(spec.workload, where, own, shape, machine, batches)
    return Point(index, _label(index, design), spec.workload, shape, parameters, machine)


def _check_batches(point: Point, traces: list[Trace], where: str) -> None:
    if point.workload == "swiglu":
        check_point(point.workload, where, point.shape, point.parameters, None)
    seen: set[object] = set()
    for trace in traces:
        if trace.error or trace.rows is None:
            continue
        # Attention depends on every length, MoE on their number only.
        lengths = trace if point.workload == "attention" else trace.lengths
        size = trace.rows, None if lengths is None else lengths.identity
        if size not in seen:
            seen.add(size)
            loaded = trace.loaded()
            if not loaded.error:
                check_point(point.workload, where, point.shape, point.parameters, loaded.inputs)


def _text(design: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in design.items())


def _label(index: int, design: Mapping[str, Any]) -> str:
    """``0003-tile-dynamic``: unique by its number, safe as a folder name everywhere."""
    # The folder of a machine's file is no part of the name: the same sweep elsewhere has the same.
    names = {k: Path(v).name if k == "machine" else v for k, v in design.items()}
    text = "_".join(f"{key}-{value}" for key, value in names.items()) or "all"
    return f"{index:04d}-{re.sub('[^A-Za-z0-9.-]+', '_', text)[:_LABEL_LENGTH]}"
