"""Unrolling: the multipliers of each kernel that make the slowest as fast as possible.

Latency of a kernel at factor ``u`` is ``fixed + ceil(work / u)`` cycles, its resources are
``u * unit_cost``. Source: StreamTensor, on the tiling space: a heap by intensity (``heap_stop``);
the paper leaves open what one move is, here the next factor of a kernel. Its latency is the least
there is, but ties can cost resources for nothing; ``exact`` gives the least resources at that
latency.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from stepsim.errors import CompileError


@dataclass(frozen=True, slots=True)
class Unrollable:
    """A kernel that can be unrolled.

    Attributes
    ----------
    work : operations of one run, as multiply-accumulates.
    factors : how often it can be unrolled, increasing.
    unit_cost : resources of each copy.
    fixed : cycles that no copy saves.
    name : for messages.

    Raises
    ------
    CompileError
        There is no factor, or they do not increase from 1 or more.
    """

    work: int
    factors: tuple[int, ...]
    unit_cost: int = 1
    fixed: int = 0
    name: str = ""

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip((0, *self.factors), self.factors, strict=False))
        if not self.factors or not rising:
            raise CompileError(
                f"kernel '{self.name}': unroll factors must be increasing numbers from 1, found "
                f"{list(self.factors)}"
            )

    def latency(self, factor: int) -> int:
        """Cycles of one run, unrolled so often."""
        return self.fixed + -(-self.work // factor)


@dataclass(frozen=True, slots=True)
class Unrolling:
    """Factors of all kernels.

    Attributes
    ----------
    latency : cycles of the slowest kernel.
    resource : of all copies together.
    """

    factors: tuple[int, ...]
    latency: int
    resource: int


def heap_stop(kernels: Sequence[Unrollable], budget: int) -> Unrolling:
    """Give the slowest kernel its next factor, until it has none or the budget is used up.

    Raises
    ------
    CompileError
        The smallest factors exceed the budget; names the kernel that needs most.
    """
    return _by_heap(kernels, budget, skip=False)


def heap_skip(kernels: Sequence[Unrollable], budget: int) -> Unrolling:
    """As ``heap_stop``, but a kernel that cannot grow is put aside and the next one gets more.

    Faster kernels than the slowest gain nothing for the interval; their latency falls.

    Raises
    ------
    CompileError
        The smallest factors exceed the budget; names the kernel that needs most.
    """
    return _by_heap(kernels, budget, skip=True)


def _by_heap(kernels: Sequence[Unrollable], budget: int, *, skip: bool) -> Unrolling:
    _check(kernels, budget)
    chosen = [0] * len(kernels)
    resource = sum(kernel.factors[0] * kernel.unit_cost for kernel in kernels)
    heap = [(-kernel.latency(kernel.factors[0]), i) for i, kernel in enumerate(kernels)]
    heapq.heapify(heap)
    while heap:
        _, i = heapq.heappop(heap)
        kernel, place = kernels[i], chosen[i]
        grows = place + 1 < len(kernel.factors)
        more = (
            (kernel.factors[place + 1] - kernel.factors[place]) * kernel.unit_cost if grows else 0
        )
        if not grows or resource + more > budget:
            if skip:
                continue
            break
        chosen[i] += 1
        resource += more
        heapq.heappush(heap, (-kernel.latency(kernel.factors[place + 1]), i))
    return _unrolling(
        kernels, [kernel.factors[c] for kernel, c in zip(kernels, chosen, strict=True)]
    )


def exact(kernels: Sequence[Unrollable], budget: int) -> Unrolling:
    """The least latency of the slowest kernel, and the least resources with it.

    Raises
    ------
    CompileError
        The smallest factors exceed the budget; names the kernel that needs most.
    """
    _check(kernels, budget)
    latencies = sorted({k.latency(factor) for k in kernels for factor in k.factors})
    low, high = 0, len(latencies) - 1
    while low < high:
        middle = (low + high) // 2
        found = _within(kernels, latencies[middle])
        if found is not None and found.resource <= budget:
            high = middle
        else:
            low = middle + 1
    best = _within(kernels, latencies[low])
    assert best is not None  # the smallest factors are within the budget
    return best


def _within(kernels: Sequence[Unrollable], latency: int) -> Unrolling | None:
    """The smallest factors that are fast enough."""
    factors = []
    for kernel in kernels:
        enough = [factor for factor in kernel.factors if kernel.latency(factor) <= latency]
        if not enough:
            return None
        factors.append(enough[0])
    return _unrolling(kernels, factors)


def _unrolling(kernels: Sequence[Unrollable], factors: Sequence[int]) -> Unrolling:
    pairs = list(zip(kernels, factors, strict=True))
    return Unrolling(
        tuple(factors),
        max(kernel.latency(factor) for kernel, factor in pairs),
        sum(factor * kernel.unit_cost for kernel, factor in pairs),
    )


def _check(kernels: Sequence[Unrollable], budget: int) -> None:
    if not kernels:
        raise CompileError("there is no kernel to unroll; a graph has one or more")
    least = [kernel.factors[0] * kernel.unit_cost for kernel in kernels]
    if sum(least) > budget:
        most = least.index(max(least))
        raise CompileError(
            f"an unroll budget of {budget} is less than the {sum(least)} that {len(kernels)} "
            f"kernels need with their smallest factors; kernel '{kernels[most].name or most}' "
            f"alone needs {least[most]}: raise the budget or use smaller tiles"
        )
