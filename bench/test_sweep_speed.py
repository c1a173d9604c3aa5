"""A sweep of 1 000 Qwen3-30B-A3B layers: runs per second and core, scaling, and parent memory.

Needs two cores to itself; numbers are printed with ``-s``.
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import psutil
import pytest

from stepsim.sweep import LocalBackend, SweepProgress, plan_sweep, run_sweep
from tests.sweep.support import QWEN_TILES

_TURNS = 3

_THOUSAND_RUNS = QWEN_TILES | {
    "traces": {"synthetic": {"tokens": 64, "layers": 10, "steps": 20, "seed": 1}},
    "chunk": 20,
}


class _Memory:
    """Resident memory of this process after every chunk, in MiB."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def __call__(self, progress: SweepProgress) -> None:
        self.seen.append(psutil.Process().memory_info().rss / 2**20)


def _sweep(folder: Path, jobs: int) -> tuple[float, float, _Memory]:
    """Runs per second, CPU seconds of this process and its workers, memory."""
    memory = _Memory()
    before = _cpu_seconds()
    begin = time.perf_counter()
    backend = LocalBackend(jobs, inline=False)
    try:
        summary = run_sweep(plan_sweep(_THOUSAND_RUNS), folder, backend=backend, progress=memory)
    finally:
        backend.close()
    seconds = time.perf_counter() - begin
    assert (summary.simulated, summary.failures) == (1000, 0)
    return summary.runs / seconds, _cpu_seconds() - before, memory


def _cpu_seconds() -> float:
    usages = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="scaling needs two cores")
def test_thousand_runs_on_two_cores(tmp_path: Path) -> None:
    """In turns, and the best of each, because other work on the machine only slows down."""
    rates: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(_TURNS):
        for jobs, found in rates.items():
            rate, cpu, memory = _sweep(tmp_path / f"{turn}-{jobs}", jobs)
            found.append(rate)
            grown = memory.seen[-1] - memory.seen[len(memory.seen) // 4]
            print(
                f"\n{jobs} worker(s): {rate:.1f} runs/s, {rate / jobs:.1f} per core, "
                f"{1000 / cpu:.1f} per CPU second; memory of this process {memory.seen[-1]:.0f} "
                f"MiB, {grown:+.1f} MiB over the last three quarters"
            )
            assert rate / jobs > 15
            if jobs == 2:
                assert grown < 10
    ratio = max(rates[2]) / max(rates[1])
    print(f"two workers are {ratio:.2f} times as fast as one")
    assert ratio > 1.8
