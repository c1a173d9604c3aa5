"""A published decode block: interval, latency and memory of FIFOs."""

from __future__ import annotations

from itertools import pairwise

import pytest

from stepsim.reproduce.streamtensor.codo_decode import (
    PUBLISHED_INTERVAL,
    PUBLISHED_LATENCY,
    StageBlock,
    decode_block,
)
from stepsim.reproduce.streamtensor.stepping_runs import run_network, solved_network
from stepsim.sizing import Depths, planned_depths
from tests.sizing.drawn_networks import least_alone

BLOCKS = 4


def ends_of(block: StageBlock, depths: Depths) -> list[int]:
    """When the last stage ends with each block."""
    run = run_network(block.network, depths)
    assert not run.deadlock
    names = [kernel.name for kernel in block.network.kernels]
    done = run.dones[names.index("normal_2")]
    steps = len(done) // BLOCKS
    return done[steps - 1 :: steps]


@pytest.mark.slow
@pytest.mark.parametrize("reductions", [False, True])
def test_planned_depths_reproduce_interval_and_latency(reductions: bool) -> None:
    block = decode_block(BLOCKS, reductions=reductions)
    bits = [fifo.bits for fifo in block.network.fifos]
    sized = solved_network(block.network, planned_depths(block.network), weights=bits)
    ends = ends_of(block, sized.depths)
    assert [b - a for a, b in pairwise(ends)] == [PUBLISHED_INTERVAL] * 3
    # The report lets stages behind a mean begin before all of it is there.
    within = 0.15 if reductions else 0.10
    assert ends[0] == pytest.approx(PUBLISHED_LATENCY, rel=within)
    assert (ends[0] > 1.1 * PUBLISHED_LATENCY) == reductions
    assert sized.simulations <= 5
    # Tokens of a row wait for its means; nothing else needs to be deep.
    assert block.bits(sized.depths) < 0.01 * block.published_bits
    assert len(block.published) == 47


def test_published_depths_are_as_fast_as_unbounded_ones() -> None:
    block = decode_block()
    depths = (*block.published, *(1,) * (len(block.network.fifos) - len(block.published)))
    assert run_network(block.network, depths).makespan == block.network.cycles


def test_a_bypass_of_a_mean_holds_the_row() -> None:
    block = decode_block()
    names = [kernel.name for kernel in block.network.kernels]
    bypass = next(
        number
        for number, fifo in enumerate(block.network.fifos)
        if (names[fifo.producer], names[fifo.consumer]) == ("split_mean_1", "center_1")
    )
    assert least_alone(block.network, bypass) == 32
