"""What is done with a program takes time by its size: eight times the size, at most 24 times the
time, whatever the shape of the program."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import stepsim as st
from stepsim.explain import critical_path, what_if
from stepsim.simulation import prepare

SMALL, TIMES, SLACK = 250, 8, 3.0
_LEAST = 0.02
"""Seconds that are measured as nothing: clocks and caches disturb shorter ones."""


def chain(n: int) -> None:
    x = st.linear_load(st.spec(64, 16), tile=(16, 16))
    for _ in range(n):
        x = x.map(st.fn.exp)
    x.consume()


def wide(n: int) -> None:
    x = st.linear_load(st.spec(64, 16), tile=(16, 16))
    total = x.map(st.fn.exp)
    for _ in range(n):
        total = total.map(st.fn.add, x.map(st.fn.exp))
    total.consume()


def separate(n: int) -> None:
    for _ in range(n):
        st.linear_load(st.spec(64, 16), tile=(16, 16)).map(st.fn.exp).consume()


def nested(n: int) -> None:
    x = st.linear_load(st.spec(64, 16), tile=(16, 16))
    pair = x
    for _ in range(n // 25):
        pair = st.zip(pair, x)
    pair.consume()


def shaped(n: int) -> None:
    x = st.linear_load(st.spec(64, 16), tile=(16, 16))
    for _ in range(n):
        x = x.unsqueeze(0).flatten(0, 1)
    x.consume()


def routed(n: int) -> None:
    x = st.linear_load(st.spec(64, 16), tile=(1, 16)).flatten(0, 1)
    routing = st.routing([[i % n] for i in range(64)], n)
    parts = st.partition(x, routing.multihot())
    st.reassemble([part.map(st.fn.exp) for part in parts], routing.multihot()).consume()


def long(n: int) -> None:
    x = st.linear_load(st.spec(16, 16), tile=(16, 16)).flatten(0, 1)
    x.repeat(100 * n).flatten(0, 1).map(st.fn.exp).consume()


FAMILIES: list[Callable[[int], None]] = [chain, wide, separate, nested, shaped, routed, long]
USES: dict[str, Callable[[st.Program], Any]] = {
    "print": str,
    "fingerprint": lambda program: program.fingerprint(),
    "draw": lambda program: program.to_mermaid(),
    "measure": lambda program: repr(program.metrics()),
    "prepare": prepare,
    "simulate": st.simulate,
    "path": lambda program: critical_path(program).folded(),
    "change": lambda program: str(what_if(program, most=2, threads=1)),
}


def _built(family: Callable[[int], None], n: int) -> st.Program:
    with st.Program("grown", compute_bw=64) as program:
        family(n)
    return program


def _seconds(work: Callable[[], Any], times: int) -> float:
    """The least CPU time of a few calls."""
    found = []
    for _ in range(times):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found)


@pytest.mark.parametrize("use", ["build", *USES])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_time_grows_with_the_size(
    benchmark: BenchmarkFixture, family: Callable[[int], None], use: str
) -> None:
    def measured(n: int, times: int) -> float:
        if use == "build":
            return _seconds(lambda: _built(family, n), times)
        # A program keeps what was found out about it, so that each use has one of its own.
        programs = [_built(family, n) for _ in range(times)]
        return _seconds(lambda: USES[use](programs.pop()), times)

    measured(SMALL, 1)
    small = max(_LEAST, measured(SMALL, 3))
    large = benchmark.pedantic(lambda: measured(SMALL * TIMES, 2), rounds=1)
    benchmark.extra_info["times"] = round(large / small, 1)
    assert large <= SLACK * TIMES * small
