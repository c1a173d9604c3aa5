"""Speed of the memory models alone, in requests per CPU second: random sizes and a replay.

*Random sizes*: 64 ports with bundles of 1 to 4 requests fetch tiles of 16 to 512 requests one after
the other, 4 million requests in all, on a memory that starts a request per channel and two cycles.
The replay repeats the accesses of a run of Figure 9 at their clocks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from stepsim.graph import Program, linear_load, spec
from stepsim.kernels import INFINITY, MEMORY_MODELS, execute, next_unit, pop_unit, state_of
from stepsim.lowering import Image, TimingParams, build_image
from stepsim.machine import load_machine
from stepsim.simulation import prepare
from tests.oracle.build import NetBuilder

ROOT = Path(__file__).resolve().parents[1]

_RECORD = """
import json, sys
from stepsim.simulation import prepare
from stepsim.workloads import Data, Moe
from tests.kernels.recorded_traffic import record
data = Data.of(routing=json.load(sys.stdin))
built = Moe.of(model="qwen3-30b-a3b", tile=32, config="published", data=data).build(data)
json.dump(record(prepare(built.program).image(built.bindings(data))), sys.stdout)
"""


def _image(bundles: Any, channels: int, model: str) -> Image:
    """A memory with one port for every bundle size; port ``p`` belongs to unit ``2 * p``."""
    b = NetBuilder(TimingParams(hbm_channels=channels, memory_model=model))
    for i, bundle in enumerate(bundles):
        size = int(bundle)
        b.unit(f"load{i}", "OffChipLoad", [], [f"c{i}"], tile=[1, 1], bpe=2, view=[1], par=size)
        b.unit(f"end{i}", "Consumer", [f"c{i}"], [])
    return build_image(b.network())


def _drivers(model: str) -> tuple[Callable[..., int], Callable[..., int]]:
    kernels = MEMORY_MODELS[model].kernels
    issue, advance = kernels["issue"], kernels["advance"]

    @numba.njit  # type: ignore[untyped-decorator]
    def fetch_in_turn(state: Any, sizes: Any) -> int:
        """Every port fetches its tiles one after the other."""
        shared = state.globals[0]
        ports, tiles = sizes.shape
        fetched = np.zeros(ports, np.int64)
        for p in range(ports):
            issue(state, p, 0, sizes[p, 0])
        while True:
            due = state.units[next_unit(state)].evt if shared.calendar_length > 0 else INFINITY
            advance(state, due)
            if shared.calendar_length == 0:
                return 0
            due = state.units[next_unit(state)].evt
            while shared.calendar_length > 0 and state.units[next_unit(state)].evt == due:
                p = pop_unit(state) >> 1
                fetched[p] += 1
                if fetched[p] < tiles:
                    issue(state, p, due, sizes[p, fetched[p]])

    @numba.njit  # type: ignore[untyped-decorator]
    def replay(state: Any, accesses: Any) -> int:
        """Accesses at their clocks; how many were not over at the clock that was recorded."""
        shared = state.globals[0]
        expected = np.zeros(len(state.ports), np.int64)
        wrong = i = 0
        while i < len(accesses) or shared.memory_active + shared.memory_pending > 0:
            limit = accesses[i, 1] if i < len(accesses) else INFINITY
            if shared.calendar_length > 0:
                limit = min(limit, state.units[next_unit(state)].evt)
            advance(state, limit)
            if shared.calendar_length > 0:
                limit = min(limit, state.units[next_unit(state)].evt)
            while shared.calendar_length > 0 and state.units[next_unit(state)].evt <= limit:
                wrong += int(expected[pop_unit(state) >> 1] != limit)
            while i < len(accesses) and accesses[i, 1] <= limit:
                issue(state, accesses[i, 0], accesses[i, 1], accesses[i, 2])
                expected[accesses[i, 0]] = accesses[i, 3]
                i += 1
        while shared.calendar_length > 0:
            due = state.units[next_unit(state)].evt
            wrong += int(expected[pop_unit(state) >> 1] != due)
        return wrong

    return fetch_in_turn, replay


def _rate(benchmark: BenchmarkFixture, image: Image, driver: Any, traffic: Any) -> float:
    """Requests per CPU second, the best of a few runs."""
    rates: list[float] = []

    def run() -> int:
        state = state_of(image, len(image.slots))
        begin = time.process_time()
        wrong: int = driver(state, traffic)
        rates.append(int(state.globals[0].memory_requests) / (time.process_time() - begin))
        return wrong

    run()
    assert benchmark.pedantic(run, rounds=7) == 0
    benchmark.extra_info["million_requests_per_second"] = round(max(rates[1:]) / 1e6)
    return max(rates[1:])


@pytest.mark.parametrize("model", ["published", "interleaved"])
@pytest.mark.parametrize("channels", [32, 127])
def test_random_sizes(benchmark: BenchmarkFixture, channels: int, model: str) -> None:
    generator = np.random.default_rng(0)
    image = _image(generator.integers(1, 5, 64), channels, model)
    sizes = generator.integers(16, 513, (64, 237))
    fetch_in_turn, _ = _drivers(model)
    assert _rate(benchmark, image, fetch_in_turn, sizes) >= 150e6


def test_replay_of_qwen_tile_32(benchmark: BenchmarkFixture, routing: Any) -> None:
    """2,836 accesses of 9.0 million requests, recorded by running the engine as plain Python."""
    done = subprocess.run(
        [sys.executable, "-c", _RECORD], input=json.dumps(routing["qwen3-30b-a3b"].tolist()),
        cwd=ROOT, env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    recorded = json.loads(done.stdout)
    _, replay = _drivers("published")
    image = _image(recorded["bundles"], 32, "published")
    accesses = np.array(recorded["accesses"], np.int64)
    accesses = accesses[np.argsort(accesses[:, 1], kind="stable")]
    assert _rate(benchmark, image, replay, accesses) >= 2e9


@pytest.mark.parametrize(("streams", "least"), [(1, 3e6), (4, 3e6)])
def test_dram_in_the_engine(benchmark: BenchmarkFixture, streams: int, least: float) -> None:
    """Loads of one or four streams of 512-byte requests that read ahead, on the HDL's memory."""
    with Program("streams") as program:
        for i in range(streams):
            rows = 64 * 4000 // streams
            tensor = spec(rows, 128, dtype="f32", name=f"x{i}")
            linear_load(tensor, tile=(64, 128)).consume()
    prepared = prepare(program, load_machine("hdl-arbiter", {"hbm.addresses.bases": "packed"}))
    image = prepared.image()
    rates = []

    def run() -> None:
        begin = time.process_time()
        done = execute(image)
        rates.append(int(done.units["requests"].sum()) / (time.process_time() - begin))

    run()
    benchmark.pedantic(run, rounds=5)
    benchmark.extra_info["million_requests_per_second"] = round(max(rates[1:]) / 1e6, 1)
    assert max(rates[1:]) >= least
