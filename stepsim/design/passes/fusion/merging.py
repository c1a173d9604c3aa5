"""Fusion by merging groups, and moving kernels, as long as external traffic falls.

What Algorithm 2 cannot do (trap T7): join groups of several sources, take another group than the
latest, undo a choice. It starts from the printed algorithm's groups and from every kernel alone and
gives the better result, so it is never worse than the printed one.
"""

from __future__ import annotations

from collections.abc import Iterator

from stepsim.design.passes.fusion.fusion import Counting, FusionGraph, Groups, greedy_groups
from stepsim.design.passes.fusion.kernel_order import Labels, between, renumbered

__all__ = ["merged_groups"]


def merged_groups(graph: FusionGraph, budget: int, counting: Counting = "tensors") -> Groups:
    """Groups of little external traffic under a budget of bytes of converters per group."""
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
