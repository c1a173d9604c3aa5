"""Groups of kernels that are on the chip together: what each costs, and whether they can run.

Kernels of one group hand tokens to each other on chip, through a converter where their orders
differ; tensors between groups go through external memory (StreamTensor, on kernel fusion).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from stepsim.errors import CompileError

Counting = Literal["edges", "tensors"]
"""The rule for counting bytes through external memory.

``edges``: the bytes of every edge between groups. ``tensors``: a tensor is stored once if another
group reads it, and loaded once by every such group.
"""

Labels = tuple[int, ...]
"""Group of every kernel."""


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


@dataclass(frozen=True, slots=True)
class FusionStep:
    """The step of the greedy algorithm for one kernel.

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
                found[self.labels[edge.producer]][converter_of(number, edge)] = edge.cost
        return tuple(sum(costs.values()) for costs in found)

    def traffic(self, counting: Counting = "tensors") -> int:
        """Bytes through external memory."""
        return traffic(self.graph, self.labels, counting)

    def is_valid(self, budget: int) -> bool:
        """Whether groups can run one after another, each within the budget."""
        return max(self.costs, default=0) <= budget and is_acyclic(self.graph.links, self.labels)


def traffic(graph: FusionGraph, labels: Sequence[int], counting: Counting = "tensors") -> int:
    """Bytes through external memory with these groups."""
    crossing = [edge for edge in graph.edges if labels[edge.producer] != labels[edge.consumer]]
    if counting == "edges":
        return sum(edge.bytes for edge in crossing)
    stored = {edge.tensor: edge.bytes for edge in crossing}
    loaded = {(edge.tensor, labels[edge.consumer]): edge.bytes for edge in crossing}
    return sum(stored.values()) + sum(loaded.values())


def converter_of(number: int, edge: FusionEdge) -> object:
    """What costs bytes: a converter of its own, or one that several edges share."""
    return (number, None) if edge.converter is None else (None, edge.converter)


def renumbered(labels: Sequence[int]) -> Labels:
    """The same groups, numbered from 0 in the order of their first kernels."""
    numbers: dict[int, int] = {}
    return tuple(numbers.setdefault(label, len(numbers)) for label in labels)


def _group_edges(links: Iterable[tuple[int, int]], labels: Sequence[int]) -> dict[int, set[int]]:
    """Groups that follow directly on each."""
    after: dict[int, set[int]] = {label: set() for label in labels}
    for producer, consumer in links:
        if labels[producer] != labels[consumer]:
            after[labels[producer]].add(labels[consumer])
    return after


def is_acyclic(links: Iterable[tuple[int, int]], labels: Sequence[int]) -> bool:
    """Whether no group depends on itself through others."""
    after = _group_edges(links, labels)
    waiting = dict.fromkeys(after, 0)
    for targets in after.values():
        for target in targets:
            waiting[target] += 1
    ready = [group for group, count in waiting.items() if not count]
    done = 0
    while ready:
        done += 1
        for target in after[ready.pop()]:
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return done == len(after)


def between(
    links: Iterable[tuple[int, int]], labels: Sequence[int], one: int, other: int
) -> set[int]:
    """Both groups and all on a way from one to the other, in either direction."""
    after = _group_edges(links, labels)
    before: dict[int, set[int]] = {group: set() for group in after}
    for group, targets in after.items():
        for target in targets:
            before[target].add(group)
    found = {one, other}
    for source, sink in ((one, other), (other, one)):
        found |= _reached(after, source) & _reached(before, sink)
    return found


def _reached(edges: dict[int, set[int]], start: int) -> set[int]:
    """Groups on a way of one edge or more from a group."""
    found: set[int] = set()
    todo = [start]
    while todo:
        for target in edges[todo.pop()] - found:
            found.add(target)
            todo.append(target)
    return found
