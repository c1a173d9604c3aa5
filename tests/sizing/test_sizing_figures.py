"""How small sized FIFOs are: against uniform depths, against every choice, on random programs."""

from __future__ import annotations

from math import comb

import pytest
from hypothesis import given

import stepsim as st
from stepsim.errors import EvaluationError
from stepsim.sizing import FifoSizes, Found, ProgramRuns
from tests.property_profile import repeatable
from tests.shared import needs_data
from tests.simulation.drawn_programs import drawn_programs
from tests.sizing.sizing_cases import (
    SizingCase,
    least_slots,
    runs_of,
    sizing_cases,
    uniform_depth,
)

SLOWDOWN = 0.01
CASES = sizing_cases()
LIMITS = st.Limits(max_cycles=100_000, max_steps=200_000)

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def solved(case: SizingCase) -> tuple[ProgramRuns, Found]:
    runs = runs_of(case.network, case.sized)
    return runs, runs.solved(SLOWDOWN)


@needs_data
@each_case
def test_sized_fifos_keep_the_speed_with_no_more_slots_than_a_uniform_depth(
    case: SizingCase,
) -> None:
    runs, found = solved(case)
    (again,) = runs.run([found.depths])
    assert again.status == ("ok",)
    assert again.cycles.tolist() == list(found.cycles)
    assert found.cycles[0] <= runs.cycles[0] * (1 + SLOWDOWN)
    uniform = case.expected["min_uniform_depth_full_speed"]
    assert found.depths.sum() <= uniform * len(case.sized)


@needs_data
def test_slots_and_simulations_of_all_cases_together() -> None:
    found = [solved(case)[1] for case in CASES]
    slots = sum(int(each.depths.sum()) for each in found)
    uniform = sum(case.expected["min_uniform_depth_full_speed"] * len(case.sized) for case in CASES)
    assert slots <= 0.6 * uniform
    assert sum(each.before for each in found) <= 5 * len(found)
    assert all(each.proved for each in found)


@needs_data
@each_case
def test_no_choice_of_depths_is_smaller(case: SizingCase) -> None:
    if len(case.sized) > 6:
        pytest.skip("more than six FIFOs")
    runs, found = solved(case)
    slots = int(found.depths.sum())
    if comb(slots, len(case.sized)) > 20_000:
        pytest.skip("too many choices for every run; the long test tries them")
    assert least_slots(runs, runs.targets(SLOWDOWN)[0], slots) == slots


@pytest.mark.long
@needs_data
@pytest.mark.parametrize("name", ["S001", "S005", "S015", "S025", "S035"])
def test_no_choice_of_many_is_smaller(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    runs, found = solved(case)
    slots = int(found.depths.sum())
    assert least_slots(runs, runs.targets(SLOWDOWN)[0], slots) == slots


def sizes_of_drawn(count: int) -> list[FifoSizes]:
    """Sizes of so many random programs that end well with unbounded FIFOs."""
    programs: list[st.Program] = []

    @repeatable(count + count // 10 + 10)
    @given(drawn_programs())
    def collect(program: st.Program) -> None:
        programs.append(program)

    collect()
    found = []
    for program in programs:
        try:
            found.append(st.size_fifos(program, limits=LIMITS, slowdown=SLOWDOWN))
        except EvaluationError:
            continue
    assert len(found) >= count
    return found[:count]


@pytest.mark.slow
@pytest.mark.parametrize("count", [60, pytest.param(250, marks=pytest.mark.slow)])
def test_random_programs(count: int) -> None:
    found = sizes_of_drawn(count)
    slots = uniform = 0
    for sizes in found:
        again = sizes.prepared.run(limits=LIMITS)
        assert again.status == "ok"
        assert (again.cycles,) == sizes.cycles
        assert sizes.cycles[0] <= sizes.unbounded_cycles[0] * (1 + SLOWDOWN)
        least = uniform_depth(sizes.runs) * len(sizes.depths)
        assert sizes.slots <= least
        # One slot each is the least there is.
        if least > len(sizes.depths):
            slots, uniform = slots + sizes.slots, uniform + least
    assert slots <= 0.6 * uniform
    assert sum(sizes.simulations_before for sizes in found) <= 5 * len(found)
