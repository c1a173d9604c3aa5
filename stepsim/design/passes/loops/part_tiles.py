"""Tiles of results that are read in parts, as queries, keys and values of one product.

A producer sends a part by whole turns of its loops, so that the borders of a part must not lie
inside of a tile whose other pieces belong to further parts: of 24 columns in tiles of 12, the
columns 8 to 15 are the end of one turn and the beginning of the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import NamedTuple, TypeAlias

from stepsim.design.operators.graph import Op, Operand, OperatorGraph
from stepsim.design.operators.structured import parts_of

Parts: TypeAlias = tuple[tuple[int, int], ...]
"""First position and length of every part of a dim that is read alone."""


class PartTile(NamedTuple):
    """A tile that is smaller than the default since parts of the result are read alone."""

    operator: str
    dim: str
    tile: int
    default: int
    part: int

    def __str__(self) -> str:
        return (
            f"{self.operator}: dim {self.dim} has tiles of {self.tile}, not {self.default}: parts "
            f"of its result are read separately, and {self.part} divides their borders"
        )


def parts_read(graph: OperatorGraph) -> dict[str, dict[str, Parts]]:
    """Parts in which the results of operators are read, ``{operator: {dim: parts}}``.

    Only of dims that have an axis of the result for themselves and are not read as a whole.
    """
    read: dict[str, list[list[tuple[int, int]]]] = {}
    for op in graph.ops:
        for slot, operand in enumerate(op.inputs):
            read.setdefault(operand.tensor, []).append(_window(op, slot, operand))
    found: dict[str, dict[str, Parts]] = {}
    for op in graph.ops:
        for axis, index in enumerate(op.output.access):
            moving = [(dim, n) for dim, n in index.terms if op.sizes[dim] > 1]
            if len(moving) != 1 or moving[0][1] != 1 or index.offset:
                continue
            dim = moving[0][0]
            windows = {window[axis] for window in read.get(op.output.tensor, ())}
            windows.discard((0, op.sizes[dim]))
            if windows:
                found.setdefault(op.name, {})[dim] = tuple(sorted(windows))
    return found


def _window(op: Op, slot: int, operand: Operand) -> list[tuple[int, int]]:
    """First position and length of what an operand reads along every axis."""
    first, sizes = {}, dict(op.sizes)
    for dim, (start, end) in parts_of(op, slot).items():
        first[dim], sizes[dim] = start, end - start
    window = []
    for index in operand.access:
        low = index.offset + sum(n * first.get(dim, 0) for dim, n in index.terms)
        moves = [n * (sizes[dim] - 1) for dim, n in index.terms]
        window.append((low + sum(min(0, n) for n in moves), 1 + sum(map(abs, moves))))
    return window


def fits_parts(tile: int, parts: Parts) -> bool:
    """Whether every part is whole tiles, or lies within one."""
    return all(
        (start % tile == 0 and length % tile == 0) or start // tile == (start + length - 1) // tile
        for start, length in parts
    )


def common_divisor(parts: Parts) -> int:
    """The greatest common divisor of the borders of all parts."""
    return gcd(*(number for part in parts for number in part))


def part_tiles(
    graph: OperatorGraph, size: int, stated: Mapping[str, Mapping[str, int]]
) -> tuple[PartTile, ...]:
    """Tiles of a tiled graph that parts made smaller than the default.

    Parameters
    ----------
    size, stated : default and single tiles that the graph was tiled with.
    """
    found = []
    for name, dims in parts_read(graph).items():
        op = graph.op(name)
        for dim, parts in dims.items():
            if op.tiling is None or dim in stated.get(name, {}):
                continue
            tile = op.tiling.tile[dim]
            default = max(
                n for n in range(1, min(size, op.sizes[dim]) + 1) if op.sizes[dim] % n == 0
            )
            if tile < default and not fits_parts(default, parts):
                found.append(PartTile(name, dim, tile, default, common_divisor(parts)))
    return tuple(found)
