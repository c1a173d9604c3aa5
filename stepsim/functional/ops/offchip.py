"""Off-chip operators (STeP paper, table 3). Addresses are row-major tile indices."""

from __future__ import annotations

from itertools import product

from stepsim.functional.network import Node, Steps
from stepsim.functional.registry import evaluates
from stepsim.functional.values import ACK, TileValue
from stepsim.graph import LinearLoad, LinearStore, RandomLoad, RandomStore, Tile, stop_levels


@evaluates(LinearLoad)
def _linear_load(op: LinearLoad, node: Node) -> Steps:
    grid = node.world.tensors.grid(op)
    stored = (
        grid.tile(sum(i * s for i, s in zip(step, op.stride, strict=True)))
        for step in product(*(range(q) for q in op.shape))
    )
    walk = [TileValue.of(tile.T if op.transposed else tile) for tile in stored]
    levels = stop_levels(op.shape)
    inner = len(op.shape)
    if not node.inputs:
        for tile, level in zip(walk, levels, strict=True):
            node.emit(tile, min(level, inner - 1))
        return
    while (token := (yield from node.inputs[0].take())) is not None:
        if token.level < op.trigger_rank:
            continue
        levels[-1] = inner + token.level - op.trigger_rank
        for tile, level in zip(walk, levels, strict=True):
            node.emit(tile, level)


@evaluates(RandomLoad)
def _random_load(op: RandomLoad, node: Node) -> Steps:
    grid = node.world.tensors.grid(op)
    while (token := (yield from node.inputs[0].take())) is not None:
        address = _checked(token.payload.value, len(grid), op, node)
        node.emit(TileValue.of(grid.tile(address)), token.level)


def _checked(address: int, tiles: int, op: RandomLoad | RandomStore, node: Node) -> int:
    if address >= tiles:
        node.fail(
            f"address {address} is outside of {op.tensor}, which has {tiles} tiles of "
            f"{op.tile.rows}x{op.tile.cols}",
            "check base, stride and the values that the address is made of",
        )
    return address


def _same_size(tile: TileValue, declared: Tile, node: Node) -> None:
    if tile.data.shape != (int(declared.rows), int(declared.cols)):
        node.fail(f"{tile!r} arrived, the store declares {declared}")


@evaluates(LinearStore)
def _linear_store(op: LinearStore, node: Node) -> Steps:
    declared = op.inputs[0].type
    assert isinstance(declared, Tile)
    while (token := (yield from node.inputs[0].take())) is not None:
        _same_size(token.payload, declared, node)


@evaluates(RandomStore)
def _random_store(op: RandomStore, node: Node) -> Steps:
    addresses, data = node.inputs
    grid = node.world.tensors.grid(op)
    acks = addresses if op.ack == "addr" else data
    while True:
        at, tile = (yield from addresses.head()), (yield from data.head())
        if at is None and tile is None:
            return
        if at is None or tile is None:
            short = addresses if at is None else data
            node.fail(
                f"{short.role} ended after {short.taken} elements, the other input goes on",
                "addresses and tiles are paired one to one",
            )
        addresses.taken += 1
        data.taken += 1
        _same_size(tile.payload, op.tile, node)
        address = _checked(at.payload.value, len(grid), op, node)
        node.world.tensors.write(op, address, tile.payload.data, node)
        node.emit(ACK, (at if acks is addresses else tile).level)
