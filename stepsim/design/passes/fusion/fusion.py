"""Fusion: which kernels are on the chip together, under a budget of converter bytes.

Kernels of one group hand tokens to each other on chip, through a converter where their orders
differ; tensors between groups go through external memory. Source: StreamTensor, section 3.4 and
Algorithm 2 (``greedy_groups``, as printed), whose weaknesses are trap T7: every kernel without
predecessor opens a group and groups never merge, so that a graph with two sources stays split under
any budget. ``merged_groups`` repairs that; ``best_groups`` tries every partition of a small graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from stepsim.design.passes.fusion.kernel_order import Labels, is_acyclic, renumbered
from stepsim.errors import CompileError

__all__ = [
    "MOST_EXHAUSTIVE",
    "BestGroups",
    "Counting",
    "FusionEdge",
    "FusionGraph",
    "FusionStep",
    "Groups",
    "best_groups",
    "greedy_groups",
    "traffic",
]

Counting = Literal["edges", "tensors"]
"""How bytes through external memory are counted.

``edges``: the bytes of every edge between groups. ``tensors``: a tensor is stored once if another
group reads it, and loaded once by every such group.
"""

MOST_EXHAUSTIVE = 10
"""Kernels of a graph of which every partition is tried: 115 975 of them."""


@dataclass(frozen=True, slots=True)
class FusionEdge:
    """A tensor from one kernel to another.

    Attributes
    ----------
    producer, consumer : numbers of kernels.
    cost : bytes of the converter if both are in one group; 0 where the stream types match.
    bytes : size of the tensor.
    tensor : number of the tensor; edges with the same one carry the same values.
    converter : number of the converter where several edges share one, which costs a group once.
    """

    producer: int
    consumer: int
    cost: int
    bytes: int
    tensor: int
    converter: int | None = None


@dataclass(frozen=True)
class FusionGraph:
    """Kernels, numbered in topological order, and the tensors between them.

    Raises
    ------
    CompileError
        An edge does not lead from a kernel to a later one, or a size is negative.
    """

    kernels: int
    edges: tuple[FusionEdge, ...]
    names: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        for number, edge in enumerate(self.edges):
            if not 0 <= edge.producer < edge.consumer < self.kernels:
                raise CompileError(
                    f"edge {number} of a fusion graph must lead from a kernel to a later one of "
                    f"{self.kernels}, found {edge.producer} to {edge.consumer}; number the kernels "
                    "in topological order"
                )
            if min(edge.cost, edge.bytes) < 0:
                raise CompileError(
                    f"edge {number} of a fusion graph, {edge.producer} to {edge.consumer}, has "
                    f"{edge.cost} bytes of converter and {edge.bytes} of tensor; neither is "
                    "negative"
                )

    @cached_property
    def links(self) -> tuple[tuple[int, int], ...]:
        """Producer and consumer of every edge."""
        return tuple((edge.producer, edge.consumer) for edge in self.edges)

    @cached_property
    def weak_components(self) -> int:
        """Parts of the graph that no edge joins."""
        labels = list(range(self.kernels))
        for producer, consumer in self.links:
            old, new = labels[consumer], labels[producer]
            labels = [new if label == old else label for label in labels]
        return len(set(labels))


@dataclass(frozen=True, slots=True)
class FusionStep:
    """What the greedy algorithm did with a kernel.

    Attributes
    ----------
    candidates : bytes of converters that each group of a predecessor would need for it.
    chosen : its group.
    opened : the group is a new one.
    """

    kernel: int
    candidates: Mapping[int, int]
    chosen: int
    opened: bool


@dataclass(frozen=True)
class Groups:
    """A partition of the kernels.

    Attributes
    ----------
    labels : group of every kernel, numbered in order of their first kernels.
    steps : of the greedy algorithm; empty of another.
    """

    graph: FusionGraph
    labels: Labels
    steps: tuple[FusionStep, ...] = ()

    @property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """Kernels of every group."""
        found: list[list[int]] = [[] for _ in range(max(self.labels, default=-1) + 1)]
        for kernel, label in enumerate(self.labels):
            found[label].append(kernel)
        return tuple(map(tuple, found))

    @property
    def costs(self) -> tuple[int, ...]:
        """Bytes of converters in every group."""
        found: list[dict[object, int]] = [{} for _ in range(max(self.labels, default=-1) + 1)]
        for number, edge in enumerate(self.graph.edges):
            if self.labels[edge.producer] == self.labels[edge.consumer]:
                found[self.labels[edge.producer]][_paid(number, edge)] = edge.cost
        return tuple(sum(costs.values()) for costs in found)

    def traffic(self, counting: Counting = "tensors") -> int:
        """Bytes through external memory."""
        return traffic(self.graph, self.labels, counting)

    def is_valid(self, budget: int) -> bool:
        """Groups can run one after another, and each is within the budget."""
        return max(self.costs, default=0) <= budget and is_acyclic(self.graph.links, self.labels)


@dataclass(frozen=True, slots=True)
class BestGroups:
    """The least traffic of all partitions, and with it the least bytes of converters.

    Attributes
    ----------
    groups : one of the best.
    traffic, converter_bytes : of it.
    at_optimum : partitions with this traffic.
    valid : partitions under the budget whose groups can run one after another.
    """

    groups: Groups
    traffic: int
    converter_bytes: int
    at_optimum: int
    valid: int


def traffic(graph: FusionGraph, labels: Sequence[int], counting: Counting = "tensors") -> int:
    """Bytes through external memory with these groups."""
    crossing = [edge for edge in graph.edges if labels[edge.producer] != labels[edge.consumer]]
    if counting == "edges":
        return sum(edge.bytes for edge in crossing)
    stored = {edge.tensor: edge.bytes for edge in crossing}
    loaded = {(edge.tensor, labels[edge.consumer]): edge.bytes for edge in crossing}
    return sum(stored.values()) + sum(loaded.values())


def greedy_groups(graph: FusionGraph, budget: int) -> Groups:
    """Algorithm 2 as printed: one pass in topological order, no group is looked at again.

    A kernel joins the latest group that one of its predecessors is in, if the converters of all
    edges from there are within the budget, and else opens a new one.
    """
    labels: list[int] = []
    costs: list[int] = []
    paid: set[object] = set()
    steps = []
    for kernel in range(graph.kernels):
        candidates: dict[int, int] = {}
        needed: dict[object, int] = {}
        for number, edge in enumerate(graph.edges):
            if edge.consumer == kernel:
                group = labels[edge.producer]
                candidates.setdefault(group, 0)
                key = _paid(number, edge)
                if key not in needed and (key, group) not in paid:
                    candidates[group] += edge.cost
                needed[key] = group
        latest = max(candidates, default=-1)
        opened = latest < 0 or costs[latest] + candidates[latest] > budget
        if opened:
            chosen = len(costs)
            costs.append(0)
        else:
            chosen = latest
            costs[latest] += candidates[latest]
            paid |= {(key, group) for key, group in needed.items() if group == latest}
        labels.append(chosen)
        steps.append(FusionStep(kernel, candidates, chosen, opened))
    return Groups(graph, tuple(labels), tuple(steps))


def _paid(number: int, edge: FusionEdge) -> object:
    """What costs bytes: a converter of its own, or one that several edges share."""
    return (number, None) if edge.converter is None else (None, edge.converter)


def best_groups(graph: FusionGraph, budget: int, counting: Counting = "tensors") -> BestGroups:
    """The best of all partitions.

    Raises
    ------
    CompileError
        The graph has more kernels than ``MOST_EXHAUSTIVE``.
    """
    if graph.kernels > MOST_EXHAUSTIVE:
        raise CompileError(
            f"all partitions are tried for at most {MOST_EXHAUSTIVE} kernels, found "
            f'{graph.kernels}; fuse by method="merge"'
        )
    best: tuple[int, int, Labels] | None = None
    valid = at_optimum = 0
    for labels in _partitions(graph.kernels):
        groups = Groups(graph, labels)
        if not groups.is_valid(budget):
            continue
        valid += 1
        found = (groups.traffic(counting), sum(groups.costs), labels)
        if best is None or found[0] < best[0]:
            at_optimum = 0
        at_optimum += best is None or found[0] <= best[0]
        best = found if best is None else min(best, found)
    assert best is not None  # every kernel alone needs no converter
    return BestGroups(Groups(graph, best[2]), best[0], best[1], at_optimum, valid)


def _partitions(kernels: int) -> Iterator[Labels]:
    """All partitions, each as labels in order of first use."""
    labels: list[int] = [0] * kernels

    def below(kernel: int, used: int) -> Iterator[Labels]:
        if kernel == kernels:
            yield renumbered(labels)
            return
        for label in range(used + 1):
            labels[kernel] = label
            yield from below(kernel + 1, max(used, label + 1))

    return below(0, 0)
