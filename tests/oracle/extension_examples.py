"""Hand-simulated examples of operators and parameters beyond the original vocabulary.

Scan, Zip and maps over tuples, the generic FlatMap, the further functions, the closure slack, and
loads without a leading dim. Channels are unbounded.
"""

from __future__ import annotations

from typing import Any

from stepsim.lowering.network import TimingParams
from tests.oracle.build import NetBuilder
from tests.oracle.example import Example, payload_tokens, tile_tokens
from tests.oracle.payloads import integer, tile

__all__ = ["EXTENSION_EXAMPLES"]


def scan() -> Example:
    """Compute 1, store 2 cycles per token; the accumulator starts again after a stop."""
    b = NetBuilder()
    b.unit("source", "Gen", [], ["a"], tokens=tile_tokens([1, 16, 2, 0], [0, 0, 1, 0]))
    b.unit(
        "scan", "Scan", ["a"], ["y"],
        fn="RetileRow", bw=0, rank=1, init=[0, 16], bpe=2, wb=True,
    )  # fmt: skip
    b.unit("sink", "Consumer", ["y"], [])
    return Example(
        "scan",
        b.network(),
        # Stores of 32, 64, 96 and 32 bytes take 1, 1, 2 and 1 cycles.
        stamps={"y": [3, 4, 6, 7]},
        levels={"y": [0, 0, 1, 0]},
        payloads={"y": [tile(rows, 16, 2, 0, rows) for rows in (1, 2, 3, 1)]},
        slots_free={"a": [3, 4, 6, 7]},
    )


def scan_add() -> Example:
    """The result of Add lies in memory if the scan writes back."""
    b = NetBuilder()
    b.unit("source", "Gen", [], ["a"], tokens=tile_tokens([4, 16, 2, 0], [0, 1]))
    b.unit(
        "scan", "Scan", ["a"], ["y"],
        fn="Add", bw=64, rank=1, init=[4, 16], bpe=2, wb=True,
    )  # fmt: skip
    b.unit("sink", "Consumer", ["y"], [])
    return Example(
        "scan, add",
        b.network(),
        stamps={"y": [4, 6]},
        levels={"y": [0, 1]},
        payloads={"y": [tile(4, 16, 2, 1, 4)] * 2},
    )


def tuple_map() -> Example:
    """Both members of a tuple are loaded, one after the other."""
    b = NetBuilder()
    for name in "xy":
        b.unit(f"source {name}", "Gen", [], [name], tokens=tile_tokens([16, 16, 2, 1], [0, 1]))
    b.unit("zip", "Zip", ["x", "y"], ["z"])
    b.unit("map", "UnaryMap", ["z"], ["out"], fn=["Mul"], bw=1024, wb=False)
    b.unit("sink", "Consumer", ["out"], [])
    operand = tile(16, 16, 2, 1, 16)
    return Example(
        "map over tuples",
        b.network(),
        stamps={"z": [2, 3], "out": [19, 35]},
        levels={"z": [0, 1], "out": [0, 1]},
        payloads={"z": [{"tuple": [operand, operand]}] * 2, "out": [tile(16, 16, 2, 0, 16)] * 2},
        slots_free={"x": [2, 3], "y": [2, 3], "z": [19, 35]},
    )


def flat_map() -> Example:
    """Two by three pieces; the outermost dim does not count as ended before the last piece."""
    b = NetBuilder()
    b.unit("source", "Gen", [], ["a"], tokens=tile_tokens([2, 8, 2, 1], [0, 1]))
    b.unit("cut", "FlatMap", ["a"], ["y"], dims=["rows", 3], tile=[1, "cols"], cycles=2)
    b.unit("sink", "Consumer", ["y"], [])
    return Example(
        "flat map",
        b.network(),
        stamps={"y": list(range(4, 28, 2))},
        levels={"y": [0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 2]},
        payloads={"y": [tile(1, 8, 2, 1, 1)] * 12},
        slots_free={"a": [2, 14]},
    )


def binary(fn: list[Any], first: dict[str, Any], second: dict[str, Any], stamp: int,
           result: dict[str, Any], **extra: Any) -> Example:  # fmt: skip
    """One application of a two-operand function, both operands there at 1."""
    b = NetBuilder()
    b.unit("first", "Gen", [], ["x"], tokens=payload_tokens([first], [1]))
    b.unit("second", "Gen", [], ["y"], tokens=payload_tokens([second], [1]))
    b.unit("map", "BinaryMap", ["x", "y"], ["z"], fn=fn, bw=extra.pop("bw", 0), wb=True, **extra)
    b.unit("sink", "Consumer", ["z"], [])
    return Example(
        f"function {fn[0]}",
        b.network(),
        stamps={"z": [stamp]},
        levels={"z": [1]},
        payloads={"z": [result]},
    )


def reduction(fn: str, init: list[int], bpe: int, stamp: int, result: dict[str, Any]) -> Example:
    """Two tiles 4x8 that lie in memory (1 cycle each), reduced with write-back."""
    b = NetBuilder()
    b.unit("source", "Gen", [], ["a"], tokens=tile_tokens([4, 8, 2, 1], [0, 1]))
    b.unit("sum", "Accum", ["a"], ["y"], fn=fn, bw=16, rank=1, init=init, bpe=bpe, wb=True)
    b.unit("sink", "Consumer", ["y"], [])
    return Example(f"reduction {fn}", b.network(), stamps={"y": [stamp]}, payloads={"y": [result]})


def closure_slack() -> Example:
    """The end of the routing is noticed one cycle earlier with slack 1."""
    b = NetBuilder(TimingParams(closure_slack=1))
    tokens = tile_tokens([1, 64, 2, 1], [0, 0])
    b.unit("data", "Paced", [], ["a"], tokens=tokens, times=[0, 29], tail=0)
    b.unit("choice", "SelectGen", [], ["s"], selectors=[[0], [1]], width=2, levels=[0, 0])
    b.unit("split", "Partition", ["a", "s"], ["o0", "o1"], rank=0, switch=[1, 1], wb=False)
    b.unit("reshape", "Reshape", ["o0"], ["r"], s=0, q=1, bpe=2, ri=0, outer=True)
    b.unit("sink0", "Consumer", ["r"], [])
    b.unit("sink1", "Consumer", ["o1"], [])
    return Example(
        "closure slack 1",
        b.network(),
        stamps={"r": [31]},
        levels={"r": [2]},
        final_clock={"split": 33, "reshape": 30},
    )


def merge_at_closure(slack: int) -> Example:
    """The last token is served once the other input is seen to have ended.

    The source of y ends at pace 12, so the merge decides at 13 (12 with slack 1), well before the
    stamp of x; the data waits for its stamp all the same.
    """
    b = NetBuilder(TimingParams(closure_slack=slack))
    one = tile_tokens([1, 16, 2, 0], [0])
    b.unit("x", "At", [], ["in0"], tokens=one, times=[29], tail=0)
    # A Partition that takes a token at 12 and sends it elsewhere: in1 just ends.
    b.unit("y", "Paced", [], ["yd"], tokens=one, times=[11], tail=0)
    b.unit("choice", "SelectGen", [], ["s"], selectors=[[1]], width=2, levels=[0])
    b.unit("split", "Partition", ["yd", "s"], ["in1", "o1"], rank=0, switch=[1, 1], wb=False)
    b.unit("merge", "EagerMerge", ["in0", "in1"], ["data", "sel"], rank=0)
    for channel in ("data", "sel", "o1"):
        b.unit(f"sink {channel}", "Consumer", [channel], [])
    return Example(
        f"merge at closure, slack {slack}",
        b.network(),
        stamps={"sel": [14 - slack], "data": [31]},
        pubs={"sel": [14 - slack], "data": [14 - slack]},
        final_clock={"merge": 30},
    )


_TILE = tile(4, 8, 2, 0, 4)

EXTENSION_EXAMPLES = [
    scan(),
    scan_add(),
    tuple_map(),
    flat_map(),
    # Constant functions take 1 cycle; storing 64 bytes takes 1, storing 8 bytes takes 1.
    binary(["SetOffset"], _TILE, integer(3), 3, tile(4, 8, 2, 1, 3)),
    binary(["RowWiseAppend"], tile(4, 8, 2, 0, 1), tile(2, 8, 2, 0, 2), 3, tile(4, 8, 2, 1, 3)),
    binary(["CacheWriteAddrGen"], integer(3), integer(5), 3, integer(35, rd=1), stride=10),
    binary(["Add"], _TILE, tile(1, 8, 2, 0, 1), 4, tile(4, 8, 2, 1, 4), bw=16),
    binary(["DynMatmul", True], _TILE, tile(2, 8, 2, 0, 2), 10, tile(4, 2, 2, 1, 4), bw=16),
    # Per token: load 1. Add and Mul compute 2; the others 0 or 1.
    reduction("Add", [4, 8], 2, 6, tile(4, 8, 2, 1, 4)),
    reduction("Mul", [4, 8], 2, 6, tile(4, 8, 2, 1, 4)),
    reduction("RetileCol", [4, 0], 2, 4, tile(4, 16, 2, 1, 4)),
    reduction("RetileRow", [0, 8], 2, 4, tile(8, 8, 2, 1, 8)),
    reduction("SignalReqAllRead", [1, 1], 8, 4, integer(1, rd=1)),
    closure_slack(),
    merge_at_closure(0),
    merge_at_closure(1),
]
