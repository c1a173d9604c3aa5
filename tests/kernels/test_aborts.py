"""Why units fail: the code and the numbers of every abort, and when it ends others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from stepsim.graph.published_functions import MAPS
from stepsim.kernels.driver import execute
from stepsim.kernels.layout import Abort
from stepsim.lowering import Network, build_image
from tests.engine_backend import to_result
from tests.oracle.build import NetBuilder
from tests.oracle.compare import assert_same
from tests.oracle.example import tile_tokens
from tests.oracle.interpreter import interpret
from tests.oracle.payloads import integer, selector, tile

TILE, SELECTOR, BUFFER, TUPLE = 0, 1, 2, 4
ROW = [1, 16, 2, 0]
LATE = 50


def tiles(*levels: int) -> list[dict[str, Any]]:
    return tile_tokens(ROW, list(levels))


def numbers(*values: int, level: int = 0) -> list[dict[str, Any]]:
    return [{**integer(value), "level": level} for value in values]


def chosen(*sets: list[int], width: int = 2, level: int = 0) -> list[dict[str, Any]]:
    return [{**selector(indices, width), "level": level} for indices in sets]


def buffers(*levels: int) -> list[dict[str, Any]]:
    return [{"buffer": [1], "tiles": [tile(*ROW, 1)], "level": level} for level in levels]


@dataclass(frozen=True)
class Case:
    """``op`` fails on these inputs for a reason, with two numbers or names of inputs.

    Inputs in ``late`` are known to have ended only at :data:`LATE`. What the interpreter cannot
    read at all, as a selector in place of a tile, is not ``followed`` by it.
    """

    name: str
    op: str
    inputs: list[list[dict[str, Any]]]
    reason: Abort
    details: tuple[int | str, int | str]
    params: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    late: tuple[int, ...] = ()
    followed: bool = True

    def network(self) -> Network:
        b = NetBuilder()
        names = [f"in{i}" for i in range(len(self.inputs))]
        for i, (name, tokens) in enumerate(zip(names, self.inputs, strict=True)):
            if i in self.late:
                b.late(name, tokens, LATE)
            else:
                b.unit(f"source {i}", "Gen", [], [name], tokens=tokens)
        outs = [f"out{i}" for i in range(self.outputs)]
        b.unit("unit", self.op, names, outs, **self.params)
        for name in outs:
            b.unit(f"sink {name}", "Consumer", [name], [])
        return b.network()


MUL: dict[str, Any] = {"fn": ["Mul"], "bw": 64, "wb": False}
SUM: dict[str, Any] = {
    "fn": ["Matmul", True], "bw": 64, "wb": False, "rank": 1, "init": [1, 1], "bpe": 2
}  # fmt: skip
ADD: dict[str, Any] = {"fn": "Add", "bw": 64, "wb": False, "rank": 1, "init": [1, 16], "bpe": 2}
COUNTED: dict[str, Any] = {**ADD, "exclusive": False, "second": None, "counted": True}
TWO_STREAMS: dict[str, Any] = {**COUNTED, "second": MAPS["Mul"], "counted": False}
FLAGS: dict[str, Any] = {"width": 2, "cycles": 1, "wb": False}
STORE: dict[str, Any] = {"tile": [1, 16], "par": 1}
ACKED: dict[str, Any] = {**STORE, "bpe": 2, "ack_addr": True}
SPLIT: dict[str, Any] = {"switch": [1, 1], "wb": False}
PADDED: dict[str, Any] = {"s": 0, "q": 3, "bpe": 2, "outer": False}
VIEW: dict[str, Any] = {"shape": [2], "stride": [1], "slab": 4, "base": 2}
SORT: dict[str, Any] = {"rank": 1, "width": 2, "wb": False}
BY_LENGTH: dict[str, Any] = {"dims": ["length"], "tile": [1, 8], "cycles": 0}
NARROW = tile_tokens([1, 8, 2, 0], [0])
TALL = tile_tokens([2, 16, 2, 0], [0])
HALF = tile_tokens([1, 16, 0.5, 0], [0])

PAIRS: list[tuple[str, dict[str, Any], int]] = [
    ("BinaryMap", MUL, 1),
    ("BinaryMapAccum", SUM, 1),
    ("Zip", {}, 1),
    ("RandomOffChipStore", ACKED, 1),
]
CASES = [
    *(
        case
        for op, params, outputs in PAIRS
        for case in (
            Case(f"{op}, first ends", op, [tiles(), tiles(0)], Abort.ONE_INPUT_CLOSED,
                 ("in0", "in1"), params, outputs, late=(0,)),
            Case(f"{op}, second ends", op, [tiles(0), tiles()], Abort.ONE_INPUT_CLOSED,
                 ("in1", "in0"), params, outputs, late=(1,)),
            Case(f"{op}, first ends, second late", op,
                 [tiles(), numbers(1)], Abort.ONE_INPUT_CLOSED, ("in0", "in1"), params, outputs),
        )
    ),
    *(
        Case(f"{op}, levels", op, [tiles(2), tiles(1)], Abort.LEVELS_DIFFER, (2, 1), params)
        for op, params, _ in PAIRS[:3]
    ),
    Case("GeneralScan, wrong count", "GeneralScan", [tiles(0, 1), numbers(3)], Abort.GROUP_LENGTH,
         (2, 3), COUNTED),
    Case("GeneralScan, no count", "GeneralScan", [tiles(1, 1), numbers(1)], Abort.ONE_INPUT_CLOSED,
         ("in1", "in0"), COUNTED),
    Case("GeneralScan, invalid count", "GeneralScan", [tiles(1), chosen([0])], Abort.PAYLOAD,
         (SELECTOR, TILE), COUNTED, followed=False),
    Case("GeneralScan, levels", "GeneralScan", [tiles(2), tiles(1)], Abort.LEVELS_DIFFER, (2, 1),
         TWO_STREAMS),
    Case("GeneralScan, second ends", "GeneralScan", [tiles(0), tiles()], Abort.ONE_INPUT_CLOSED,
         ("in1", "in0"), TWO_STREAMS, late=(1,)),
    Case("GeneralScan, second too wide", "GeneralScan", [tiles(0), NARROW],
         Abort.NOT_BROADCASTABLE, (2**21 + 8, 2**21 + 16), TWO_STREAMS),
    Case("AccumBuffer, payload", "AccumBuffer", [chosen([0])], Abort.PAYLOAD, (SELECTOR, TILE),
         {**ADD, "dims": [2]}, followed=False),
    Case("SelectorMap, index", "SelectorMap", [numbers(1, 2)], Abort.SELECTOR_VALUE, (2, 2),
         {**FLAGS, "fn": "IndexToMultiHot"}),
    Case("SelectorMap, bits", "SelectorMap", [numbers(4)], Abort.SELECTOR_VALUE, (4, 4),
         {**FLAGS, "fn": "IntegerToMultiHot"}),
    Case("SelectorMap, no number", "SelectorMap", [chosen([0])], Abort.PAYLOAD, (SELECTOR, TILE),
         {**FLAGS, "fn": "IndexToMultiHot"}),
    Case("SelectorMap, no selector", "SelectorMap", [numbers(1)], Abort.PAYLOAD, (TILE, SELECTOR),
         {**FLAGS, "fn": "Not"}),
    Case("SelectorMap, two", "SelectorMap", [chosen([0, 1])], Abort.NOT_ONE_HOT, (2, 0),
         {**FLAGS, "fn": "SelectToScalar"}),
    Case("SelectorMap, width", "SelectorMap", [chosen([0]), chosen([0], width=3)],
         Abort.SELECTOR_WIDTH, (3, 2), {**FLAGS, "fn": "And"}),
    Case("SelectorMap, levels", "SelectorMap", [chosen([0]), chosen([0], level=1)],
         Abort.LEVELS_DIFFER, (0, 1), {**FLAGS, "fn": "And"}),
    Case("Bufferize, payload", "Bufferize", [chosen([0])], Abort.PAYLOAD, (SELECTOR, TILE),
         {"rank": 1}, followed=False),
    Case("Bufferize, open", "Bufferize", [tiles(0, 0)], Abort.BUFFER_OPEN, (2, 1), {"rank": 1},
         late=(0,)),
    Case("Bufferize, one tile", "Bufferize", [tiles(0)], Abort.BUFFER_OPEN, (1, 1), {"rank": 1}),
    Case("Bufferize, ragged", "Bufferize", [tiles(0, 1, 2)], Abort.BUFFER_RAGGED, (3, 2),
         {"rank": 2}),
    Case("Streamify, payload", "Streamify", [tiles(0)], Abort.PAYLOAD, (TILE, BUFFER),
         {"rank": 1, "repeat": []}, followed=False),
    Case("DynStreamify, payload", "DynStreamify", [tiles(0), tiles(0)], Abort.PAYLOAD,
         (TILE, BUFFER), {"rank": 1, "rr": 0}, followed=False),
    Case("DynStreamify, level", "DynStreamify", [buffers(0), tiles(0, 3)],
         Abort.LEVEL_NOT_ALLOWED, (3, 0), {"rank": 1, "rr": 0}),
    Case("DynStreamify, walk", "DynStreamify", [buffers(0), tiles(0)], Abort.BUFFER_RANGE, (3, 1),
         {"rank": 1, "rr": 0, "shape": [2], "stride": [3]}),
    Case("StaticStreamify, payload", "StaticStreamify", [tiles(0)], Abort.PAYLOAD, (TILE, BUFFER),
         {"rank": 1, "repeat": []}, followed=False),
    Case("StaticStreamify, walk", "StaticStreamify", [buffers(0)], Abort.BUFFER_RANGE, (2, 1),
         {"rank": 1, "repeat": [2], "shape": [3], "stride": [2]}),
    Case("FlatmapCounter, empty", "FlatmapCounter", [numbers(2, 0)], Abort.EMPTY_INNER, (0, 0)),
    Case("FlatmapCounter, payload", "FlatmapCounter", [chosen([0])], Abort.PAYLOAD,
         (SELECTOR, TILE), followed=False),
    Case("DynAddrGen, two", "DynAddrGen", [chosen([0, 1])], Abort.NOT_ONE_HOT, (2, 0), VIEW),
    Case("DynAddrGen, payload", "DynAddrGen", [buffers(0)], Abort.PAYLOAD, (BUFFER, TILE), VIEW,
         followed=False),
    Case("DynAddrGen, far", "DynAddrGen", [numbers(2**61 - 2, 2**61 - 1)], Abort.ADDRESS_RANGE,
         (2**61 - 1, 4), VIEW),
    Case("RetileStreamify, payload", "RetileStreamify", [chosen([0])], Abort.PAYLOAD,
         (SELECTOR, 0), {"split_row": True, "filter": False}, followed=False),
    Case("ExpertAddrGen, payload", "ExpertAddrGen", [tiles(0)], Abort.PAYLOAD, (TILE, 0),
         {"n": 1, "base": 0}, followed=False),
    Case("ExpertAddrGen, level", "ExpertAddrGen", [chosen([0], level=2)],
         Abort.LEVEL_NOT_ALLOWED, (2, 0), {"n": 1, "base": 0}),
    Case("ExpertAddrGen, two", "ExpertAddrGen", [chosen([0, 1])], Abort.NOT_ONE_HOT, (2, 0),
         {"n": 1, "base": 0}),
    Case("CacheReadAddrGen, no row", "CacheReadAddrGen", [tiles(), numbers(1)],
         Abort.ONE_INPUT_CLOSED, ("in0", "in1"), {"stride": 1}, late=(0,)),
    Case("CacheReadAddrGen, no length", "CacheReadAddrGen", [numbers(1), tiles()],
         Abort.ONE_INPUT_CLOSED, ("in1", "in0"), {"stride": 1}, late=(1,)),
    Case("CacheReadAddrGen, levels", "CacheReadAddrGen", [numbers(1, level=1), numbers(1, level=2)],
         Abort.LEVELS_DIFFER, (1, 2), {"stride": 1}),
    Case("CacheReadAddrGen, empty", "CacheReadAddrGen", [numbers(1), numbers(0)],
         Abort.EMPTY_INNER, (0, 0), {"stride": 1}),
    Case("FilterLastTile, empty", "FilterLastTile", [numbers(0)], Abort.EMPTY_INNER, (0, 0)),
    Case("FlatMap, payload", "FlatMap", [chosen([0])], Abort.PAYLOAD, (SELECTOR, 0),
         {"dims": [1], "tile": [1, 8], "cycles": 0}, followed=False),
    Case("FlatMap, empty", "FlatMap", [tile_tokens([0, 16, 2, 0], [0])], Abort.EMPTY_INNER,
         (0, 0), {"dims": [2, "rows"], "tile": [1, 8], "cycles": 0}),
    Case("UnaryMap, no pair", "UnaryMap", [tiles(0)], Abort.PAYLOAD, (TILE, TUPLE), MUL,
         followed=False),
    Case("OffChipStore, payload", "OffChipStore", [chosen([0])], Abort.PAYLOAD, (SELECTOR, TILE),
         STORE, outputs=0, followed=False),
    Case("OffChipStore, rows", "OffChipStore", [TALL], Abort.TILE_SHAPE, (2, 16), STORE, 0),
    Case("OffChipStore, cols", "OffChipStore", [NARROW], Abort.TILE_SHAPE, (1, 8), STORE, 0),
    Case("OffChipStore, width", "OffChipStore", [tiles(0) + HALF], Abort.ELEMENT_WIDTH, (16, 4),
         STORE, 0),
    Case("RandomOffChipStore, payload", "RandomOffChipStore", [numbers(0), chosen([0])],
         Abort.PAYLOAD, (SELECTOR, TILE), ACKED, followed=False),
    Case("RandomOffChipStore, rows", "RandomOffChipStore", [numbers(0), TALL], Abort.TILE_SHAPE,
         (2, 16), ACKED),
    Case("RandomOffChipStore, cols", "RandomOffChipStore", [numbers(0), NARROW],
         Abort.TILE_SHAPE, (1, 8), ACKED),
    Case("Partition, payload", "Partition", [tiles(0), tiles(0)], Abort.PAYLOAD, (TILE, SELECTOR),
         {**SPLIT, "rank": 0}, 2, followed=False),
    Case("Partition, width", "Partition", [tiles(0), chosen([0], width=3)], Abort.SELECTOR_WIDTH,
         (3, 2), {**SPLIT, "rank": 0}, 2, followed=False),
    Case("Partition, no data", "Partition", [tiles(), chosen([0])], Abort.DATA_CLOSED, ("in0", 0),
         {**SPLIT, "rank": 0}, 2, late=(0,)),
    Case("Partition, level", "Partition", [tiles(2), chosen([0])], Abort.LEVEL_NOT_ALLOWED, (2, 1),
         {**SPLIT, "rank": 1}, 2),
    Case("Partition, level of a selector", "Partition", [tiles(0, 2), chosen([0], level=2)],
         Abort.LEVEL_NOT_ALLOWED, (2, 3), {**SPLIT, "rank": 1}, 2),
    Case("Reassemble, payload", "Reassemble", [tiles(0), tiles(0), tiles(0)], Abort.PAYLOAD,
         (TILE, SELECTOR), {**SPLIT, "rank": 0}, followed=False),
    Case("Reassemble, width", "Reassemble", [tiles(0), tiles(0), chosen([0], width=3)],
         Abort.SELECTOR_WIDTH, (3, 2), {**SPLIT, "rank": 0}, followed=False),
    Case("Reassemble, nothing", "Reassemble", [tiles(0), tiles(0), chosen([])],
         Abort.EMPTY_SELECTION, (0, 0), {**SPLIT, "rank": 0}),
    Case("Reassemble, no data", "Reassemble", [tiles(0), tiles(), chosen([0, 1])],
         Abort.DATA_CLOSED, ("in1", 0), {**SPLIT, "rank": 0}, late=(1,)),
    Case("Reassemble, no end of a chunk", "Reassemble", [tiles(0), tiles(0), chosen([0])],
         Abort.DATA_CLOSED, ("in0", 0), {**SPLIT, "rank": 1}, late=(0,)),
    Case("Parallelize, level", "Parallelize", [tiles(0, 2)], Abort.LEVEL_NOT_ALLOWED, (2, 1),
         {"rank": 1, "switch": [1, 1]}, 2),
    Case("EagerMerge, level", "EagerMerge", [tiles(0, 2)], Abort.LEVEL_NOT_ALLOWED, (2, 1),
         {"rank": 1}, 2),
    Case("Reshape, no pad at the end", "Reshape", [tiles(0, 0)], Abort.NEEDS_PAD, (2, 3),
         {**PADDED, "ri": 0}, late=(0,)),
    Case("Reshape, a pad that may not be", "Reshape", [tiles(0, 0)], Abort.NEEDS_PAD, (2, 3),
         {**PADDED, "ri": 1, "pad": [1, 16]}, late=(0,)),
    Case("Reshape, no pad at a stop", "Reshape", [tiles(0, 1)], Abort.NEEDS_PAD, (2, 3),
         {**PADDED, "ri": 1}),
    Case("ExpandRef, two dims", "ExpandRef", [tiles(0), tiles(0)], Abort.LEVEL_NOT_ALLOWED,
         (0, 2), {"e": 2}),
    Case("ExpandRef, level", "ExpandRef", [tiles(0), tiles(3)], Abort.LEVEL_NOT_ALLOWED, (3, 0),
         {"e": 1}),
    Case("ExpandRef, no end", "ExpandRef", [tiles(1), tiles(0)], Abort.REFERENCE_CLOSED,
         ("in1", 0), {"e": 1}, late=(1,)),
    Case("StaticReassemble, level", "StaticReassemble", [tiles(0, 2), tiles(1)],
         Abort.LEVEL_NOT_ALLOWED, (2, 1), {"rank": 1, "switch": [0, 0]}),
    Case("RepeatRef, no end", "RepeatRef", [tiles(0), tiles(0)], Abort.REFERENCE_CLOSED, ("in1", 0),
         {"rank": 0, "e": 1}, late=(1,)),
    Case("RepeatRef, level", "RepeatRef", [tiles(1), tiles(0, 3)], Abort.LEVEL_NOT_ALLOWED, (3, 2),
         {"rank": 0, "e": 1}),
    Case("ContextDeinterleave, open", "ContextDeinterleave", [tiles(0, 0, 0)], Abort.GROUP_OPEN,
         (1, 2), {}, 2, late=(0,)),
    Case("ContextDeinterleave, level", "ContextDeinterleave", [tiles(0, 0, 1, 0)],
         Abort.LEVEL_NOT_ALLOWED, (1, 0), {}, 2),
    Case("ContextInterleave, one ends", "ContextInterleave", [tiles(0, 0), tiles(0)],
         Abort.ONE_INPUT_CLOSED, ("in1", "in0"), late=(1,)),
    Case("ContextInterleave, levels", "ContextInterleave", [tiles(1), tiles(0)],
         Abort.LEVELS_DIFFER, (1, 0)),
    Case("FlatmapFilterRowStreamify, payload", "FlatmapFilterRowStreamify", [chosen([0])],
         Abort.PAYLOAD, (SELECTOR, 0), followed=False),
    Case("FlatmapFilterRowStreamify, mask", "FlatmapFilterRowStreamify", [tiles(0), buffers(0)],
         Abort.PAYLOAD, (BUFFER, 0), followed=False),
    Case("FlatmapFilterRowStreamify, rows", "FlatmapFilterRowStreamify", [tiles(0), chosen([0])],
         Abort.MASK_ROWS, (2, 1)),
    Case("FlatmapFilterRowStreamify, none", "FlatmapFilterRowStreamify",
         [tiles(1), chosen([], width=1, level=1)], Abort.EMPTY_INNER, (0, 0)),
    Case("FlatmapFilterRowStreamify, levels", "FlatmapFilterRowStreamify",
         [tiles(1), chosen([0], width=1)], Abort.LEVELS_DIFFER, (1, 0)),
    Case("FlatmapFilterRowStreamify, data ends", "FlatmapFilterRowStreamify",
         [tiles(), chosen([0], width=1)], Abort.ONE_INPUT_CLOSED, ("in0", "in1"), late=(0,)),
    Case("FlatmapFilterRowStreamify, mask ends", "FlatmapFilterRowStreamify",
         [tiles(0), tiles()], Abort.ONE_INPUT_CLOSED, ("in1", "in0"), late=(1,)),
    Case("Shuffle, payload", "Shuffle", [chosen([0]), chosen([0], level=1)], Abort.PAYLOAD,
         (SELECTOR, TILE), SORT, 2, followed=False),
    Case("Shuffle, width", "Shuffle", [tiles(1), chosen([0], width=3, level=1)],
         Abort.SELECTOR_WIDTH, (3, 2), SORT, 2),
    Case("Shuffle, no data", "Shuffle", [tiles(), chosen([0])], Abort.DATA_CLOSED, ("in0", 0), SORT,
         2, late=(0,)),
    Case("Shuffle, level", "Shuffle", [tiles(2), chosen([0], level=1)], Abort.LEVEL_NOT_ALLOWED,
         (2, 1), SORT, 2),
    Case("Shuffle, nothing", "Shuffle", [tiles(1), chosen([], level=1)], Abort.EMPTY_SELECTION,
         (0, 0), SORT, 2),
    Case("Shuffle, open", "Shuffle", [tiles(0), chosen([0])], Abort.BUFFER_OPEN, (1, 1), SORT, 2),
    Case("FlatMap, no length", "FlatMap", [tiles(0), tiles()], Abort.ONE_INPUT_CLOSED,
         ("in1", "in0"), BY_LENGTH, late=(1,)),
    Case("FlatMap, no tile", "FlatMap", [tiles(), numbers(1)], Abort.ONE_INPUT_CLOSED,
         ("in0", "in1"), BY_LENGTH, late=(0,)),
    Case("FlatMap, levels", "FlatMap", [tiles(1), numbers(1)], Abort.LEVELS_DIFFER, (1, 0),
         BY_LENGTH),
    Case("FlatMap, length", "FlatMap", [tiles(0), numbers(2**20 + 1)], Abort.TOO_MANY_PIECES,
         (2**20 + 1, 2**20), BY_LENGTH),
    Case("FlatMap, no pieces", "FlatMap", [tiles(0), numbers(0)], Abort.EMPTY_INNER, (0, 0),
         BY_LENGTH),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_abort_names_its_reason(case: Case) -> None:
    network = case.network()
    image = build_image(network)
    run = execute(image, history=True)
    unit = run.units[image.unit_names.index("unit")]
    details = [
        image.channel_names.index(part) if isinstance(part, str) else part for part in case.details
    ]
    assert (Abort(unit["error"]), [unit["detail0"], unit["detail1"]]) == (case.reason, details)
    if case.followed:
        assert_same(to_result(image, run), interpret(network), accounts=True)
