"""Hand-simulated examples of further scans and reductions, and of selectors made of numbers.

Channels are unbounded unless an example says otherwise; 64 bytes per cycle on chip.
"""

from __future__ import annotations

from typing import Any

from stepsim.graph.published_functions import MAPS
from tests.oracle.build import NetBuilder
from tests.oracle.example import Example, payload_tokens, tile_tokens
from tests.oracle.payloads import integer, selector, tile

__all__ = ["SCAN_EXAMPLES"]

_ADD: dict[str, Any] = {"fn": "Add", "init": [4, 16], "bpe": 2}
"""64 FLOPs on tiles of 128 bytes, which take 2 cycles to load or store."""

_PLAIN: dict[str, Any] = {"exclusive": False, "second": None, "counted": False}


def exclusive_scan() -> Example:
    """Load 2, compute 4, store 2 cycles per token; the state before it is sent."""
    b = NetBuilder()
    b.unit("source", "Gen", [], ["a"], tokens=tile_tokens([4, 16, 2, 1], [0, 0, 1]))
    b.unit(
        "scan", "GeneralScan", ["a"], ["y"],
        **{**_ADD, **_PLAIN, "exclusive": True}, bw=16, rank=1, wb=True,
    )  # fmt: skip
    b.unit("sink", "Consumer", ["y"], [])
    return Example(
        "scan, exclusive",
        b.network(),
        stamps={"y": [6, 10, 14]},
        levels={"y": [0, 0, 1]},
        payloads={"y": [tile(4, 16, 2, 1, 4)] * 3},
        slots_free={"a": [6, 10, 14]},
    )


def exclusive_scan_stores_what_it_shows() -> Example:
    """The states of 0, 1 and 2 rows that are shown take 0, 1 and 1 cycles to store."""
    b = NetBuilder()
    b.unit("source", "Gen", [], ["a"], tokens=tile_tokens([1, 32, 2, 0], [0, 0, 1]))
    b.unit(
        "scan", "GeneralScan", ["a"], ["y"], fn="RetileRow", bw=0, rank=1, init=[0, 32], bpe=2,
        wb=True, **{**_PLAIN, "exclusive": True},
    )  # fmt: skip
    b.unit("sink", "Consumer", ["y"], [])
    return Example(
        "scan, exclusive, store", b.network(), stamps={"y": [2, 4, 6]}, slots_free={"a": [2, 4, 6]}
    )


def two_taps() -> Example:
    """A slow reader of the state before holds up the state after; 1 cycle per token."""
    b = NetBuilder()
    b.unit("source", "Gen", [], ["a"], tokens=tile_tokens([4, 16, 2, 0], [0, 0, 0]))
    b.channel("before", 1)
    b.unit(
        "scan", "GeneralScan", ["a"], ["after", "before"],
        **{**_ADD, **_PLAIN}, bw=64, rank=1, wb=False,
    )  # fmt: skip
    b.unit("sink", "Consumer", ["after"], [])
    b.unit("slow sink", "Hold", ["before"], [], n=5)
    return Example(
        "scan, two taps",
        b.network(),
        stamps={"after": [3, 4, 11], "before": [3, 10, 17]},
        slots_free={"a": [3, 4, 11], "before": [9, 16, 23]},
        final_clock={"scan": 16, "slow sink": 22},
    )


def two_streams_and_counts() -> Example:
    """Load 2 + 2, compute 4 + 4 cycles; groups begin when their lengths are there."""
    b = NetBuilder()
    for name in "ab":
        b.unit(f"source {name}", "Gen", [], [name], tokens=tile_tokens([4, 16, 2, 1], [0, 1, 1]))
    lengths = payload_tokens([integer(2), integer(1)], [0, 0])
    b.unit("counts", "At", [], ["n"], tokens=lengths, times=[20, 21])
    b.unit(
        "scan", "GeneralScan", ["a", "b", "n"], ["y"],
        **{**_ADD, **_PLAIN, "second": MAPS["Mul"], "counted": True}, bw=16, rank=1, wb=True,
    )  # fmt: skip
    b.unit("sink", "Consumer", ["y"], [])
    return Example(
        "scan, two streams and counts",
        b.network(),
        stamps={"y": [30, 38, 46]},
        levels={"y": [0, 1, 1]},
        payloads={"y": [tile(4, 16, 2, 1, 4)] * 3},
        slots_free={"a": [30, 38, 46], "b": [30, 38, 46], "n": [22, 38]},
    )


def _record(operands: int, states: int, weight: int, factors: list[int]) -> dict[str, Any]:
    """The sums of the rows of a tile, or a map of them."""
    last = 2 * operands - 2
    result = {
        "rows": {"poly": [[1, [last]]]}, "cols": {"poly": [[1, []]]},
        "valid": ["first", [operands - 1]], "bits": ["operand", operands - 1],
        "value": None, "rd": None,
    }  # fmt: skip
    return {
        "name": "sums", "operands": operands, "states": states, "checks": [], "same_bits": [],
        "adopts": [], "results": [result], "flops": [[weight, factors]], "cycles": [],
    }  # fmt: skip


def row_statistics(variance: bool) -> Example:
    """Of 4 x 16 scalars at 16 FLOPs per cycle: 4 or 12 cycles each, 1 more for the last."""
    b = NetBuilder()
    tiles = [tile(4, 16, 2, 1, 4), tile(4, 16, 2, 1, 3)]
    b.unit("source", "Gen", [], ["a"], tokens=payload_tokens(tiles, [0, 1]))
    b.unit(
        "stat", "AccumRowStat", ["a"], ["y"], bw=16, rank=1, wb=True, init=[[4, 1, 2]],
        fn=_record(2, 1, 3 if variance else 1, [2, 3]),
        finish=_record(1, 0, 4 if variance else 1, [0]),
    )  # fmt: skip
    b.unit("sink", "Consumer", ["y"], [])
    first, end = (13, 26) if variance else (5, 10)
    return Example(
        f"row statistics, {'variance' if variance else 'mean'}",
        b.network(),
        stamps={"y": [end + 1]},
        levels={"y": [0]},
        payloads={"y": [tile(4, 1, 2, 1, 3)]},
        slots_free={"a": [first + 1, end + 1]},
    )


def row_statistics_store() -> Example:
    """The store of the result, 100 rows of 2 bytes, is longer than 1 + 1 cycles of work."""
    b = NetBuilder()
    b.unit("source", "Gen", [], ["a"], tokens=tile_tokens([100, 1, 2, 0], [1]))
    b.unit(
        "stat", "AccumRowStat", ["a"], ["y"], bw=100, rank=1, wb=True, init=[[0, 1, 2]],
        fn=_record(2, 1, 1, [2, 3]), finish=_record(1, 0, 1, [0]),
    )  # fmt: skip
    b.unit("sink", "Consumer", ["y"], [])
    return Example("row statistics, store", b.network(), stamps={"y": [6]}, levels={"y": [0]})


def accumulated_buffer(rd: int, cycles: int) -> Example:
    """Each token loads a place of 2 cycles, itself 2 if it lies in memory, and stores the place."""
    b = NetBuilder()
    b.unit("source", "Gen", [], ["a"], tokens=tile_tokens([4, 16, 2, rd], [0, 1, 0, 3]))
    b.unit("sum", "AccumBuffer", ["a"], ["y"], **_ADD, bw=64, rank=2, wb=False, dims=[2])
    b.unit("sink", "Consumer", ["y"], [])
    ends = [1 + cycles * (i + 1) for i in range(4)]
    return Example(
        f"accumulated buffer, {cycles} cycles",
        b.network(),
        stamps={"y": [ends[-1] + 1]},
        levels={"y": [1]},
        payloads={"y": [{"buffer": [2], "tiles": [tile(4, 16, 2, 0, 4)] * 2}]},
        slots_free={"a": [end + 1 for end in ends]},
    )


def selectors_of_numbers() -> Example:
    """One cycle each; the reader of a selector that was written back loads it."""
    b = NetBuilder()
    numbers = payload_tokens([integer(2), integer(0)], [0, 1])
    b.unit("source", "Gen", [], ["n"], tokens=numbers)
    b.unit(
        "index", "SelectorMap", ["n"], ["hot"], fn="IndexToMultiHot", width=3, cycles=1, wb=True
    )  # fmt: skip
    b.unit("not", "SelectorMap", ["hot"], ["cold"], fn="Not", width=3, cycles=0, wb=False)
    b.unit(
        "bits", "SelectorMap", ["cold"], ["m"], fn="MultiHotToInteger", width=3, cycles=2, wb=False
    )  # fmt: skip
    b.unit("sink", "Consumer", ["m"], [])
    return Example(
        "selectors of numbers",
        b.network(),
        stamps={"hot": [3, 4], "cold": [5, 6], "m": [8, 10]},
        levels={"hot": [0, 1], "cold": [0, 1], "m": [0, 1]},
        payloads={
            "hot": [selector([2], 3, rd=1), selector([0], 3, rd=1)],
            "cold": [selector([0, 1], 3), selector([1, 2], 3)],
            "m": [integer(3), integer(6)],
        },
        slots_free={"n": [3, 4], "hot": [5, 6], "cold": [8, 10]},
    )


SCAN_EXAMPLES = [
    exclusive_scan(),
    exclusive_scan_stores_what_it_shows(),
    two_taps(),
    two_streams_and_counts(),
    row_statistics(False),
    row_statistics(True),
    row_statistics_store(),
    accumulated_buffer(0, 2),
    accumulated_buffer(1, 4),
    selectors_of_numbers(),
]
