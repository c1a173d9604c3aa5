"""Predictions from the waits of a run, held against runs of changed programs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

import stepsim as st
from stepsim.explain.changes.candidates import Change
from stepsim.explain.changes.prediction import Work, predicted_cycles
from stepsim.explain.changes.runs import what_if
from stepsim.explain.path import critical_path
from stepsim.explain.wait_graph import WaitGraph
from stepsim.lowering import TimingParams
from tests.explain.known_answers import KNOWN_ANSWERS, KnownAnswer
from tests.explain.test_what_if_published import GRAPHS, PLAIN
from tests.shared import needs_traces

TIMING = TimingParams()


@cache
def products() -> tuple[WaitGraph, dict[str, Work], int]:
    """The run of a product behind two loads, whose work is all compute."""
    case = next(one for one in KNOWN_ANSWERS if one.name == "compute of one operator")
    prepared = st.prepare(*case.before())
    run = prepared.execute(record="paces")
    busy = run.tables().unit_columns["busy"].tolist()
    works = {
        name: Work(spent, spent, 0, 0)
        for name, spent in zip(run.image.unit_names, busy, strict=True)
    }
    return WaitGraph(run, prepared.timing), works, run.totals.cycles


def predicted(change: Change, after: TimingParams = TIMING, requests: int = 0) -> int | None:
    waits, works, _ = products()
    return predicted_cycles(waits, change, after, works, requests)


def test_without_a_change_the_run_is_as_long() -> None:
    assert predicted(Change("none", "custom")) == products()[2]


def test_no_run_is_shorter_than_its_longest_operator_or_its_requests() -> None:
    waits, works, cycles = products()
    change = Change("free", "custom")
    idle = {name: Work(work.busy, cycles + 10, 0, cycles + 10) for name, work in works.items()}
    assert predicted_cycles(waits, change, TIMING, idle) >= cycles + 10  # type: ignore[operator]
    low = replace(TIMING, hbm_latency=0, hbm_startup=0)
    alone = predicted(change, low)
    assert alone is not None
    assert alone < cycles
    assert predicted(change, low, 64 * cycles) == (64 * cycles // 32 - 1) * TIMING.hbm_interval + 1


@pytest.mark.parametrize(
    ("compute", "wide", "left"),
    [(1, 1, 100), (2, 1, 50), (float("inf"), 1, 40), (1, 2, 90), (1, 1 << 20, 80)],
)
def test_work_shrinks_down_to_what_else_is_to_do(compute: float, wide: int, left: int) -> None:
    assert Work(100, 80, 40, 5).after(compute, wide) == pytest.approx(left, abs=1e-3)
    assert Work(100, 80, 40, 5).after(float("inf"), 1 << 20) == pytest.approx(5, abs=1e-3)


def test_another_routing_cannot_be_predicted() -> None:
    assert predicted(Change("even", "balance", bindings={})) is None
    assert predicted(Change("deep", "custom", fifo_depth=9)) is None
    other = replace(TIMING, memory_model="interleaved")
    assert predicted(Change("memory", "custom"), other) is None


def test_deeper_fifos_end_the_waits_for_their_slots() -> None:
    case = next(one for one in KNOWN_ANSWERS if one.name == "back-pressure of a queue")
    prepared = st.prepare(*case.before())
    rows = what_if(prepared, path=critical_path(prepared)).table.to_pylist()
    found = {row["change"]: row for row in rows}["every FIFO unbounded"]
    assert found["gain"] > 0.9
    assert abs(found["prediction_error"]) < 0.02


@pytest.mark.parametrize("name", ["compute of one operator", "serial chain", "on-chip bandwidth"])
def test_a_found_path_stands_beside_what_was_measured(name: str) -> None:
    case: KnownAnswer = next(one for one in KNOWN_ANSWERS if one.name == name)
    program, machine = case.before()
    prepared = st.prepare(program, machine)
    found = what_if(prepared, path=critical_path(prepared))
    rows = found.table.to_pylist()
    for row, change in zip(rows, found.changes, strict=True):
        guess = row["predicted_cycles"]
        assert (guess is None) == bool(change.par_dispatch)
        if guess is None:
            continue
        assert row["prediction_error"] == guess / row["cycles"] - 1
    best = next(row for row in rows if row["kind"] == case.change and row["buildable"])
    assert abs(best["prediction_error"]) < 0.02


@pytest.mark.parametrize("name", ["HBM latency", "compute of one operator", "on-chip bandwidth"])
def test_predictions_of_one_bound_resource_are_near(name: str) -> None:
    """The resource that binds, with the other one as what remains, and the one that does not."""
    case: KnownAnswer = next(one for one in KNOWN_ANSWERS if one.name == name)
    prepared = st.prepare(*case.before())
    rows = what_if(prepared, path=critical_path(prepared)).table.to_pylist()
    kinds = ("compute", "onchip_bandwidth", "hbm_latency")
    rows = [row for row in rows if row["kind"] in kinds]
    assert len(rows) > 3
    errors = {row["change"]: row["prediction_error"] for row in rows}
    assert max(map(abs, errors.values())) < 0.01, errors


@needs_traces
@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.long
def test_predictions_of_published_graphs_are_near(name: str) -> None:
    workload, data = GRAPHS[name]()
    built = workload.build(data)
    bindings = built.bindings(data)
    prepared = st.prepare(built.program)
    path = critical_path(prepared, bindings=bindings)
    table = what_if(prepared, bindings=bindings, most=2, path=path).table
    errors = [abs(error) for error in table["prediction_error"].to_pylist() if error is not None]
    assert len(errors) > 12
    assert max(errors) < 0.03
    assert sum(errors) / len(errors) < 0.005
