"""The waits of a run as a graph: without a change it is as long as the run, to the cycle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

import stepsim as st
from stepsim.explain.wait_graph import WaitGraph
from stepsim.graph import Program
from stepsim.lowering import Network, TimingParams, build_image
from stepsim.simulation import ImageRun, prepare
from stepsim.simulation.running.image_run import run_image
from tests.explain.known_answers import KNOWN_ANSWERS
from tests.explain.test_path import NETWORKS
from tests.kernels.test_cases import EXAMPLES
from tests.oracle.example import Example
from tests.property_profile import profile
from tests.simulation.drawn_programs import drawn_programs


def recorded(network: Network) -> ImageRun:
    return run_image(build_image(network), network.timing, record="paces")


def length_of(run: ImageRun, timing: TimingParams) -> float:
    units = len(run.image.unit_names)
    return WaitGraph(run, timing).cycles(np.ones(units), (), timing)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_worked_examples_are_as_long_as_they_ran(example: Example) -> None:
    run = recorded(example.network)
    assert length_of(run, example.network.timing) == run.totals.cycles


@pytest.mark.slow
@profile(100)
@given(NETWORKS)
def test_random_networks_are_as_long_as_they_ran(network: Network) -> None:
    run = recorded(network)
    if run.totals.status == "ok":
        assert length_of(run, network.timing) == run.totals.cycles


@profile(50)
@given(drawn_programs())
def test_random_programs_are_as_long_as_they_ran(program: Program) -> None:
    prepared = prepare(program)
    run = prepared.execute(record="paces")
    assert length_of(run, prepared.timing) == run.totals.cycles


@pytest.mark.parametrize("case", KNOWN_ANSWERS, ids=lambda case: case.name)
def test_known_answers_are_as_long_as_they_ran(case: object) -> None:
    prepared = st.prepare(*case.before())  # type: ignore[attr-defined]
    run = prepared.execute(record="paces")
    assert length_of(run, prepared.timing) == run.totals.cycles


def two_branches() -> st.Program:
    """Two products of one tile each, one three times as slow, whose results are added."""
    with st.Program("two_branches", compute_bw=1 << 20) as program:
        parts = []
        for name, bw in (("slow", 4), ("fast", 12)):
            x = st.linear_load(st.spec(16, 16, name=name), tile=(16, 16))
            parts.append(st.map(st.fn.silu, x, compute_bw=bw, label=name))
        st.map(st.fn.add, *parts, label="sum").consume()
    return program


def test_the_chain_moves_to_what_is_longest_now() -> None:
    """The path of the run leads through the slow branch alone, that of the change through both."""
    prepared = st.prepare(two_branches())
    run = prepared.execute(record="paces")
    names = list(run.image.unit_names)
    slow = next(i for i, name in enumerate(names) if name.startswith("slow"))
    busy = run.execution.units["busy"]
    for faster in (1.5, 2, 10):
        again = prepared.changed(compute={names[slow]: faster}).execute()
        factors = again.execution.units["busy"] / np.maximum(1, busy)
        waits = WaitGraph(run, prepared.timing)
        found = waits.cycles(np.where(busy > 0, factors, 1.0), (), prepared.timing)
        assert found == pytest.approx(again.totals.cycles, abs=4)
    saved = run.totals.cycles - again.totals.cycles
    assert 0 < saved < busy[slow] - again.execution.units["busy"][slow]


def test_a_shared_memory_is_served_in_turn_at_another_rate() -> None:
    case = next(one for one in KNOWN_ANSWERS if one.name == "HBM bandwidth")
    prepared = st.prepare(*case.before())
    run = prepared.execute(record="paces")
    waits, units = WaitGraph(run, prepared.timing), np.ones(len(run.image.unit_names))
    for channels in (16, 64):
        machine = st.load_machine(prepared.machine, {"hbm.channels": channels})
        again = prepared.changed(machine=machine)
        found = waits.cycles(units, (), replace(prepared.timing, hbm_channels=channels))
        assert found == pytest.approx(again.run().cycles, rel=0.07)


def test_a_run_without_paces_is_refused() -> None:
    prepared = prepare(two_branches())
    with pytest.raises(ValueError, match="record='paces'"):
        WaitGraph(prepared.execute(record=True), prepared.timing)
