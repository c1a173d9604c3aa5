"""Groups of numbered kernels: whether they can run one after another, and in what order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["Labels", "between", "is_acyclic", "renumbered"]

Labels = tuple[int, ...]
"""Group of every kernel."""


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
    """No group waits for itself through others."""
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
