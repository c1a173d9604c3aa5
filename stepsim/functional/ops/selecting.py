"""filter_rows and shuffle."""

from __future__ import annotations

from stepsim.functional.network import Node, Steps
from stepsim.functional.registry import evaluates
from stepsim.functional.values import Payload, Selection, TileValue, Token
from stepsim.graph import FilterRows, Shuffle


@evaluates(FilterRows)
def _filter_rows(op: FilterRows, node: Node) -> Steps:
    data, *masks = node.inputs
    while True:
        if not masks:
            token = yield from data.take()
            if token is None:
                return
            kept = list(range(token.payload.rows))
        else:
            both = yield from node.pair(data, masks[0])
            if both is None:
                return
            token = both[0]
            kept = _flags(both[1].payload, token.payload, node)
        if not kept and token.level:
            node.fail(
                f"no row of tile {data.taken - 1} is selected, and it carries stop level "
                f"{token.level}: an empty inner dim has no stop token"
            )
        tile: TileValue = token.payload
        for row in kept:
            piece = TileValue(tile.data[row : row + 1], 1, tile.width)
            node.emit(piece, token.level if row == kept[-1] else 0)


def _flags(mask: Payload, tile: TileValue, node: Node) -> list[int]:
    if isinstance(mask, Selection):
        flags, rows = mask.width, list(mask.indices)
    else:
        flags, rows = mask.rows, [i for i in range(mask.rows) if mask.data[i, 0]]
    if flags != tile.rows:
        node.fail(f"a mask of {flags} flags came for a tile of {tile.rows} rows")
    return rows


@evaluates(Shuffle)
def _shuffle(op: Shuffle, node: Node) -> Steps:
    data, selectors = node.inputs
    item = op.rank - 1
    buckets: dict[int, list[Token]] = {}
    while (chosen := (yield from selectors.take())) is not None:
        level = -1
        while level < item:
            token = yield from data.take()
            if token is None:
                node.fail(
                    f"data ended while selector {selectors.taken - 1} still asks for an item",
                    "data and selectors must have the same outer dims",
                )
            level = token.level
            for bucket in chosen.payload.indices:
                buckets.setdefault(bucket, []).append(token)
        if level != chosen.level + item:
            node.fail(
                f"an item ends with stop level {level}, its selector has level {chosen.level}",
                "data and selectors must have the same outer dims",
            )
        if level >= op.rank:
            _flush(op, node, buckets, level)
            buckets.clear()
    if buckets:
        node.fail("the selectors end inside a group")


def _flush(op: Shuffle, node: Node, buckets: dict[int, list[Token]], level: int) -> None:
    """Send the buckets of a group that ends with ``level``, in ascending order."""
    if not buckets:
        node.fail("no item of a group has a bucket; an empty inner dim has no stop token")
    width = node.outputs[1].stream.type.width  # type: ignore[union-attr]
    last = max(buckets)
    for bucket in sorted(buckets):
        ends = bucket == last
        node.emit(Selection((bucket,), width), level - (op.rank - 1) if ends else 0, 1)
        *inner, final = buckets[bucket]
        for token in inner:
            node.emit(token.payload, min(token.level, op.rank - 1))
        node.emit(final.payload, level + 1 if ends else op.rank)
