"""Higher-order operators: map, accum, map-accum, scan (STeP paper, table 6)."""

from __future__ import annotations

import numpy as np

from stepsim.functional.kernels import accumulate, initial, map_tiles, multiply
from stepsim.functional.network import Node, Steps
from stepsim.functional.registry import evaluates
from stepsim.functional.values import TileValue
from stepsim.graph.ops.higher_order import Accum, Map, MapAccum, Scan

__all__: list[str] = []


@evaluates(Map)
def _map(op: Map, node: Node) -> Steps:
    if len(node.inputs) == 1:
        while (token := (yield from node.inputs[0].take())) is not None:
            operands = token.payload if isinstance(token.payload, tuple) else (token.payload,)
            node.emit(map_tiles(op.fn, operands, node), token.level)
        return
    while (both := (yield from node.pair(*node.inputs))) is not None:
        a, b = both
        node.emit(map_tiles(op.fn, (a.payload, b.payload), node), a.level)


@evaluates(Accum)
def _accum(op: Accum, node: Node) -> Steps:
    start = initial(op.init, op.fn.accum_unit)
    state = start
    while (token := (yield from node.inputs[0].take())) is not None:
        state = accumulate(op.fn, state, token.payload, node)
        if token.level >= op.rank:
            node.emit(_shown(state, node), token.level - op.rank)
            state = start


@evaluates(Scan)
def _scan(op: Scan, node: Node) -> Steps:
    start = initial(op.init, op.fn.accum_unit)
    state = start
    while (token := (yield from node.inputs[0].take())) is not None:
        state = accumulate(op.fn, state, token.payload, node)
        node.emit(_shown(state, node), token.level)
        if token.level >= op.rank:
            state = start


def _shown(state: TileValue, node: Node) -> TileValue:
    """The state as it leaves: sums are kept in float32 and rounded once."""
    if state.data.dtype.kind == "u":
        return state
    return TileValue(node.rounded(state.data), state.valid, state.width)


@evaluates(MapAccum)
def _map_accum(op: MapAccum, node: Node) -> Steps:
    start = initial(op.init, None)
    start = TileValue(start.data, 0, 0)
    state = start
    while (both := (yield from node.pair(*node.inputs))) is not None:
        a, b = both
        product = multiply(op.fn, a.payload, b.payload, node)
        if state.data.size and state.data.shape != product.data.shape:
            node.fail(
                f"the state is {state!r}, the product {product!r}",
                "all products of one reduction need one size",
            )
        with np.errstate(all="ignore"):
            total = state.data + product.data if state.data.size else product.data
        state = TileValue(total, product.valid, max(state.width, product.width))
        if a.level >= op.rank:
            node.emit(_shown(state, node), a.level - op.rank)
            state = start
