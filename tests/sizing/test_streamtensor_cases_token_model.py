"""One FIFO: closed forms and token by token, against a cycle loop made elsewhere."""

from __future__ import annotations

from typing import Any

from stepsim.reproduce.streamtensor.token_model import Link
from tests.design.cases import each_case


@each_case("token_model")
def test_streamtensor_cases_token_model(case: dict[str, Any]) -> None:
    link = Link(
        case["T"], case["D_src"], case["II_src"], case["II_dst"], case["delay"], case["hop"]
    )
    trace, expected = link.trace(), case["expected"]
    assert {
        "peak": trace.peak,
        "peak_slot_reuse_next_cycle": trace.peak_slot_reuse_next_cycle,
        "first_pop": trace.pops[0],
        "last_pop": trace.pops[-1],
        "starved_cycles": trace.starved_cycles,
        "first_peak_cycle": trace.first_peak_cycle,
        "delay_eff": link.effective_delay,
        "L": link.last,
        "applies": link.applies,
        "eq1": link.eq1,
        "eq2": link.eq2,
        "printed": link.printed,
        "corrected": link.peak,
        "depth": link.depth,
    } == expected
