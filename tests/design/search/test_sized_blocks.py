"""Depths by the linear program: of blocks and of random operator graphs, and what they take."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import pytest
from hypothesis import assume, given, strategies as some

from stepsim.design import MODELS, GraphBuilder, compile
from stepsim.errors import CompileError
from stepsim.reproduce.streamtensor.intermediates import intermediates_of_block
from tests.design.random_graphs import Drawn, drawn_graphs
from tests.property_profile import profile, repeatable

WITHIN = 1.005
"""How much longer than with unbounded FIFOs a run may take."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "phase"), list(zip(MODELS, cycle(["decode", "prefill"]), strict=False))
)
def test_blocks_of_full_size_keep_their_speed(model: str, phase: str) -> None:
    sizes: dict[str, Any] = {"tokens": 16}
    if phase == "decode":
        sizes = {"tokens": 1, "context": 63}
    made = compile(
        model, phase=phase, tile=64, order="tokens_outermost", reuse_bytes=8 << 20,
        placed=False, **sizes,
    )  # fmt: skip
    for group in made.plan.groups:
        assert group.simulated is not None
        assert group.unbounded is not None
        assert group.simulated <= WITHIN * group.unbounded
    edges = made.plan.graph.inner_edges
    sized = sum(edge.fifo_depth * edge.fifo_bits for edge in edges)
    assert len(edges) > 30
    assert sized < 0.2 * sum(1000 * edge.fifo_bits for edge in edges)


def test_a_run_that_ends_just_behind_its_limit_is_too_long() -> None:
    """With 594 cycles without bounds, 597 are more than half a percent."""
    b = GraphBuilder("late")
    y = b.square(b.input("x", (2, 4)))
    b.output(b.softmax(y, 0), "z")
    b.output(y, "y")
    made = compile(b.graph(), tile=1, placed=False, shrink=False)
    for group in made.plan.groups:
        assert group.simulated is not None
        assert group.unbounded is not None
        assert group.simulated <= WITHIN * group.unbounded


def keeps_its_speed(drawn: Drawn, tile: int, **choices: Any) -> None:
    """The design runs to its end, next to as fast as with unbounded FIFOs."""
    try:
        made = compile(drawn.graph, tile=tile, placed=False, predict=False, **choices)
    except CompileError as error:
        # A slice across tiles of several loops.
        if "read alone" not in str(error) and "contiguous slice" not in str(error):
            raise
        assume(False)
    for group in made.plan.groups:
        assert group.simulated is not None
        assert group.unbounded is not None
        assert group.simulated <= WITHIN * group.unbounded


@pytest.mark.slow
@given(drawn_graphs(), some.sampled_from([1, 4, 16]))
@profile(16, 500)
def test_random_operator_graphs_never_deadlock(drawn: Drawn, tile: int) -> None:
    keeps_its_speed(drawn, tile)


@pytest.mark.long
@given(
    drawn_graphs(),
    some.sampled_from([4, 16]),
    some.sampled_from(["reductions_outermost", "reductions_innermost"]),
)
@repeatable(200)
def test_planned_depths_of_200_random_programs(drawn: Drawn, tile: int, order: str) -> None:
    """As above without shrinking, so that 200 of them take some 20 seconds."""
    keeps_its_speed(drawn, tile, order=order, shrink=False)


@pytest.mark.long
def test_fusion_leaves_a_fraction_of_the_intermediates() -> None:
    found = {model: intermediates_of_block(model) for model in MODELS}
    own = {name: one.unfused - one.outputs for name, one in found.items()}
    order = sorted(own, key=lambda name: -own[name])
    assert order == ["tinyllama-1.1b", "gemma-3-1b", "qwen2.5-0.5b", "gpt2-medium"]
    for one in found.values():
        assert one.unfused < 15e6
        assert one.groups == 1
        assert 0.10 <= one.share <= 0.25
