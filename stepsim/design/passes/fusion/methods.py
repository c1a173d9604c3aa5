"""Methods of grouping kernels under a budget of converter bytes.

``greedy_groups`` is Algorithm 2 of StreamTensor as printed, whose weaknesses are these: every
kernel without predecessor opens a group and groups never merge, so that a graph with two sources
stays split under any budget. ``merged_groups`` joins groups of several sources, takes another group
than the latest, and undoes choices; ``best_groups`` tries every partition of a small graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stepsim.design.passes.fusion.groups import (
    Counting,
    FusionGraph,
    FusionStep,
    Groups,
    Labels,
    between,
    converter_of,
    renumbered,
)
from stepsim.errors import CompileError
from stepsim.typed import typed

MOST_EXHAUSTIVE = 10
"""Kernels of a graph of which every partition is tried: 115 975 of them."""


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


def greedy_groups(graph: FusionGraph, budget: int) -> Groups:
    """Algorithm 2 as printed: one pass in topological order, without revisiting groups.

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
                key = converter_of(number, edge)
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


@typed
def merged_groups(graph: FusionGraph, budget: int, counting: Counting = "tensors") -> Groups:
    """Groups of little external traffic under a budget of bytes of converters per group.

    It starts from the groups of the printed algorithm and from every kernel alone, and gives the
    better result, so it is never worse than the printed one.
    """
    starts = (greedy_groups(graph, budget).labels, tuple(range(graph.kernels)))
    ends = [_improved(Groups(graph, labels), budget, counting) for labels in starts]
    best = min(ends, key=lambda groups: _rank(groups, counting))
    return Groups(graph, renumbered(best.labels))


def _rank(groups: Groups, counting: Counting) -> tuple[int, int, int]:
    return groups.traffic(counting), sum(groups.costs), len(groups.members)


def _improved(groups: Groups, budget: int, counting: Counting) -> Groups:
    """The best merge again and again, then the best move of one kernel, until nothing helps."""
    rank = _rank(groups, counting)
    while True:
        for kind in (_merges, _moves):
            found = [
                (_rank(other, counting), labels)
                for labels in set(kind(groups))
                if (other := Groups(groups.graph, labels)).is_valid(budget)
            ]
            if found and min(found)[0] < rank:
                rank, labels = min(found)
                groups = Groups(groups.graph, labels)
                break
        else:
            return groups


def _merges(groups: Groups) -> Iterator[Labels]:
    """Two groups that share a tensor made one, with all groups that lie between them."""
    labels, graph = groups.labels, groups.graph
    users: dict[int, set[int]] = {}
    for edge in graph.edges:
        users.setdefault(edge.tensor, set()).update((labels[edge.producer], labels[edge.consumer]))
    pairs = {(a, b) for found in users.values() for a in found for b in found if a < b}
    for one, other in pairs:
        joined = between(graph.links, labels, one, other)
        yield renumbered([one if label in joined else label for label in labels])


def _moves(groups: Groups) -> Iterator[Labels]:
    """One kernel in the group of a neighbor, or alone."""
    labels = groups.labels
    near: list[set[int]] = [{len(labels)} for _ in labels]
    for producer, consumer in groups.graph.links:
        near[producer].add(labels[consumer])
        near[consumer].add(labels[producer])
    for kernel, targets in enumerate(near):
        for target in targets - {labels[kernel]}:
            yield renumbered((*labels[:kernel], target, *labels[kernel + 1 :]))


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
