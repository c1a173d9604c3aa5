"""Shape operators: the same elements with other levels (STeP paper, table 7)."""

from __future__ import annotations

import numpy as np

from stepsim.functional.network import Node, Steps
from stepsim.functional.registry import evaluates
from stepsim.functional.values import Payload, TileValue
from stepsim.graph import (
    ExpandRef,
    Flatten,
    MaskedReshape,
    Promote,
    Repeat,
    Reshape,
    Tile,
    Unsqueeze,
    Zip,
    stop_levels,
)


@evaluates(Flatten)
def _flatten(op: Flatten, node: Node) -> Steps:
    while (token := (yield from node.inputs[0].take())) is not None:
        level = token.level
        inside = level <= op.hi
        node.emit(token.payload, min(level, op.lo) if inside else level - (op.hi - op.lo))


@evaluates(Reshape)
@evaluates(MaskedReshape)
def _reshape(op: Reshape, node: Node) -> Steps:
    steps = _chunk_outer(op, node) if op.dim else _chunk_innermost(op, node)
    yield from steps


def _chunk_outer(op: Reshape, node: Node) -> Steps:
    """Every chunk-th stop at or above the dim is raised by one level."""
    count = 0
    while (token := (yield from node.inputs[0].take())) is not None:
        level = token.level
        if level >= op.dim:
            count += 1
            if count == op.chunk:
                count, level = 0, level + 1
        _send(node, token.payload, level)


def _chunk_innermost(op: Reshape, node: Node) -> Steps:
    """Chunks of every innermost vector, the last one padded."""
    source = node.inputs[0]
    count = 0
    while (token := (yield from source.take())) is not None:
        count += 1
        level = token.level
        if count == op.chunk:
            if op.add_outer and (yield from source.head()) is None:
                level = 1
            _send(node, token.payload, level + 1)
            count = 0
        elif level > 0:
            _send(node, token.payload, 0)
            _fill(op, node, count, level)
            count = 0
        else:
            _send(node, token.payload, 0)
    if count:
        _fill(op, node, count, int(op.add_outer))


def _send(node: Node, payload: Payload, level: int, *, real: bool = True) -> None:
    """Send an element, and its not-padding flag if the operator has that output."""
    node.emit(payload, level)
    if len(node.outputs) > 1:
        node.emit(TileValue.of(np.array([[real]])), level, 1)


def _fill(op: Reshape, node: Node, count: int, level: int) -> None:
    """Pad a chunk of ``count`` elements that ends with ``level``."""
    tile = op.inputs[0].type
    if op.pad is None or not isinstance(tile, Tile):
        node.fail(
            f"a vector ends after {count} of {op.chunk} elements of a chunk and there is no pad",
            "pass pad=0",
        )
    data = np.full((int(tile.rows), int(tile.cols)), op.pad, np.float32)
    pad = TileValue(node.rounded(data), 0, int(tile.cols))
    missing = op.chunk - count
    for number in range(missing):
        _send(node, pad, level + 1 if number == missing - 1 else 0, real=False)


@evaluates(Promote)
def _promote(op: Promote, node: Node) -> Steps:
    yield from _close_outermost(node)


def _close_outermost(node: Node) -> Steps:
    """A new outermost dim: the last element gets one level more than the rank."""
    source = node.inputs[0]
    top = source.feed.stream.rank + 1
    while (token := (yield from source.take())) is not None:
        last = (yield from source.head()) is None
        node.emit(token.payload, top if last else token.level)


@evaluates(Unsqueeze)
def _unsqueeze(op: Unsqueeze, node: Node) -> Steps:
    if op.dim > op.inputs[0].rank:
        yield from _close_outermost(node)
        return
    while (token := (yield from node.inputs[0].take())) is not None:
        level = token.level
        raised = level > 0 or op.dim == 0
        node.emit(token.payload, level + 1 if raised and level >= op.dim else level)


@evaluates(Repeat)
def _repeat(op: Repeat, node: Node) -> Steps:
    inner = stop_levels(op.counts)[:-1]
    while (token := (yield from node.inputs[0].take())) is not None:
        for level in inner:
            node.emit(token.payload, level)
        node.emit(token.payload, token.level + len(op.counts))


@evaluates(ExpandRef)
def _expand(op: ExpandRef, node: Node) -> Steps:
    data, ref = node.inputs
    held = None
    while (step := (yield from ref.take())) is not None:
        if held is None:
            held = yield from data.take()
            if held is None:
                node.fail(
                    f"in ended after {data.taken} elements while ref goes on",
                    "both must have the same outer dims",
                )
        node.emit(held.payload, step.level)
        if step.level >= op.rank:
            held = None
    if held is None and op.inputs[0].rank < op.rank:
        yield from data.take()  # an empty reference consumes one element


@evaluates(Zip)
def _zip(op: Zip, node: Node) -> Steps:
    while (both := (yield from node.pair(*node.inputs))) is not None:
        a, b = both
        node.emit((a.payload, b.payload), a.level)
