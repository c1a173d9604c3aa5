"""Packets on a mesh, flit by flit of calendars, as the rules of the model ``link`` read.

Every router input and every output is a set of cycles that are taken. Nothing here is of the
package.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence

Packet = tuple[int, int, int, int]
"""Cycle of creation, source, destination, flits."""


def arrivals(
    packets: Sequence[Packet], cols: int, *, router: int = 4, wire: int = 1, inject: int = 2,
    quantum: int = 4, after: Sequence[Sequence[int]] | None = None,
    delay: Sequence[int] | None = None,
) -> list[int]:  # fmt: skip
    """Cycle in which the last flit of every packet arrives, on a mesh with ``cols`` columns.

    A packet is created at the latest of its cycle and, of those it comes after, arrival and delay.
    """
    rank = sorted(range(len(packets)), key=lambda i: (packets[i][0], i))
    number = {i: at for at, i in enumerate(rank)}
    waits = [set(after[i]) if after else set() for i in range(len(packets))]
    paths = [_path(source, to, cols) for _, source, to, _ in packets]
    taken: dict[tuple[str, object], set[int]] = defaultdict(set)
    free: dict[object, int] = defaultdict(int)
    booked: dict[tuple[int, int], int] = defaultdict(int)
    arrival = [-1] * len(packets)
    created = [packet[0] for packet in packets]
    events = [(created[i], number[i], -1, 0) for i in range(len(packets)) if not waits[i]]
    heapq.heapify(events)
    while events:
        time, rank_of, segment, hop = heapq.heappop(events)
        i = rank[rank_of]
        path, flits = paths[i], packets[i][3]
        segments = -(-flits // quantum)
        if hop == 0:
            go = max(time, free[path[0]])
            free[path[0]] = go + flits
            for s in range(segments):
                heapq.heappush(events, (go + s * quantum + inject + router, rank_of, s, 1))
            continue
        n = min(quantum, flits - segment * quantum)
        inside, outside = taken["in", path[hop - 1]], taken["out", path[hop]]
        c = max(time, booked[i, hop])
        while any(cycle in inside or cycle in outside for cycle in range(c, c + n)):
            c += 1
        inside.update(range(c, c + n))
        outside.update(range(c, c + n))
        booked[i, hop] = c + n
        if hop + 1 < len(path):
            heapq.heappush(events, (c + wire + router, rank_of, segment, hop + 1))
        elif segment == segments - 1:
            arrival[i] = c + wire + n - 1
            for other, waiting in enumerate(waits):
                if i in waiting:
                    waiting.remove(i)
                    later = arrival[i] + (delay[other] if delay else 0)
                    created[other] = max(created[other], later)
                    if not waiting:
                        heapq.heappush(events, (created[other], number[other], -1, 0))
    return arrival


def _path(source: int, to: int, cols: int) -> list[object]:
    """Injection port, directed links, ejection port: along the row, then along the column."""
    path: list[object] = [("inject", source)]
    (y, x), (to_y, to_x) = divmod(source, cols), divmod(to, cols)
    while (x, y) != (to_x, to_y):
        here = x, y
        if x != to_x:
            x += 1 if to_x > x else -1
        else:
            y += 1 if to_y > y else -1
        path.append((here, (x, y)))
    return [*path, ("eject", to)]
