"""Which transfers wait for which: as stated, and by the two virtual channels of a source."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import ArgError
from stepsim.noc.topology import Routes, Topology
from stepsim.noc.traffic import Traffic

Whole = NDArray[np.int64]


class Dependence(NamedTuple):
    """Transfers that wait for others.

    Attributes
    ----------
    waiting : number of transfers that each waits for. [transfers]
    delay : cycles from the end of the last of them. [transfers]
    begin, child : transfers that wait for each, and first of each in ``child``.
    """

    waiting: Whole
    delay: Whole
    begin: Whole
    child: Whole


def stated(traffic: Traffic) -> Dependence:
    """As the traffic states it.

    Raises
    ------
    ArgError : transfers wait for each other.
    """
    return _of(traffic, traffic.after, np.repeat(np.arange(len(traffic)), _counts(traffic)))


def with_channels(
    traffic: Traffic, topology: Topology, routes: Routes, ready: NDArray[np.float64] | Whole
) -> Dependence:
    """The same, and what the two virtual channels of a source add.

    Of the transfers that leave a place on the same network in the same direction, in the order in
    which they are ready, each waits for the one before the last. Where a transfer states what it
    waits for, that holds instead.

    Raises
    ------
    ArgError : transfers wait for each other.
    """
    count = len(traffic)
    source = routes.path[routes.begin[:-1]]
    first = np.full(count, topology.link_count, np.int64)
    far = routes.links > 0
    if len(routes.path):
        # A multicast's links are sorted, so its first is the one with the lowest number.
        links = routes.path[np.minimum(routes.begin[:-1] + 1, len(routes.path) - 1)]
        first[far] = topology.directions(links[far])
    order = np.lexsort((np.arange(count), ready, first, source))
    older, younger = order[:-2], order[2:]
    same = (source[older] == source[younger]) & (first[older] == first[younger])
    free = same & ~traffic.waits[younger]
    parents = np.concatenate([traffic.after, older[free]])
    children = np.concatenate([np.repeat(np.arange(count), _counts(traffic)), younger[free]])
    return _of(traffic, parents, children)


def _counts(traffic: Traffic) -> Whole:
    return np.diff(traffic.after_begin)


def _of(traffic: Traffic, parents: Whole, children: Whole) -> Dependence:
    count = len(traffic)
    order = np.lexsort((children, parents))
    waiting = np.bincount(children, minlength=count).astype(np.int64)
    begin = np.concatenate([[0], np.cumsum(np.bincount(parents, minlength=count))])
    found = Dependence(waiting, traffic.delay, begin.astype(np.int64), children[order])
    if len(traffic.after):
        _check_cycles(found, parents, children)
    return found


def _check_cycles(found: Dependence, parents: Whole, children: Whole) -> None:
    waiting, begin, child = (one.tolist() for one in (found.waiting, found.begin, found.child))
    ready = [i for i, left in enumerate(waiting) if left == 0]
    done = 0
    while ready:
        i = ready.pop()
        done += 1
        for other in child[begin[i] : begin[i + 1]]:
            waiting[other] -= 1
            if waiting[other] == 0:
                ready.append(other)
    if done == len(waiting):
        return
    stuck = np.array(waiting) > 0
    waits_for = dict(zip(children[stuck[parents]].tolist(), parents[stuck[parents]].tolist(),
                         strict=True))  # fmt: skip
    at = next(iter(waits_for))
    seen: list[int] = []
    while at not in seen:
        seen.append(at)
        at = waits_for[at]
    cycle = [*seen[seen.index(at) :], at]
    shown = " waits for ".join(str(one) for one in cycle[:8])
    more = "" if len(cycle) <= 8 else f", and so on to {at}"
    raise ArgError(
        f"after: transfers wait for each other: {shown}{more} (as stated, or for the second before "
        "it from the same place in the same direction); remove one of them"
    )
