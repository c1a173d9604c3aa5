"""Values of the additional scans and reductions, and of maps of selectors."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from stepsim.functional.kernels import accumulate, initial, map_tiles, shown
from stepsim.functional.network import Node, Steps
from stepsim.functional.ops.higher_order import payload_of, spread_tiles
from stepsim.functional.registry import evaluates
from stepsim.functional.values import BufferValue, Payload, Selection, TileValue
from stepsim.graph import AccumBuffer, GeneralScan, RowStat, SelectorMap


@evaluates(GeneralScan)
def _scan(op: GeneralScan, node: Node) -> Steps:
    fn, later = op.function, op.later
    dtypes = [tile.dtype for tile in op.results()]
    data = node.inputs[:-1] if op.counted else node.inputs
    start = states = initial(fn, op.inits)
    seen = wanted = 0
    while (tokens := (yield from node.gather(data))) is not None:
        level = tokens[0].level
        if op.counted:
            if seen == 0:
                length = yield from node.inputs[-1].take()
                if length is None:
                    node.fail("counts ended while in goes on", "give a count for each group")
                wanted = length.payload.value
            seen += 1
            if level >= op.rank:
                if seen != wanted:
                    node.fail(f"a group ends after {seen} elements, its count says {wanted}")
                seen = 0
        before = states
        states = accumulate(fn, states, spread_tiles(tokens[:1]), node)
        after, prior = (
            [shown(s, node, d) for s, d in zip(found, dtypes, strict=True)]
            for found in (states, before)
        )
        seen_by_reader = prior if op.exclusive else after
        if later is not None:
            operands = [*spread_tiles(tokens[1:]), *seen_by_reader]
            kinds = [tile.dtype for tile in op.shown()]
            seen_by_reader = map_tiles(later, operands, node, kinds)
        node.emit(payload_of(seen_by_reader), level)
        if len(node.outputs) == 2:
            node.emit(payload_of(prior), level, 1)
        if level >= op.rank:
            states = start


@evaluates(RowStat)
def _row_stat(op: RowStat, node: Node) -> Steps:
    dtype = op.results()[0].dtype
    held: list[TileValue] = []
    while (token := (yield from node.inputs[0].take())) is not None:
        held.append(token.payload)
        if token.level < op.rank:
            continue
        if len({tile.rows for tile in held}) > 1:
            node.fail(f"tiles of one group have {sorted({t.rows for t in held})} rows")
        rows = np.concatenate([t.data[:, : t.width] for t in held], axis=1).astype(np.float64)
        count = max(rows.shape[1], 1) if op.count is None else op.count
        with np.errstate(all="ignore"):
            found = rows.sum(axis=1, keepdims=True) / count
            if op.stat == "var":
                # The variance, computed from squared deviations from the mean.
                about = np.square(rows - found).sum(axis=1, keepdims=True) / count
                found = about + (1 - rows.shape[1] / count) * np.square(found)
        made = TileValue(found.astype(np.float32), held[-1].valid, 1)
        node.emit(shown(made, node, dtype), token.level - op.rank)
        held = []


@evaluates(AccumBuffer)
def _accum_buffer(op: AccumBuffer, node: Node) -> Steps:
    fn, dtype = op.function, op.results()[0].dtype
    dims = tuple(int(dim) for dim in op.buffer().dims)
    (start,) = initial(fn, op.inits)
    places, place = [start] * prod(dims), 0
    while (token := (yield from node.inputs[0].take())) is not None:
        (places[place],) = accumulate(fn, [places[place]], spread_tiles([token]), node)
        place = (place + 1) % len(places)
        if token.level >= op.rank:
            tiles = tuple(shown(tile, node, dtype) for tile in places)
            node.emit(BufferValue(dims, tiles), token.level - op.rank)
            places, place = [start] * len(places), 0


@evaluates(SelectorMap)
def _selectors(op: SelectorMap, node: Node) -> Steps:
    while (tokens := (yield from node.gather(node.inputs))) is not None:
        node.emit(_selected(op, node, [token.payload for token in tokens]), tokens[0].level)


def _selected(op: SelectorMap, node: Node, payloads: list[Any]) -> Payload:
    """The result of a function that produces or consumes selectors."""
    width, unit = op.width, op.fn.unit
    if op.fn.width is not None:
        number = payloads[0].value
        if unit == "IndexToMultiHot":
            if number >= width:
                node.fail(f"index {number} names none of {width} flags")
            return Selection((number,), width)
        if number >= 1 << width:
            node.fail(f"the number {number} has more than {width} bits")
        return Selection(tuple(i for i in range(width) if number >> i & 1), width)
    first, *others = (set(payload.indices) for payload in payloads)
    if unit == "SelectToScalar":
        if len(first) != 1:
            node.fail(f"{payloads[0]!r} names {len(first)} indices, expected one")
        return TileValue.integer(first.pop())
    if unit == "MultiHotToInteger":
        return TileValue.integer(sum(1 << i for i in first))
    chosen = set(range(width)) - first if unit == "Not" else _combined(unit, first, others[0])
    return Selection(tuple(sorted(chosen)), width)


def _combined(unit: str, first: set[int], second: set[int]) -> set[int]:
    if unit == "And":
        return first & second
    return first | second if unit == "Or" else first ^ second
