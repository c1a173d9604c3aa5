"""CPU time from a workload to the arrays of the engine, and of what stands around a run.

Numbers are printed with ``-s``. Limits are twice what an idle machine takes.
"""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.kernels import driver
from stepsim.simulation import make_case
from stepsim.workloads import Data

_TURNS = 5


def _routing(rows: int, experts: int, k: int, seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).random((rows, experts))
    return np.argsort(drawn, axis=1)[:, :k]


def _seconds(work: Callable[[], object]) -> float:
    gc.collect()
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _layer(tile: Any, seed: int = 0) -> Any:
    data = Data.of(routing=_routing(64, 128, 8, seed))
    return make_case("moe", data, model="qwen3-30b-a3b", tile=tile)


class _Timed:
    """The compiled engine, and the CPU seconds spent in it."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.seconds = 0.0

    def __call__(self, *given: Any) -> Any:
        begin = time.process_time()
        done = self._engine(*given)
        self.seconds += time.process_time() - begin
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


@pytest.mark.parametrize("tile", [32, "dynamic"])
def test_a_layer_of_128_experts_is_built_and_prepared(tile: Any) -> None:
    build, prepare, fingerprint = [], [], []
    for _ in range(_TURNS):
        found: list[Any] = []
        build.append(_seconds(lambda found=found: found.append(_layer(tile))))
        (case,) = found
        prepare.append(_seconds(lambda case=case: case.prepared))
        program = _layer(tile).built.program
        fingerprint.append(_seconds(program.fingerprint))
    print(
        f"\ntile {tile}: build {1e3 * min(build):.0f} ms, prepare {1e3 * min(prepare):.0f} ms, "
        f"of which fingerprint {1e3 * min(fingerprint):.0f} ms"
    )
    assert min(build) < 0.12
    assert min(prepare) < 0.12


def test_another_routing_costs_little_beyond_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = _Timed(driver.engine_of("published"))
    monkeypatch.setattr(driver, "engine_of", lambda model: engine)
    case = _layer(32)
    program = case.built.program
    beyond = []
    for seed in range(12):
        engine.seconds = 0.0
        bindings = case.built.bindings(Data.of(routing=_routing(64, 128, 8, seed)))
        whole = _seconds(lambda bindings=bindings: st.simulate(program, bindings=bindings))
        beyond.append(whole - engine.seconds)
    least = 1e3 * sorted(beyond)[len(beyond) // 2]
    print(f"\nbeyond the engine: {least:.2f} ms")
    assert least < 5


def test_a_decode_step_of_48_layers() -> None:
    """All layers with their own routing; one program, prepared once, serves all."""
    lengths = np.random.default_rng(0).integers(100, 3000, 64)
    steps = [
        Data.of(routing=_routing(64, 128, 8, layer), kv_lengths=lengths) for layer in range(48)
    ]
    found: list[Any] = []

    def first() -> None:
        case = make_case("decoder", steps[0], model="qwen3-30b-a3b", variant="dynamic")
        found.extend((case, case.prepared))

    once = _seconds(first)
    loop = _seconds(lambda: [found[0].run(data) for data in steps])
    built = found[0].built
    tables: list[Any] = []
    many = _seconds(
        lambda: tables.append(
            st.simulate_many(built.program, [built.bindings(data) for data in steps], threads=1)
        )
    )
    print(
        f"\nprepared once in {once:.2f} s, 48 layers one by one in {loop:.2f} s, in one call of "
        f"simulate_many in {many:.2f} s"
    )
    assert tables[0].column("status").unique().to_pylist() == ["ok"]
    assert once < 0.5
    assert loop < 4
    assert many < 4


def test_a_layer_of_deepseek_for_4096_tokens() -> None:
    data = Data.of(routing=_routing(4096, 256, 8, 0))
    found: list[Any] = []
    build = _seconds(lambda: found.append(make_case("moe", data, model="deepseek-v3", tile=16)))
    prepare = _seconds(lambda: found[0].prepared)
    run = _seconds(lambda: found[0].run(data))
    print(f"\nbuild {build:.2f} s, prepare {prepare:.2f} s, run {run:.2f} s")
    assert build + prepare + run < 1.6


def test_all_figures_with_two_processes(tmp_path: Path) -> None:
    before = _children()
    subprocess.run(
        [sys.executable, "-m", "stepsim", "reproduce", "all", "--jobs", "2", "--out",
         os.fspath(tmp_path / "figures")],
        check=True, capture_output=True,
    )  # fmt: skip
    seconds = _children() - before
    print(f"\nreproduce all --jobs 2: {seconds:.1f} s")
    assert seconds < 14


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
