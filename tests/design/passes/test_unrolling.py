"""The unroll heap against every choice of factors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random
from statistics import median

import pytest

from stepsim.design.passes.loops.unrolling import Unrollable, exact, heap_skip, heap_stop
from stepsim.errors import CompileError


def drawn(random: Random) -> tuple[list[Unrollable], int]:
    kernels = [
        Unrollable(
            random.randint(1, 5000),
            tuple(1 << k for k in range(random.randint(1, 6))),
            random.choice((1, 1, 2)),
            random.choice((0, 0, 50)),
        )
        for _ in range(random.randint(1, 6))
    ]
    least = sum(kernel.unit_cost for kernel in kernels)
    return kernels, random.randint(least, 8 * least)


def test_the_heap_is_as_fast_as_the_best_of_all_choices() -> None:
    random = Random(0)
    for _ in range(150):
        kernels, budget = drawn(random)
        best = min(
            (max(k.latency(f) for k, f in zip(kernels, choice, strict=True)), resource)
            for choice in product(*(kernel.factors for kernel in kernels))
            if (resource := sum(k.unit_cost * f for k, f in zip(kernels, choice, strict=True)))
            <= budget
        )
        found = exact(kernels, budget)
        assert (found.latency, found.resource) == best
        for method in (heap_stop, heap_skip):
            heap = method(kernels, budget)
            assert heap.latency == best[0]
            assert best[1] <= heap.resource <= budget


@pytest.mark.parametrize("budget", [64, 256, 512, 1024, 4096])
def test_unrolling_evens_the_stages_out(budget: int) -> None:
    # Products of a GPT-2 medium block, per token against a context of 256.
    linear, attention = 1024 * 1024, 1024 * 256
    work = (linear, linear, linear, attention, attention, linear, 4 * linear, 4 * linear)
    kernels = [Unrollable(each, tuple(1 << k for k in range(10))) for each in work]

    def imbalance(factors: Sequence[int]) -> float:
        latency = [k.latency(f) for k, f in zip(kernels, factors, strict=True)]
        return max(latency) / median(latency)

    before = imbalance([1] * len(kernels))
    assert before == 4
    assert imbalance(heap_stop(kernels, budget).factors) <= before / 2


def test_factors_must_rise_and_fit() -> None:
    with pytest.raises(CompileError, match=r"'fc': unroll factors must be increasing .* \[2, 2\]"):
        Unrollable(8, (2, 2), name="fc")
    with pytest.raises(CompileError, match=r"budget of 5 is less than the 6 .* 'b' alone needs 4"):
        exact([Unrollable(8, (2,), name="a"), Unrollable(8, (4,), name="b")], 5)
    with pytest.raises(CompileError, match="no kernel to unroll"):
        heap_stop([], 5)
