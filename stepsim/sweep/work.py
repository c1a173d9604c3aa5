"""What a worker does: run the chunks it is given and hand their rows back."""

from __future__ import annotations

import gc
import json
import os
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stepsim.graph.operator import without_source_lines
from stepsim.simulation import Limits
from stepsim.simulation.case import Case, describe, routing_load
from stepsim.sweep.plan import Chunk, versions
from stepsim.sweep.schema import UNIT_ROWS_SCHEMA
from stepsim.sweep.traces import Trace
from stepsim.workloads import Data

__all__ = ["ChunkRows", "execute_chunk"]

_KEPT_PROGRAMS = 2
"""Prepared programs that a worker keeps; chunks come in the order of the design points."""


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """The rows of one chunk.

    Attributes
    ----------
    runs, failures : rows as in the schemas; plain values, so that workers need not load what only
        the one who writes needs.
    units : tables of the stall breakdown, one per run, empty unless asked for.
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


_cases: OrderedDict[Hashable, Case] = OrderedDict()


def _case(chunk: Chunk, about: _About, data: Data) -> Case:
    """The prepared program, from the last few of this process where possible."""
    point = chunk.point
    key = (about.key, about.resolved.workload.program_key(data))
    if key not in _cases:
        with _without_collection(), without_source_lines():
            made = Case(point.source, about.resolved, data, point.machine, point.counting)
            _ = made.prepared
        _cases[key] = made
        if len(_cases) > _KEPT_PROGRAMS:
            _cases.popitem(last=False)
    _cases.move_to_end(key)
    return _cases[key]


class _About:
    """What all runs of a chunk share: the workload, the columns that say what it is, its key."""

    def __init__(self, chunk: Chunk) -> None:
        point, known = chunk.point, versions()
        self.resolved = point.resolved()
        code = point.source.path, point.source.digest
        self.key = json.dumps([*point.content, *code, point.counting], sort_keys=True)
        self.columns = {
            "point": point.index,
            **describe(point.source, self.resolved, point.machine, point.counting, None),
            "stepsim_version": known.pop("stepsim"),
            "model_version": known.pop("model"),
            "versions": json.dumps(known, sort_keys=True),
        }


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
        self._about = _About(chunk)
        self.runs: list[dict[str, Any]] = []
        self.failures: list[dict[str, Any]] = []
        self.units: list[pa.Table] = []
        self.prepare_seconds = 0.0
        self.engine_seconds = 0.0

    def add(self, trace: Trace) -> None:
        """Simulate one run."""
        trace = trace.loaded()
        identity = {**self._about.columns, **_labels(self._chunk, trace)}
        if trace.error:
            self._fail(identity, "trace", "TraceError", trace.error)
            return
        stage = "build"
        try:
            begin = time.perf_counter()
            data = trace.fed_to(self._about.resolved.workload.inputs)
            case = _case(self._chunk, self._about, data)
            self.prepare_seconds += time.perf_counter() - begin
            stage = "run"
            self._run(identity, case, data)
        # Whatever goes wrong in one run must not take the others along.
        except Exception as error:
            text = str(error)
            # The program does not know which batch it was to be built for.
            if stage == "build" and trace.whole_label:
                text = f"{trace.whole_label}: {text}"
            self._fail(identity, stage, type(error).__name__, text)

    def _run(self, identity: dict[str, Any], case: Case, data: Data) -> None:
        units = None
        if self._chunk.units:
            totals, units = case.run_with_units(data, limits=self._limits)
        else:
            totals = case.run(data, limits=self._limits)
        self.engine_seconds += totals.wall_seconds
        self.runs.append(
            {
                **identity,
                **case.built.parameters,
                **routing_load(data),
                **case.measures(totals, data, self._chunk.metrics),
                "status": totals.status,
                "program_hash": case.prepared.program_hash,
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


def _labels(chunk: Chunk, trace: Trace) -> dict[str, Any]:
    labels = {
        "run": chunk.run_key(trace),
        "trace": trace.source,
        "trace_id": trace.identity,
        "layer": trace.layer,
        "step": trace.step,
        "window": trace.window,
        **_lengths(trace.lengths),
    }
    return labels if trace.rows is None else {**labels, "batch": trace.rows}


def _lengths(batch: Trace | None) -> dict[str, Any]:
    if batch is None:
        return {}
    return {
        "lengths": batch.source,
        "lengths_id": batch.identity,
        "lengths_step": batch.step,
        "lengths_window": batch.window,
    }
