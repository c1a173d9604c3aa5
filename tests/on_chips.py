"""Programs on several chips: what the chips send to each other, and an order for their joins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from stepsim.functional import Decisions
from stepsim.graph import MultiHot, Program, Reassemble, SelectorSource, wire

__all__ = ["in_order", "messages_of", "moved"]


def messages_of(
    program: Program, symbols: Mapping[Any, Any] | None = None
) -> dict[int, list[tuple[int, int, int]]]:
    """The streams that leave each chip: where to, how many tiles, and the bytes of one."""
    wiring = wire(program, {})
    source = {fifo: unit.chip for unit in wiring.units for fifo in unit.outputs}
    found: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for unit in wiring.units:
        for index in unit.inputs:
            if source[index] != unit.chip:
                x = wiring.fifos[index].stream
                tile: Any = x.type
                each = int(tile.rows) * int(tile.cols) * tile.dtype.bits // 8
                found[source[index]].append((unit.chip, int(x.cardinality()), each))
    return found


def moved(messages: list[tuple[int, int, int]]) -> tuple[int, int]:
    """Messages of a chip, and their bytes."""
    return sum(count for _, count, _ in messages), sum(n * each for _, n, each in messages)


def in_order(program: Program) -> Decisions:
    """Decisions by which every join with a free order takes its inputs in their order."""
    joins = {}
    for op in program.operators:
        if isinstance(op, Reassemble) and isinstance(op.inputs[-1].producer, SelectorSource):
            kind, flags = op.inputs[-1].type, op.inputs[-1].producer.flags
            if isinstance(kind, MultiHot) and kind.hot != 1:
                rows = flags.reshape(-1, flags.shape[-1])
                joins[op.id] = tuple(tuple(np.flatnonzero(row).tolist()) for row in rows)
    return Decisions(joins=joins)
