"""Time and memory of tokens that are stored in sources, up to the first step of the engine."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.networks import sources
from stepsim.kernels import state_of
from stepsim.lowering import Network, build_image

UNITS, TOKENS = 10_000, 10_000_000


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _prepare(network: Network) -> None:
    image = build_image(network)
    state_of(image, len(image.slots))


def measure(form: str) -> tuple[float, float]:
    """Seconds and bytes per token of this process: the network, its image and a run's copies.

    Time is that of lowering and copying. Memory is the peak beyond that of sources of one token.
    """
    _prepare(sources(UNITS, UNITS, form))
    before = _peak_bytes()
    network = sources(UNITS, TOKENS, form)
    begin = time.process_time()
    _prepare(network)
    seconds = time.process_time() - begin
    return seconds / TOKENS, (_peak_bytes() - before) / TOKENS


@pytest.mark.parametrize("form", ["list", "array"])
def test_ten_million_tokens_of_ten_thousand_units(benchmark: BenchmarkFixture, form: str) -> None:
    """In a process of its own, whose peak no other test has raised."""
    program = f"from bench.test_source_speed import measure; print(*measure({form!r}))"

    def run() -> tuple[float, float]:
        command = [sys.executable, "-c", program]
        words = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        return float(words[0]), float(words[1])

    seconds, size = benchmark.pedantic(run, rounds=1)
    benchmark.extra_info["microseconds_per_token"] = round(1e6 * seconds, 3)
    benchmark.extra_info["bytes_per_token"] = round(size, 1)
    assert seconds <= 0.3e-6
    assert size <= 32
