"""Accesses that workloads make, against a memory that serves one request after another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.recorded_traffic import RUNS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.recorded_traffic"],
        cwd=ROOT, env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def ends(
    model: str, channels: int, interval: int, delay: int, bundles: list[int], accesses: Any
) -> list[int]:
    """When each access is over, cycle by cycle and request by request."""
    free = [0] * channels
    position = [p * 2654435769 % 2**32 * channels // 2**32 for p in range(len(bundles))]
    starting: dict[int, list[int]] = {}
    for number, access in enumerate(accesses):
        starting.setdefault(access[1] + 1, []).append(number)
    left: dict[int, tuple[int, int]] = {}  # access and requests to come, of ports that issue
    last = [0] * len(accesses)
    offset = 0
    t = 0
    while left or starting:
        if not left:
            t = min(starting)
        for number in starting.pop(t, ()):
            port, _, requests, _ = accesses[number]
            assert port not in left
            left[port] = (number, requests)
        sent = 0
        for port in sorted(left):
            number, requests = left[port]
            size = min(bundles[port], requests)
            for _ in range(size):
                if model == "interleaved":
                    c = position[port] % channels
                    position[port] += 1
                else:
                    c = (offset + sent * (sent + 1) // 2) % channels
                begin = max(free[c], t + 1)
                free[c] = begin + interval
                last[number] = max(last[number], begin + delay + 1)
                sent += 1
            left[port] = (number, requests - size)
            if requests == size:
                del left[port]
        offset = (offset + sent * (sent + 1) // 2) % channels
        t += 1
    return last


@pytest.mark.long
@pytest.mark.parametrize("run", RUNS, ids=lambda run: "-".join(map(str, run)))
def test_accesses_of_workloads(recorded: list[dict[str, Any]], run: Any) -> None:
    _, model, channels, interval, _, widest = run
    found = recorded[RUNS.index(run)]
    accesses = found["accesses"]
    assert len(accesses) > 20
    assert widest // 2 < max(found["bundles"]) <= widest
    expected = ends(model, channels, interval, found["delay"], found["bundles"], accesses)
    assert [access[3] for access in accesses] == expected
