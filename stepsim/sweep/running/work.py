"""The work of a worker: run the given chunks and return their rows."""

from __future__ import annotations

import json
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

import stepsim.design
import stepsim.explain
import stepsim.simulation
import stepsim.sizing
from stepsim.collection import without_collection
from stepsim.graph import Bindings, without_source_lines
from stepsim.results import ENDED
from stepsim.simulation import (
    Case,
    Limits,
    ManyRuns,
    Totals,
    describe,
    routing_load,
    run_all,
    run_units,
)
from stepsim.sweep.planning.optional_measures import BOUND
from stepsim.sweep.planning.plan import Chunk, versions
from stepsim.sweep.planning.services import ServicePoint
from stepsim.sweep.planning.traces import Trace
from stepsim.sweep.running.served import served
from stepsim.sweep.storage.schema import UNIT_ROWS_SCHEMA
from stepsim.workloads import Data

_FIX_RUNS = 400
"""Most runs for the fix of a deadlock."""

_KEPT_PROGRAMS = 2
"""Prepared programs that a worker keeps; chunks come in the order of the design points."""


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """The rows of one chunk.

    Attributes
    ----------
    runs, failures : rows as in the schemas; plain values, so that workers need not import modules
        for writing.
    units : tables of the stall breakdown, one per run; empty unless requested.
    timing : wall time by step; not part of the results.
    versions : versions of the software that computed the rows.
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
    if isinstance(chunk.point, ServicePoint):
        runs, failures = served(chunk, chunk.point, _version_columns())
        spent = time.perf_counter() - begin
        timing = _timing(chunk, spent, prepare_seconds=0.0, engine_seconds=spent)
        return ChunkRows(chunk.key, runs, failures, [], timing, versions())
    rows = _Rows(chunk)
    for trace in chunk.traces:
        rows.add(trace)
    rows.finish()
    timing = _timing(
        chunk, time.perf_counter() - begin,
        prepare_seconds=rows.prepare_seconds, engine_seconds=rows.engine_seconds,
    )  # fmt: skip
    return ChunkRows(chunk.key, rows.runs, rows.failures, rows.units, timing, versions())


def _timing(chunk: Chunk, seconds: float, **parts: float) -> dict[str, Any]:
    """Wall time of a chunk, with that of its parts."""
    return {
        "chunk": chunk.key, "runs": len(chunk.traces), "seconds": seconds, **parts,
        "process": os.getpid(),
    }  # fmt: skip


def _version_columns() -> dict[str, Any]:
    known = versions()
    return {
        "stepsim_version": known.pop("stepsim"),
        "model_version": known.pop("model"),
        "versions": json.dumps(known, sort_keys=True),
    }


_cases: OrderedDict[Hashable, Case] = OrderedDict()


def _case(chunk: Chunk, about: _About, data: Data) -> Case:
    """The prepared program, from the last few of this process where possible."""
    point = chunk.point
    key = (about.key, about.resolved.workload.program_key(data))
    if key not in _cases:
        with without_collection(), without_source_lines():
            made = point.case(about.resolved, data)
            _ = made.prepared
        _cases[key] = made
        if len(_cases) > _KEPT_PROGRAMS:
            _cases.popitem(last=False)
    _cases.move_to_end(key)
    return _cases[key]


class _About:
    """The data that all runs of a chunk share: the workload, its columns, its key."""

    def __init__(self, chunk: Chunk) -> None:
        point = chunk.point
        self.resolved = point.resolved()
        code = point.source.path, point.source.digest
        self.key = json.dumps([*point.content, *code, point.counting], sort_keys=True)
        self.columns = {
            "point": point.group,
            "replicate": point.replicate,
            "place": point.place and point.place.text,
            **describe(point.source, self.resolved, point.run_machine, point.counting, None),
            **_version_columns(),
        }
        if point.depths is not None:
            self.columns |= _depth_columns(*point.depths, self.columns)


class _Rows:
    """Collects the rows of a chunk."""

    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk
        self._limits = Limits(**chunk.limits)
        self._about = _About(chunk)
        self.runs: list[dict[str, Any]] = []
        self.failures: list[dict[str, Any]] = []
        self.units: list[pa.Table] = []
        self._waiting: list[_Run | _Failure] = []
        self._fixed = False
        self.prepare_seconds = 0.0
        self.engine_seconds = 0.0

    def add(self, trace: Trace) -> None:
        """Add a run; it is simulated together with its neighbors that share its program."""
        trace = trace.loaded()
        identity = {**self._about.columns, **_labels(self._chunk, trace)}
        if trace.error:
            self._waiting.append(_Failure(identity, "trace", "TraceError", trace.error))
            return
        stage = "build"
        try:
            begin = time.perf_counter()
            workload = self._about.resolved.workload
            data = trace.fed_to(type(workload), workload.values())
            case = _case(self._chunk, self._about, data)
            place = self._chunk.point.place
            if place is not None and place.is_searched:
                case = stepsim.design.placed_case(place, case, data)
            if self._chunk.point.finds_depths:
                case = stepsim.sizing.with_least_depths(case, data)
                identity["fifo_depths"] = json.dumps(dict(case.prepared.fifo_depths))
            self.prepare_seconds += time.perf_counter() - begin
            stage = "run"
            run = _Run(identity, case, data, case.bound(data))
        # An error in one run must not affect the others.
        except Exception as error:
            text = str(error)
            # The program does not know the batch that it was built for.
            if stage == "build" and trace.whole_label:
                text = f"{trace.whole_label}: {text}"
            self._waiting.append(_Failure(identity, stage, type(error).__name__, text))
            return
        if any(isinstance(one, _Run) and one.case is not case for one in self._waiting):
            self.finish()
        self._waiting.append(run)

    def finish(self) -> None:
        """Simulate the collected runs, and write their rows in the order of the traces."""
        waiting, self._waiting = self._waiting, []
        runs = [one for one in waiting if isinstance(one, _Run)]
        made = iter(self._made(runs) if runs else ())
        for one in waiting:
            failure = one if isinstance(one, _Failure) else self._write(one, next(made))
            if failure is not None:
                self.failures.append(failure.row())

    def _made(self, runs: list[_Run]) -> list[Callable[[], tuple[Totals, pa.Table | None]]]:
        """A function that returns totals and units of a run, or raises its error."""
        case, units = runs[0].case, self._chunk.units
        common = [table for table in runs[0].indices if all(table in run.indices for run in runs)]
        indices = {table: np.stack([run.indices[table] for run in runs]) for table in common}
        try:
            many = ManyRuns(case.prepared, len(runs), indices, self._limits, units)
            (outcomes,) = run_all([many], threads=1)
        except Exception as error:
            return [partial(_raise, error)] * len(runs)

        def of(run: int) -> tuple[Totals, pa.Table | None]:
            totals = many.totals(outcomes, run)
            return totals, run_units(many, outcomes, run) if units else None

        return [partial(of, run) for run in range(len(runs))]

    def _write(
        self, run: _Run, made: Callable[[], tuple[Totals, pa.Table | None]]
    ) -> _Failure | None:
        """Write the rows of a run; returns why it failed, if it did."""
        try:
            totals, units = made()
            if units is not None:
                run.case.require_one_program("the stall breakdown")
            totals = run.case.together(totals, self._limits)
            spread = self._spread(run, totals)
            self.engine_seconds += totals.wall_seconds
            row = {
                **run.identity,
                **run.case.built.parameters,
                **routing_load(run.data),
                **run.case.measures(totals, run.data, self._chunk.metrics),
                **spread,
                **self._bound(run, totals),
                "status": totals.status,
                "program_hash": run.case.prepared.program_hash,
                "image_hash": totals.image_hash,
            }
        except Exception as error:
            return _Failure(run.identity, "run", type(error).__name__, str(error))
        self.runs.append(row)
        if units is not None:
            keys = pa.array([run.identity["run"]] * units.num_rows, pa.string())
            columns = [keys, *units.columns]
            self.units.append(pa.Table.from_arrays(columns, schema=UNIT_ROWS_SCHEMA))
        if totals.status != "ok":
            return self._unsuccessful(run, totals)
        return None

    def _unsuccessful(self, run: _Run, totals: Totals) -> _Failure:
        """Why a run was not successful, with the least fix of the first deadlock of a chunk."""
        reason, fix = totals.reason, None
        if totals.status == "deadlock" and not self._fixed:
            self._fixed = True
            # A limit of time would make rows depend on the machine.
            found = stepsim.sizing.fix_deadlock(
                run.case.prepared,
                bindings=run.indices,
                limits=self._limits,
                max_runs=_FIX_RUNS,
                max_seconds=None,
            )
            reason, fix = f"{reason}\n{found.sentences[0]}", json.dumps(found.to_dict())
        return _Failure(run.identity, "run", totals.status, reason, fix)

    def _spread(self, run: _Run, totals: Totals) -> dict[str, float | None]:
        """Measures of the disturbed runs of a successful run, if requested."""
        options = self._chunk.ensemble
        if options is None or totals.status not in ENDED:
            return {}
        given: dict[str, Any] = {**options, "limits": self._limits, "threads": 1}
        spread = stepsim.simulation.ensemble_of(run.case.prepared, run.indices, **given)
        for earlier in run.case.earlier:
            spread = stepsim.simulation.ensemble_of(earlier, {}, **given).and_then(spread)
        return spread.columns()

    def _bound(self, run: _Run, totals: Totals) -> dict[str, str | int]:
        """What bounds a successful run, if requested."""
        if not self._chunk.bounds or totals.status not in ENDED:
            return {}
        run.case.require_one_program("the bounds of a run")
        largest = stepsim.explain.largest_bound(run.case.prepared, run.indices, limits=self._limits)
        if largest is None:
            return {}
        values = (largest.kind, largest.target, largest.bound)
        return dict(zip(BOUND, values, strict=True))


@dataclass(frozen=True, slots=True)
class _Run:
    """A run that can be simulated."""

    identity: dict[str, Any]
    case: Case
    data: Data
    indices: Bindings


@dataclass(frozen=True, slots=True)
class _Failure:
    """A run that cannot be simulated, or that failed."""

    identity: dict[str, Any]
    stage: str
    error: str
    message: str
    fix: str | None = None

    def row(self) -> dict[str, Any]:
        own = {
            "stage": self.stage, "error": self.error, "message": self.message, "fix": self.fix,
        }  # fmt: skip
        return {**self.identity, **own}


def _depth_columns(parameter: str, value: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The key for the depth of FIFOs where the workload does not take its value."""
    parameters = json.loads(columns["parameters"]) | {parameter: value}
    origins = json.loads(columns["origins"]) | {parameter: "given"}
    stated = {parameter: None} if parameter in columns else {}
    return {
        **stated,
        "parameters": json.dumps(parameters, sort_keys=True),
        "origins": json.dumps(origins, sort_keys=True),
    }


def _raise(error: Exception) -> NoReturn:
    raise error


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
