"""Requests per second of a DRAM alone, in CPU time of the compiled driver; printed with ``-s``.

Goals on a quiet core: 10 M sequential, 4 M of colliding streams, 2 M at random places. Limits are
half of them, for cores that are not quiet.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from stepsim.dram import random_blocks, sequential, spec_of
from stepsim.kernels import dram_words, new_traffic, run_traffic

_TURNS = 5
_MEGABYTE = 1 << 20

_PATTERNS = {
    "sequential": ([sequential(400_000, 16)], 10.0),
    "4 colliding streams": ([sequential(100_000, 16, s * _MEGABYTE) for s in range(4)], 4.0),
    "16 colliding streams": ([sequential(25_000, 16, s * _MEGABYTE) for s in range(16)], 4.0),
    "random": ([random_blocks(400_000, 16, 16, 1 << 30)], 2.0),
}


@pytest.mark.parametrize("pattern", _PATTERNS)
@pytest.mark.parametrize("rounds", [0, 1], ids=["back-to-back", "paced"])
def test_dram_speed(pattern: str, rounds: int) -> None:
    streams, goal = _PATTERNS[pattern]
    spec = spec_of("hbm2-hdl")
    address = np.concatenate(streams)
    begin = np.cumsum([0, *map(len, streams)])
    nothing = np.zeros(len(address), np.int64)
    fastest = float("inf")
    for _ in range(_TURNS):
        traffic = new_traffic(
            dram_words(spec, 64), begin, address, nothing, nothing, channels=spec.channels,
            rounds=rounds,
        )  # fmt: skip
        start = time.process_time()
        run_traffic(traffic)
        fastest = min(fastest, time.process_time() - start)
    millions = len(address) / fastest / 1e6
    print(f"{pattern}, rounds {rounds}: {millions:.1f} M requests/s (goal {goal:g})")
    assert millions > goal / 2
