"""Higher-order operators: map, accum, map-accum, scan (STeP paper, table 6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stepsim.functional.kernels import accumulate, initial, map_tiles, shown
from stepsim.functional.network import Node, Steps
from stepsim.functional.registry import evaluates
from stepsim.functional.values import Payload, TileValue, Token
from stepsim.graph import Accum, Map, MapAccum, Scan


@evaluates(Map)
def _map(op: Map, node: Node) -> Steps:
    dtypes = [tile.dtype for tile in op.results()]
    while (tokens := (yield from node.gather(node.inputs))) is not None:
        results = map_tiles(op.function, spread_tiles(tokens), node, dtypes)
        node.emit(payload_of(results), tokens[0].level)


@evaluates(Accum)
@evaluates(MapAccum)
def _accum(op: Accum | MapAccum, node: Node) -> Steps:
    yield from _reduced(op, node, running=False)


@evaluates(Scan)
def _scan(op: Scan, node: Node) -> Steps:
    yield from _reduced(op, node, running=True)


def _reduced(op: Accum | MapAccum, node: Node, *, running: bool) -> Steps:
    fn = op.function
    dtypes = [tile.dtype for tile in op.results()]
    start = initial(fn, op.inits)
    states = start
    while (tokens := (yield from node.gather(node.inputs))) is not None:
        states = accumulate(fn, states, spread_tiles(tokens), node)
        level, ends = tokens[0].level, tokens[0].level >= op.rank
        if running or ends:
            results = [shown(s, node, d) for s, d in zip(states, dtypes, strict=True)]
            node.emit(payload_of(results), level if running else level - op.rank)
        if ends:
            states = start


def spread_tiles(tokens: Iterable[Token]) -> list[TileValue]:
    """The tiles of some tokens, with tuples expanded."""
    return [tile for token in tokens for tile in _members(token.payload)]


def _members(payload: Payload) -> list[TileValue]:
    if isinstance(payload, tuple):
        return [tile for one in payload for tile in _members(one)]
    return [payload]


def payload_of(results: Sequence[TileValue]) -> Payload:
    return results[0] if len(results) == 1 else tuple(results)
