"""Many runs of one program: runs per CPU second, what a run costs beyond the engine, two threads.

Numbers are printed with ``-s``. CPU time is compared, as other work on the machine stretches the
time that passes; two threads need two processors to themselves.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.kernels import execute_batch
from stepsim.simulation import make_case
from stepsim.workloads import Data
from tests.simulation.test_many import choices, two_experts

_RUNS = 5000
_TURNS = 5


def cpu_seconds(work: Callable[[], Any], turns: int = _TURNS) -> float:
    """The best of a few turns."""
    best = float("inf")
    for _ in range(turns):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best


def engine_seconds(prepared: st.simulation.Prepared, indices: Any, turns: int = _TURNS) -> float:
    """CPU time of the engine alone, over the runs that these indices make."""
    words = prepared.words(indices)

    def ended(run: int, what: object) -> None:
        raise AssertionError(f"run {run}: {what}")

    image = prepared.template.image(words[0])
    places = prepared.template.places
    return cpu_seconds(
        lambda: execute_batch(image, places, words, on_stop=ended, on_error=ended), turns
    )


def test_small_runs() -> None:
    """The two-expert example of docs/python.md, beside the same runs by `simulate` and `run`."""
    program, routing = two_experts()
    indices = choices(_RUNS)
    prepared = st.prepare(program)
    st.simulate_many(program, {routing: indices[:2]})
    arrays = cpu_seconds(lambda: st.simulate_many(program, {routing: indices}, threads=1)) / _RUNS
    mappings = [{routing: one} for one in indices]
    listed = cpu_seconds(lambda: st.simulate_many(program, mappings, threads=1)) / _RUNS
    engine = engine_seconds(prepared, {routing: indices}) / _RUNS
    some = mappings[:200]
    by_run = cpu_seconds(lambda: [prepared.run(one) for one in some]) / len(some)
    few = mappings[:20]
    simulate = cpu_seconds(lambda: [st.simulate(program, bindings=one) for one in few]) / len(few)
    print(
        f"\nsimulate_many: {1 / arrays:.0f} runs per CPU second of arrays, {1 / listed:.0f} of "
        f"mappings; {(arrays - engine) * 1e3:.4f} and {(listed - engine) * 1e3:.4f} ms a run "
        f"beyond the {engine * 1e3:.4f} ms of the engine; prepare and run {1 / by_run:.0f}, "
        f"simulate {1 / simulate:.0f} runs per CPU second"
    )
    assert 1 / listed >= 5000
    assert listed - engine <= 0.15e-3


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two threads need two processors")
def test_two_threads() -> None:
    """By the work on the longest way: that of the main thread, then half of what the others do.

    The time that passes shows the same where nothing else runs on the two processors.
    """
    program, routing = two_experts()
    indices = np.tile(choices(_RUNS), (20, 1, 1))
    st.simulate_many(program, {routing: indices[:2]})
    one = two = passed_one = passed_two = float("inf")
    for _ in range(_TURNS):
        begin, cpu = time.perf_counter(), time.process_time()
        st.simulate_many(program, {routing: indices}, threads=1)
        one = min(one, time.process_time() - cpu)
        passed_one = min(passed_one, time.perf_counter() - begin)
        begin, cpu, main = time.perf_counter(), time.process_time(), time.thread_time()
        st.simulate_many(program, {routing: indices}, threads=2)
        main = time.thread_time() - main
        two = min(two, main + (time.process_time() - cpu - main) / 2)
        passed_two = min(passed_two, time.perf_counter() - begin)
    print(
        f"\ntwo threads are {one / two:.2f} times as fast as one over {len(indices)} runs by their "
        f"work, {passed_one / passed_two:.2f} times by the time that passed"
    )
    assert one / two >= 1.9


@pytest.mark.parametrize("tile", [16, 32, "dynamic"])
def test_layers_of_128_experts(tile: Any) -> None:
    """Qwen3-30B-A3B, 64 tokens: one by one and as a batch, beside the engine."""
    tables = [st.traces.synthetic_routing(64, 128, 8, seed=seed).experts for seed in range(10)]
    case = make_case("moe", Data.of(routing=tables[0]), model="qwen3-30b-a3b", tile=tile)
    prepared, (routing,) = case.prepared, case.built.program.routings
    indices = {routing: np.stack(tables)}
    prepared.run({routing: tables[0]})
    engine = batch = single = float("inf")
    for _ in range(_TURNS):
        engine = min(engine, engine_seconds(prepared, indices, 1) / len(tables))
        made = cpu_seconds(lambda: prepared.run_many(indices), 1)
        batch = min(batch, made / len(tables))
        alone = cpu_seconds(lambda: [prepared.run({routing: one}) for one in tables], 1)
        single = min(single, alone / len(tables))
    print(
        f"\ntile {tile}: {engine * 1e3:.2f} ms of the engine, {batch * 1e3:.2f} ms a run in a "
        f"batch, {single * 1e3:.2f} ms a run alone"
    )
    assert batch - engine <= 0.15e-3 + 0.05 * engine
    assert single - engine <= 3e-3 + 0.05 * engine
