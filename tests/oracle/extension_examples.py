"""Hand-simulated examples of operators and parameters beyond the original vocabulary.

Scan, Zip and maps over tuples, the generic FlatMap, the further functions, the closure slack, and
loads without a leading dim. Channels are unbounded.
"""

from __future__ import annotations

from typing import Any

from stepsim.lowering.network import TimingParams
from tests.oracle.build import NetBuilder
from tests.oracle.example import Example, payload_tokens, tile_tokens
from tests.oracle.examples_2026 import EXAMPLES_2026
from tests.oracle.payloads import integer, tile
from tests.oracle.scan_examples import SCAN_EXAMPLES

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


def partitioned_tuples(wb: bool) -> Example:
    """Load 8 + 8, choose 1 and, with write-back, store 1024 bytes in 16 cycles."""
    b = NetBuilder()
    for name in "xy":
        b.unit(f"source {name}", "Gen", [], [name], tokens=tile_tokens([16, 16, 2, 1], [0, 0]))
    b.unit("zip", "Zip", ["x", "y"], ["z"])
    b.unit("choice", "SelectGen", [], ["s"], selectors=[[0], [0]], width=1, levels=[0, 0])
    b.unit("split", "Partition", ["z", "s"], ["out"], rank=0, switch=[1], wb=wb)
    b.unit("sink", "Consumer", ["out"], [])
    member = tile(16, 16, 2, int(wb), 16)
    return Example(
        f"partitioned tuples, write-back {wb}",
        b.network(),
        stamps={"z": [2, 3], "out": [36, 69] if wb else [20, 37]},
        payloads={"out": [{"tuple": [member, member]}] * 2},
        slots_free={"z": [19, 52] if wb else [19, 36]},
    )


def tuple_written_back_once() -> Example:
    """One copy is written back in 16 cycles and loaded in 16; the other one costs nothing."""
    b = NetBuilder()
    for name in "xy":
        b.unit(f"source {name}", "Gen", [], [name], tokens=tile_tokens([16, 16, 2, 0], [0]))
    b.unit("zip", "Zip", ["x", "y"], ["z"])
    b.unit("copy", "Broadcast", ["z"], ["p", "q"])
    b.unit("choice", "SelectGen", [], ["s"], selectors=[[0]], width=1, levels=[0])
    b.unit("join", "Reassemble", ["p", "s"], ["stored"], rank=0, switch=[1], wb=True)
    for name in ("stored", "q"):
        b.unit(f"map {name}", "UnaryMap", [name], [f"{name}2"], fn=["Mul"], bw=1024, wb=False)
        b.unit(f"sink {name}", "Consumer", [f"{name}2"], [])
    plain, stored = ({"tuple": [tile(16, 16, 2, rd, 16)] * 2} for rd in (0, 1))
    return Example(
        "tuple written back once",
        b.network(),
        stamps={"p": [3], "q": [3], "q2": [5], "stored": [21], "stored2": [38]},
        levels={"q": [0], "stored": [1]},
        payloads={"p": [plain], "q": [plain], "stored": [stored]},
    )


def nested_tuples() -> Example:
    """Members of 16 bytes: loads round up each, the store rounds up their sum.

    Two of the three lie on chip at first, all of them behind "first", none behind "second".
    """
    b = NetBuilder()
    for name, rd in (("x", 1), ("y", 0), ("w", 1)):
        b.unit(f"source {name}", "Gen", [], [name], tokens=tile_tokens([1, 8, 2, rd], [0]))
    b.unit("zip", "Zip", ["x", "y"], ["z"])
    b.unit("nest", "Zip", ["z", "w"], ["n"])
    stages = (("n", "first", True), ("first", "second", False), ("second", "third", False))
    for data, out, wb in stages:
        b.unit(f"choice {out}", "SelectGen", [], [f"s {out}"], selectors=[[0]], width=1, levels=[0])
        b.unit(out, "Partition", [data, f"s {out}"], [out], rank=0, switch=[1], wb=wb)
    b.unit("sink", "Consumer", ["third"], [])

    def pair(x: int, y: int, w: int) -> dict[str, Any]:
        first, second, third = (tile(1, 8, 2, rd, 1) for rd in (x, y, w))
        return {"tuple": [{"tuple": [first, second]}, third]}

    return Example(
        "nested tuples",
        b.network(),
        # Loads 2, 3 and 0, store 1, choices 1 each.
        stamps={"n": [3], "first": [8], "second": [13], "third": [15]},
        payloads={
            "n": [pair(1, 0, 1)],
            "first": [pair(1, 1, 1)],
            "second": [pair(0, 0, 0)],
            "third": [pair(0, 0, 0)],
        },
    )


def tuple_of_stored_tuple() -> Example:
    """A tuple that was written back is loaded as a member, too: 1 + 1 cycles, and nothing for w."""
    b = NetBuilder()
    for name in "xyw":
        b.unit(f"source {name}", "Gen", [], [name], tokens=tile_tokens([1, 8, 2, 0], [0]))
    b.unit("zip", "Zip", ["x", "y"], ["z"])
    for out in ("stored", "out"):
        b.unit(f"choice {out}", "SelectGen", [], [f"s {out}"], selectors=[[0]], width=1, levels=[0])
    b.unit("store", "Partition", ["z", "s stored"], ["stored"], rank=0, switch=[1], wb=True)
    b.unit("nest", "Zip", ["stored", "w"], ["n"])
    b.unit("split", "Partition", ["n", "s out"], ["out"], rank=0, switch=[1], wb=False)
    b.unit("sink", "Consumer", ["out"], [])
    on_chip = tile(1, 8, 2, 1, 1)
    return Example(
        "tuple of a stored tuple",
        b.network(),
        stamps={"z": [2], "stored": [5], "n": [6], "out": [10]},
        payloads={"n": [{"tuple": [{"tuple": [on_chip, on_chip]}, tile(1, 8, 2, 0, 1)]}]},
    )


def routed_buffers() -> Example:
    """A buffer is a reference: write-back stores nothing, and its tiles stay as they are."""
    b = NetBuilder()
    b.unit("source", "Gen", [], ["x"], tokens=tile_tokens([16, 16, 2, 1], [0, 1]))
    b.unit("buffer", "Bufferize", ["x"], ["held"], rank=1)
    for out in ("part", "out"):
        b.unit(f"choice {out}", "SelectGen", [], [f"s {out}"], selectors=[[0]], width=1, levels=[0])
    b.unit("split", "Partition", ["held", "s part"], ["part"], rank=0, switch=[1], wb=True)
    b.unit("join", "Reassemble", ["part", "s out"], ["out"], rank=0, switch=[1], wb=True)
    b.unit("sink", "Consumer", ["out"], [])
    held = {"buffer": [2], "tiles": [tile(16, 16, 2, 1, 16)] * 2}
    return Example(
        "routed buffers",
        b.network(),
        stamps={"held": [3], "part": [5], "out": [7]},
        levels={"held": [0], "part": [0], "out": [1]},
        payloads={"held": [held], "part": [held], "out": [held]},
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
    partitioned_tuples(False),
    partitioned_tuples(True),
    tuple_written_back_once(),
    nested_tuples(),
    tuple_of_stored_tuple(),
    routed_buffers(),
    flat_map(),
    # Constant functions take 1 cycle; storing 64 bytes takes 1, storing 8 bytes takes 1.
    binary(["SetOffset"], _TILE, integer(3), 3, tile(4, 8, 2, 1, 3)),
    binary(["RowWiseAppend"], tile(4, 8, 2, 0, 1), tile(2, 8, 2, 0, 2), 3, tile(4, 8, 2, 1, 3)),
    binary(["CacheWriteAddrGen"], integer(3), integer(5), 3, integer(34, rd=1), stride=10),
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
    *EXAMPLES_2026,
    *SCAN_EXAMPLES,
]
