"""Depths of a few hundred FIFOs by linear program within a second of processor time."""

from __future__ import annotations

import time
from random import Random

from stepsim.reproduce.streamtensor.path_program import path_delays
from stepsim.sizing import (
    Fifo,
    FifoNetwork,
    SteppingKernel,
    intervals,
    lower_bounds,
    planned_depths,
)

KERNELS, FIFOS = 120, 200


def network() -> FifoNetwork:
    random = Random(0)
    kernels = tuple(SteppingKernel(64, random.randint(1, 4), 5) for _ in range(KERNELS))
    links = {(kernel, kernel + 1) for kernel in range(KERNELS - 1)}
    while len(links) < FIFOS:
        one, other = sorted(random.sample(range(KERNELS), 2))
        links.add((one, other))
    return FifoNetwork(kernels, tuple(Fifo(*link) for link in sorted(links)))


def test_start_times() -> None:
    many = network()
    planned_depths(many)  # imports the solver
    start = time.process_time()
    planned_depths(many)
    assert time.process_time() - start < 1


def test_the_published_program() -> None:
    many = network()
    path_delays(many, lower_bounds(many, intervals(many, "normal")))
    start = time.process_time()
    path_delays(many, lower_bounds(many, intervals(many, "normal")))
    assert time.process_time() - start < 1
