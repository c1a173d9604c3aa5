"""Explanations of any run: suggestions are what a run of them gives, texts fit, nothing is lost."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given, strategies as draw

import stepsim as st
from stepsim.explain import explain
from stepsim.explain.queues import deeper_queues
from stepsim.explain.verdict import KINDS, unfinished
from stepsim.results import Diagnosis, Failure
from stepsim.simulation import Prepared
from tests.explain.known_answers import KNOWN_ANSWERS, centered_twice, chain, skewed_experts
from tests.functional.random_programs import random_program
from tests.property_profile import profile


@pytest.mark.slow
@profile(16)
@given(
    seed=draw.integers(0, 10_000),
    depth=draw.sampled_from([2, 5, 1 << 20]),
    model=draw.sampled_from(["published", "interleaved", "uncontended"]),
)
def test_suggestions_are_what_a_run_gives(seed: int, depth: int, model: str) -> None:
    machine = st.load_machine("sda-1024", {"hbm.model": model})
    prepared = st.prepare(random_program(seed), machine, fifo_depth=depth)
    found = explain(prepared)
    assert found.verdict.kind in KINDS
    assert found.cycles == prepared.run().cycles
    gains = [one.gain_cycles for one in found.suggestions]
    assert all(gain > 0 for gain in gains)
    for one in found.suggestions:
        after = one.variant.applied(prepared).run(one.variant.bindings)
        assert (after.status, after.cycles) == ("ok", one.cycles)
        assert one.gain_cycles == found.cycles - one.cycles
    json.dumps(found.to_dict(), allow_nan=False)
    lines = str(found).splitlines()
    checked = lines if found.status == "ok" else lines[:1]
    assert max(map(len, checked)) <= 80


@pytest.mark.slow
@pytest.mark.parametrize("known", KNOWN_ANSWERS, ids=lambda known: known.name)
def test_texts_fit_and_begin_with_the_verdict(known) -> None:
    found = st.why(*known.before())
    lines = str(found).splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(lines[1:5]).startswith(found.verdict.sentence)


def test_long_names_are_reported_whole_beside_their_resource() -> None:
    name = "gate_projection_of_the_shared_expert"
    with st.Program("long", compute_bw=64) as program:
        rows = st.linear_load(st.spec(64, 64), tile=(1, 64), label=f"rows_{name}")
        rows.flatten(0, 1).map(st.fn.silu, compute_bw=16, label=name).consume()
    lines = str(st.why(program)).splitlines()
    table = lines[next(i for i, line in enumerate(lines) if line.startswith("speed of light")) :]
    compute = next(i for i, line in enumerate(table) if line.startswith("compute  "))
    assert table[compute + 1].startswith(f"  {name}#")
    assert all(len(line) <= 80 and "..." not in line for line in table[: table.index("")])


def test_an_explanation_says_what_it_does() -> None:
    said: list[str] = []
    explain(st.prepare(centered_twice()), progress=said.append)
    phases = ["lower bounds of the run", "critical path", "FIFOs to be changed"]
    assert [line for line in said if not line.endswith("runs done")] == phases
    runs = [line.removesuffix(" runs done").split(" of ") for line in said[len(phases) :]]
    assert any(int(done) == int(of) > 1 for done, of in runs)
    assert all(1 <= int(done) <= int(of) for done, of in runs)


def test_a_result_explains_itself() -> None:
    result = st.simulate(skewed_experts())
    assert result.why().to_dict() == st.why(skewed_experts()).to_dict()


def test_a_result_that_cannot_be_run_again_says_so() -> None:
    stored = pickle.loads(pickle.dumps(st.simulate(skewed_experts())))
    with pytest.raises(st.errors.ArgError, match="needs the program"):
        stored.why()


def test_the_fewest_queues_are_found() -> None:
    prepared = st.prepare(centered_twice())
    found = deeper_queues(prepared, None, prepared.execute())
    assert found is not None
    assert set(found.depths) == {"act#2>1", "second#13"}
    for name in found.depths:
        fewer = {other: depth for other, depth in found.depths.items() if other != name}
        assert prepared.changed(fifo_depths=fewer).run().cycles > found.cycles + 900
    half = {name: depth // 2 for name, depth in found.depths.items()}
    assert prepared.changed(fifo_depths=half).run().cycles > found.cycles


def test_queues_that_are_deep_enough_are_left_alone() -> None:
    prepared = st.prepare(centered_twice(1024, 1024), fifo_depth=1024)
    assert deeper_queues(prepared, None, prepared.execute()) is None


def test_equal_operators_side_by_side_are_changed_together() -> None:
    with st.Program("together", compute_bw=1 << 20, par_dispatch=16) as program:
        for name in ("left", "right"):
            rows = st.linear_load(st.spec(32, 64, name=name), tile=(1, 64), label=f"{name}_rows")
            rows.flatten(0, 1).map(st.fn.silu, compute_bw=16, label=name).consume()
    found = st.why(program)
    assert found.verdict.kind == "compute"
    first = found.suggestions[0]
    assert first.kind == "compute"
    assert {name.split("#")[0] for name in first.targets} == {"left", "right"}
    assert first.gain > 0.3


def test_two_resources_that_only_help_together() -> None:
    with st.Program("both", compute_bw=1 << 20, par_dispatch=1) as program:
        rows = st.linear_load(st.spec(256, 64, name="a"), tile=(1, 64), label="rows")
        rows.consume()
        x = st.linear_load(st.spec(60, 64, name="b"), tile=(1, 64), label="x").flatten(0, 1)
        x.map(st.fn.silu, compute_bw=6, label="act").consume()
    found = st.why(program)
    first = found.suggestions[0]
    assert first.kind == "combined"
    assert first.gain > 0.2
    assert found.verdict.kind == "compute"
    assert found.verdict.sentence.endswith("; HBM latency of rows#0 takes as long")
    assert max(one.gain for one in found.suggestions if one.kind != "combined") < 0.05


def test_a_failed_run_is_a_verdict() -> None:
    failure = Failure("act#1", "UnaryMap", 7, "it does not fit", "rows.py:3")
    verdict = unfinished(Diagnosis("failed", "1 of 2 units failed", [failure]))
    assert (verdict.kind, verdict.target) == ("failed", "act#1")
    assert "failed at cycle 7: it does not fit (rows.py:3)" in verdict.sentence
    assumption = unfinished(Diagnosis("failed", "n == m does not hold"))
    assert assumption.sentence == "n == m does not hold"


def test_a_part_of_the_path_is_not_taken_for_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Prepared.execute

    def stopped(prepared: Prepared, *given: Any, **how: Any) -> Any:
        if how.get("record"):
            how["limits"] = st.Limits(max_cycles=300)
        return run(prepared, *given, **how)

    monkeypatch.setattr(Prepared, "execute", stopped)
    found = st.why(chain())
    assert (found.status, found.verdict.kind, found.path) == ("ok", "serial_chain", None)
    assert found.what_if is not None
    assert found.what_if.table["predicted_cycles"].null_count == found.what_if.table.num_rows
