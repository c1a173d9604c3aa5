"""What the chips of a program send to each other, counted along its FIFOs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from stepsim.graph import Program, wire

__all__ = ["messages_of", "moved"]


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
