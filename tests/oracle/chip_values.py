"""What chips hold after a collective, by moving numbers with the messages of a run.

A message carries what its algorithm sends in this step out of what its chip holds at that time;
what it brings counts from the time at which it is received. Blocks have one number each.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

__all__ = ["expected", "moved"]

Held = dict[tuple[int, int], int]
"""Numbers by block; for an all-to-all blocks are (origin, destination), else (block, 0)."""


def moved(run: Any, given: np.ndarray) -> tuple[list[Held], list[int]]:
    """What every chip holds at the end of a chunk, and bytes per block of every message.

    given : a number for each chip and block. [chips, chips]
    """
    n = len(given)
    held: list[Held] = []
    for node in range(n):
        if run.kind == "all-gather":
            held.append({(node, 0): int(given[node, node])})
        elif run.kind == "all-to-all":
            held.append({(node, other): int(given[node, other]) for other in range(n)})
        else:
            held.append({(block, 0): int(given[node, block]) for block in range(n)})
    events = []
    for i in range(len(run.sent_ns)):
        events.append((int(run.received_ns[i]), 0, i))
        events.append((int(run.sent_ns[i]), 1, i))
    carried: dict[int, Held] = {}
    adding: dict[int, bool] = {}
    bytes_per_block = []
    steps = Counter[int]()
    for _, is_sent, i in sorted(events):
        source, destination = int(run.source[i]), int(run.destination[i])
        if not is_sent:
            mine = held[destination]
            for block, value in carried.pop(i).items():
                mine[block] = mine[block] + value if adding[i] else value
            continue
        blocks, adding[i] = _blocks(run, n, source, destination, steps[source])
        steps[source] += 1
        carried[i] = {block: held[source][block] for block in blocks}
        bytes_per_block.append(int(run.nbytes[i]) // len(blocks))
    assert not carried
    return held, bytes_per_block


def _blocks(
    run: Any, n: int, source: int, destination: int, step: int
) -> tuple[list[tuple[int, int]], bool]:
    """The blocks that a chip sends in a step, and whether the receiver adds them to its own."""
    kind, reduces = run.kind, run.kind in ("all-reduce", "reduce-scatter")
    if run.algorithm == "ring":
        if kind == "all-to-all":
            distance = 1
            while step >= distance:
                step -= distance
                distance += 1
            origin = (source - step) % n
            return [(origin, (origin + distance) % n)], False
        if reduces and step < n - 1:
            return [((source - step) % n, 0)], True
        if kind == "all-reduce":
            return [((source + 1 - (step - (n - 1))) % n, 0)], False
        return [((source - step) % n, 0)], False
    if run.algorithm == "direct":
        if kind == "all-to-all":
            return [(source, destination)], False
        if reduces and step < n - 1:
            return [(destination, 0)], True
        return [(source, 0)], False
    rounds = n.bit_length() - 1
    if reduces and step < rounds:
        # Of the blocks whose lower bits are its own, those that the partner keeps.
        low = (1 << step) - 1
        keeps = [
            b for b in range(n) if b & low == source & low and (b ^ destination) >> step & 1 == 0
        ]
        assert destination == source ^ 1 << step
        return [(block, 0) for block in keeps], True
    far = step - rounds if reduces else step  # partners come nearer, and have what was gathered
    bit = rounds - 1 - far
    assert destination == source ^ 1 << bit
    gathered = [b for b in range(n) if (b ^ source) & ((2 << bit) - 1) == 0]
    return [(block, 0) for block in gathered], False


def expected(kind: str, given: np.ndarray) -> list[Held]:
    """What every chip has to hold, among other things."""
    n = len(given)
    total = given.sum(axis=0)
    found: list[Held] = []
    for node in range(n):
        if kind == "all-reduce":
            found.append({(block, 0): int(total[block]) for block in range(n)})
        elif kind == "all-gather":
            found.append({(block, 0): int(given[block, block]) for block in range(n)})
        elif kind == "all-to-all":
            found.append({(other, node): int(given[other, node]) for other in range(n)})
        else:
            found.append({})
    return found
