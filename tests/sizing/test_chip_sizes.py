"""Depths of FIFOs of programs on several chips: as fast as promised, and none of them too deep."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given

import stepsim as st
from tests.property_profile import profile
from tests.simulation.chip_programs import chip_machine, chip_programs, reduced


def _cycles(program: st.Program, machine: st.Machine, depths: Mapping[str, int | None]) -> int:
    run = st.simulate(program, machine, fifo_depth=depths)
    assert run.status == "ok"
    return run.cycles


@pytest.mark.slow
@profile(20, thorough=300)
@given(chip_programs())
def test_runs_are_as_fast_as_promised(case: tuple[st.Program, st.Machine]) -> None:
    program, machine = case
    found = st.size_fifos(program, machine, slowdown=0.02)
    depths: dict[str, int] = {name: depth or 0 for name, depth in found.depths.items()}
    unbounded = _cycles(program, machine, dict.fromkeys(depths))
    cycles = _cycles(program, machine, depths)
    assert found.unbounded_cycles == (unbounded,)
    assert cycles <= 1.02 * unbounded
    for name, depth in depths.items():
        if depth > 1:
            # No FIFO can be less deep alone.
            less = st.simulate(program, machine, fifo_depth={**depths, name: depth - 1})
            assert less.status != "ok" or less.cycles > 1.02 * unbounded


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ring", "direct"])
def test_a_collective_is_sized(algorithm: str) -> None:
    program, machine = reduced(4, rows=128, algorithm=algorithm), chip_machine()
    found = st.size_fifos(program, machine)
    names = {fifo.name for fifo in st.simulation.prepare(program, machine).wiring.fifos}
    assert set(found.depths) == names  # and not those of the ends of streams
    shallow = _cycles(program, machine, dict.fromkeys(names, 1))
    unbounded = _cycles(program, machine, dict.fromkeys(names))
    assert _cycles(program, machine, found.depths) <= 1.01 * unbounded < 0.5 * shallow


def test_a_deadlock_on_several_chips_has_a_least_fix() -> None:
    with st.Program("stuck", compute_bw=1024, fifo_depth=2) as program:
        with st.chip(0):
            x = st.linear_load(st.spec(64, 8192), tile=(16, 64))
            rest = x.map(st.fn.silu)
        with st.chip(1):
            total = x.accum(st.fn.add, rank=1)
        with st.chip(2):
            st.linear_store(st.map(st.fn.add, rest, total.unsqueeze(0).expand(128)), "y")
    machine = chip_machine()
    run = st.simulate(program, machine)
    why = st.why(program, machine)
    assert why.status == run.status == "deadlock"
    assert why.fix is not None
    assert st.simulate(program, machine, fifo_depth=why.fix.depths).status == "ok"


def test_a_deadlock_of_a_placed_program_has_a_least_fix() -> None:
    with st.Program("stuck", compute_bw=1024, fifo_depth=2) as program:
        x = st.linear_load(st.spec(64, 2048), tile=(16, 64))
        total = x.accum(st.fn.add, rank=1)
        st.linear_store(st.map(st.fn.add, x, total.unsqueeze(0).expand(32)), "y")
    machine = st.load_machine("sda-1024", {"noc": "mesh", "noc.rows": 2, "noc.cols": 4})
    why = st.why(program, machine, place="row-major")
    assert why.status == "deadlock"
    assert why.diagnosis is not None
    fifos = {fifo.name for fifo in st.simulation.prepare(program, machine).wiring.fifos}
    assert set(why.diagnosis.deepen) <= fifos
    assert why.fix is not None
    again = st.simulate(program, machine, place="row-major", fifo_depth=why.fix.depths)
    assert again.status == "ok"
