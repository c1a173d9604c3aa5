"""What a worker does: run the chunks it is given and hand their rows back."""

from __future__ import annotations

import gc
import json
import os
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from stepsim.graph.metrics import Metrics
from stepsim.graph.operator import without_source_lines
from stepsim.simulation import Limits, Totals, prepare
from stepsim.sweep.decoder_kind import DecoderShape
from stepsim.sweep.kinds import Built, build, program_size
from stepsim.sweep.plan import Chunk, versions
from stepsim.sweep.schema import PARAMETERS, UNIT_ROWS_SCHEMA
from stepsim.sweep.traces import Trace
from stepsim.workloads import MoEShape

__all__ = ["ChunkRows", "execute_chunk"]

_KEPT_PROGRAMS = 2
"""Prepared programs that a worker keeps; chunks come in the order of the design points."""

_SYMBOLIC = {
    "onchip_bytes": "on_chip_memory",
    "offchip_bytes": "off_chip_traffic",
}


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """The rows of one chunk.

    Attributes
    ----------
    runs, failures : rows as in the schemas; plain values, so that workers need not load what only
        the one who writes needs.
    units : tables of the accounts, one per run, empty unless asked for.
    timing : where the time went; not part of the results.
    versions : of the software that computed the rows.
    """

    key: str
    runs: list[dict[str, Any]]
    failures: list[dict[str, Any]]
    units: list[pa.Table]
    timing: Mapping[str, Any]
    versions: Mapping[str, str]


def execute_chunk(chunk: Chunk) -> ChunkRows:
    """Simulate every run of a chunk. A run that fails becomes a row of ``failures``."""
    begin = time.perf_counter()
    rows = _Rows(chunk)
    for trace in chunk.traces:
        rows.add(trace)
    timing = {
        "chunk": chunk.key,
        "runs": len(chunk.traces),
        "seconds": time.perf_counter() - begin,
        "prepare_seconds": rows.prepare_seconds,
        "engine_seconds": rows.engine_seconds,
        "process": os.getpid(),
    }
    return ChunkRows(chunk.key, rows.runs, rows.failures, rows.units, timing, versions())


class _Design:
    """A prepared program with its symbolic totals, made once for many traces."""

    def __init__(self, chunk: Chunk, data: Any) -> None:
        point = chunk.point
        self.built: Built = build(point.workload, point.shape, point.parameters, data)
        self.prepared = prepare(self.built.program, machine=point.machine)
        self._memory_model = chunk.memory_model
        self._metrics: Metrics | None = None

    @cached_property
    def metrics(self) -> Metrics:
        return self.built.program.metrics(
            memory=self._memory_model,
            on_demand=self.built.on_demand and self._memory_model == "published",
        )

    def symbolic(self, wanted: frozenset[str], data: Any) -> dict[str, int]:
        """Those of the symbolic totals that are wanted."""
        found: dict[str, int] = {}
        if wanted & _SYMBOLIC.keys():
            bound = self.metrics.bind(self.built.symbols(data))
            found = {name: int(getattr(bound, whose)) for name, whose in _SYMBOLIC.items()}
        if "allocated_compute" in wanted:
            found["allocated_compute"] = self.allocated_compute
        return {name: value for name, value in found.items() if name in wanted}

    @cached_property
    def allocated_compute(self) -> int:
        total, published = int(self.metrics.allocated_compute), self.built.published_compute
        return total if published is None or self._memory_model == "paper" else published(total)


_designs: OrderedDict[str, _Design] = OrderedDict()


def _design(chunk: Chunk, data: Any) -> _Design:
    """The prepared program, from the last few of this process where possible."""
    point = chunk.point
    size = program_size(point.shape, data)
    key = repr((point.workload, point.shape, dict(point.parameters), point.machine, size,
                chunk.memory_model))  # fmt: skip
    if key not in _designs:
        with _without_collection(), without_source_lines():
            _designs[key] = _Design(chunk, data)
        if len(_designs) > _KEPT_PROGRAMS:
            _designs.popitem(last=False)
    _designs.move_to_end(key)
    return _designs[key]


@contextmanager
def _without_collection() -> Iterator[None]:
    """Building a program makes many long-lived objects; looking for cycles there finds none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Rows:
    """Collects the rows of a chunk."""

    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk
        self._limits = Limits(**chunk.limits)
        self._common = _common(chunk)
        self.runs: list[dict[str, Any]] = []
        self.failures: list[dict[str, Any]] = []
        self.units: list[pa.Table] = []
        self.prepare_seconds = 0.0
        self.engine_seconds = 0.0

    def add(self, trace: Trace) -> None:
        """Simulate one run."""
        trace = trace.loaded()
        identity = {**self._common, **_labels(self._chunk, trace)}
        if trace.error:
            self._fail(identity, "trace", "TraceError", trace.error)
            return
        stage = "build"
        try:
            begin = time.perf_counter()
            design = _design(self._chunk, trace.inputs)
            self.prepare_seconds += time.perf_counter() - begin
            stage = "run"
            self._run(identity, design, trace)
        # Whatever goes wrong in one run must not take the others along.
        except Exception as error:
            text = str(error)
            # The program does not know which batch it was to be built for.
            if stage == "build" and trace.source is not None:
                text = f"{trace.whole_label}: {text}"
            self._fail(identity, stage, type(error).__name__, text)

    def _run(self, identity: dict[str, Any], design: _Design, trace: Trace) -> None:
        bindings = design.built.bindings(trace.inputs)
        units = None
        if self._chunk.units:
            totals, units = design.prepared.run_with_units(bindings, limits=self._limits)
        else:
            totals = design.prepared.run(bindings, limits=self._limits)
        self.engine_seconds += totals.wall_seconds
        wanted = self._chunk.metrics
        numbers = {name: getattr(totals, name) for name in wanted if name in Totals.__slots__}
        if "bandwidth_utilization" in wanted:
            numbers["bandwidth_utilization"] = totals.bandwidth_utilization
        self.runs.append(
            {
                **identity,
                **_load(self._chunk, trace),
                **numbers,
                **design.symbolic(wanted, trace.inputs),
                "status": totals.status,
                "memory_model": self._chunk.memory_model,
                "program_hash": design.prepared.program_hash,
                "image_hash": totals.image_hash,
            }
        )
        if units is not None:
            keys = pa.array([identity["run"]] * units.num_rows, pa.string())
            columns = [keys, *units.columns]
            self.units.append(pa.Table.from_arrays(columns, schema=UNIT_ROWS_SCHEMA))
        if totals.status != "ok":
            self._fail(identity, "run", totals.status, totals.reason)

    def _fail(self, identity: dict[str, Any], stage: str, error: str, message: str) -> None:
        self.failures.append({**identity, "stage": stage, "error": error, "message": message})


def _common(chunk: Chunk) -> dict[str, Any]:
    """What all rows of a chunk share."""
    point, known = chunk.point, versions()
    parameters = dict(point.parameters)
    shape_name = None if point.shape is None else point.shape.name
    columns = {name: parameters.get(name) for name in PARAMETERS}
    if columns["tile"] is not None:
        columns["tile"] = str(columns["tile"])
    return {
        "point": point.index,
        "workload": point.workload,
        "model": shape_name,
        "parameters": json.dumps(parameters, sort_keys=True),
        "machine": point.machine.name,
        "machine_json": json.dumps(point.machine.to_dict(), sort_keys=True),
        **columns,
        "stepsim_version": known.pop("stepsim"),
        "model_version": known.pop("model"),
        "versions": json.dumps(known, sort_keys=True),
    }


def _labels(chunk: Chunk, trace: Trace) -> dict[str, Any]:
    return {
        "run": chunk.run_key(trace),
        "trace": trace.source,
        "trace_id": trace.identity,
        "layer": trace.layer,
        "step": trace.step,
        "window": trace.window,
        **_lengths(trace.lengths),
        "batch": chunk.point.parameters.get("batch", trace.rows),
    }


def _lengths(batch: Trace | None) -> dict[str, Any]:
    if batch is None:
        return {}
    return {
        "lengths": batch.source,
        "lengths_id": batch.identity,
        "lengths_step": batch.step,
        "lengths_window": batch.window,
    }


def _load(chunk: Chunk, trace: Trace) -> dict[str, int]:
    """How the rows of a routing spread over the experts."""
    shape = chunk.point.shape
    experts = shape.moe if isinstance(shape, DecoderShape) else shape
    if not isinstance(experts, MoEShape):
        return {}
    counts = np.bincount(trace.data.ravel(), minlength=experts.experts)
    return {"active_experts": int((counts > 0).sum()), "max_load": int(counts.max())}
