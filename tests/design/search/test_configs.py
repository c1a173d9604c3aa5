"""Named configurations: the design of the paper's table."""

from __future__ import annotations

from typing import Any

import pytest

import stepsim as st
from stepsim.design import CONFIGS, Choices
from stepsim.errors import StepSimError
from stepsim.reproduce import published_rows
from stepsim.reproduce.streamtensor.gpt2 import uncalibrated


@pytest.mark.slow
def test_the_published_design_is_that_of_the_reproduction() -> None:
    made = st.compile("gpt2-medium", config="published", phase="decode", shrink=False)
    known = uncalibrated().cycles("decode", 1, 511)
    assert made.plan.unbounded == known
    assert known <= (made.plan.simulated or 0) <= 1.005 * known
    assert made.plan.graph.operators.attributes["context"] == CONFIGS["published"].context


@pytest.mark.slow
def test_prompts_of_the_published_design_are_those_of_the_reproduction() -> None:
    for tokens in (32, 64):
        made = st.compile("gpt2-medium", config="published", tokens=tokens)
        assert made.plan.unbounded == uncalibrated().cycles("prefill", tokens)
        assert made.plan.status == "ok"


@pytest.mark.slow
def test_published_times_stand_beside_simulated_ones() -> None:
    rows = published_rows("published")
    assert [row.request for row in rows] == ["32:32", "64:64", "128:128", "256:256"]
    assert rows[1].published_TTFT_ms == 61.27
    for row in rows:
        assert row.TTFT_ms == pytest.approx(row.published_TTFT_ms, rel=0.1)


@pytest.mark.parametrize(
    ("model", "named", "said"),
    [
        ("gpt2-medium", {"config": "publishd"}, "no config 'publishd'; did you mean 'published'?"),
        ("gpt2-medium", {"config": "published", "choices": Choices()}, "give one of them"),
        ("gpt2-medium", {"config": "published", "hidden": 64}, "leave hidden out"),
        ("gpt2-medium", {"config": "published", "machine": "sda-1024"}, "found machine sda-1024"),
        ("gemma-3-1b", {"config": "published"}, "is of model gpt2-medium, found gemma-3-1b"),
        ("gpt2-medium", {"rows": 8}, "rows: has an effect on streamed designs alone"),
        ("gpt2-medium", {"streamed": "outside", "order": "tokens_outermost"}, "order: has no eff"),
        ("gpt2-medium", {"network_lanes": 8, "unrolling": "exact"}, "unrolling: has no effect"),
        ("gpt2-medium", {"burst_bytes": 64, "packed": False}, "burst_bytes: has an effect"),
        ("gpt2-medium", {"effort": -1}, "effort: expected a whole number from 0"),
    ],
)
def test_mistakes_are_reported(model: str, named: dict[str, Any], said: str) -> None:
    with pytest.raises(StepSimError) as caught:
        st.compile(model, **named)
    assert said in str(caught.value)


@pytest.mark.slow
def test_a_search_that_ends_early_says_what_it_left_out() -> None:
    sizes = {"hidden": 32, "inner": 64, "heads": 2, "kv_heads": 2, "head_dim": 8}
    whole = st.compile("gpt2-medium", **sizes).plan
    some = st.compile("gpt2-medium", **sizes, effort=8_000).plan
    assert "unsearched" not in whole.choices
    (text,) = some.choices["unsearched"]
    assert text.startswith("FIFOs of group 0 are shrunk by ")
    assert (some.fifo_bytes or 0) >= (whole.fifo_bytes or 0)
    assert some.groups[0].simulations < whole.groups[0].simulations
    room = st.load_machine("u55c", {"onchip.capacity_bytes": 1_000})
    tight = st.compile("gpt2-medium", room, **sizes, effort=0).plan
    assert (
        "designs with a smaller budget, tile, unroll are not tried: they may fit"
        in (tight.choices["unsearched"])
    )
    assert st.design.Plan.from_yaml(some.to_yaml()).choices == some.choices


@pytest.mark.slow
def test_steps_are_reported_in_order() -> None:
    said: list[str] = []
    sizes = {"hidden": 32, "inner": 32, "heads": 2, "kv_heads": 2, "head_dim": 8}
    st.compile("gpt2-medium", **sizes, shrink=False, progress=said.append)
    assert said[0] == "design 1: simulating the order tokens_outermost"
    assert "design 1: simulating its kernels alone" in said
    assert said[-1] == "design 1: placing its buffers and kernels"
