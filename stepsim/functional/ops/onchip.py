"""On-chip memory operators (STeP paper, table 4)."""

from __future__ import annotations

import math
from itertools import product

from stepsim.functional.measure import sizes_of
from stepsim.functional.network import Node, Steps
from stepsim.functional.registry import evaluates
from stepsim.functional.values import BufferValue, Token
from stepsim.graph import Bufferize, Streamify, stop_levels


@evaluates(Bufferize)
def _bufferize(op: Bufferize, node: Node) -> Steps:
    held: list[Token] = []
    while (token := (yield from node.inputs[0].take())) is not None:
        held.append(token)
        if token.level >= op.rank:
            node.emit(_buffer(op, node, held), token.level - op.rank)
            held = []
    if held:
        node.fail(f"the stream ended inside a buffer of {len(held)} tiles")


def _buffer(op: Bufferize, node: Node, held: list[Token]) -> BufferValue:
    levels = [min(token.level, op.rank) for token in held]
    # The outermost dim of sizes_of counts buffers: there is one.
    dims = [set(sizes) for sizes in sizes_of(levels, op.rank)[1:]]
    if any(len(sizes) != 1 for sizes in dims):
        shown = [sorted(sizes) for sizes in dims]
        node.fail(
            f"{len(held)} tiles do not form a rectangular buffer: sizes {shown}",
            "inner buffered dims must be regular",
        )
    return BufferValue(tuple(sizes.pop() for sizes in dims), tuple(t.payload for t in held))


def _read(op: Streamify, buffer: BufferValue) -> tuple[list[int], tuple[int, ...]]:
    """Positions of the tiles in the order of one read, and the dims of the read."""
    if op.shape is None or op.stride is None:
        return list(range(len(buffer.tiles))), buffer.dims
    steps = product(*(range(q) for q in op.shape))
    strides = op.stride
    return [sum(map(math.prod, zip(i, strides, strict=True))) for i in steps], op.shape


@evaluates(Streamify)
def _streamify(op: Streamify, node: Node) -> Steps:
    if len(node.inputs) == 2:
        yield from _by_reference(op, node)
        return
    while (token := (yield from node.inputs[0].take())) is not None:
        order, dims = _read(op, token.payload)
        levels = stop_levels((*op.repeat, *dims))
        levels[-1] += token.level
        for number, level in enumerate(levels):
            node.emit(token.payload.tiles[order[number % len(order)]], level)


def _by_reference(op: Streamify, node: Node) -> Steps:
    """One read per reference element; the next buffer after ``ref_rank`` dims of it have ended."""
    buffers, ref = node.inputs
    held = None
    while (step := (yield from ref.take())) is not None:
        if held is None:
            held = yield from buffers.take()
            if held is None:
                node.fail(
                    f"in ended after {buffers.taken} buffers while ref goes on",
                    "both must have the same outer dims",
                )
        order, dims = _read(op, held.payload)
        levels = stop_levels(dims)
        levels[-1] += step.level
        for position, level in zip(order, levels, strict=True):
            node.emit(held.payload.tiles[position], level)
        if step.level >= op.ref_rank:
            held = None
    if held is None and op.inputs[0].rank < op.ref_rank:
        yield from buffers.take()  # an empty reference consumes one buffer
