"""Hand-simulated examples of the operators that the public simulator has had since 2026."""

from __future__ import annotations

from stepsim.lowering.network import TimingParams
from tests.oracle.build import NetBuilder
from tests.oracle.example import Example, payload_tokens, tile_tokens
from tests.oracle.payloads import selector, tile

__all__ = ["EXAMPLES_2026"]


def shuffle() -> Example:
    """One tile for two buckets: written in 3 cycles, read back in 3 for each of them."""
    b = NetBuilder()
    b.unit("data", "Gen", [], ["x"], tokens=tile_tokens([1, 33, 4, 0], [1]))
    b.unit("choice", "Gen", [], ["s"], tokens=payload_tokens([selector([0, 1], 2)], [1]))
    b.unit("shuffle", "Shuffle", ["x", "s"], ["y", "m"], rank=1, width=2, wb=False)
    b.unit("sink", "Consumer", ["y"], [])
    b.unit("marks", "Consumer", ["m"], [])
    return Example(
        "shuffle",
        b.network(),
        stamps={"m": [5, 8], "y": [8, 11]},
        levels={"m": [0, 1], "y": [1, 2]},
        payloads={"m": [selector([0], 2), selector([1], 2)]},
    )


def repeat(model: str, stamps: list[int]) -> Example:
    b = NetBuilder(TimingParams(model=model))
    b.unit("source", "Gen", [], ["x"], tokens=tile_tokens([1, 16, 2, 0], [0, 1]))
    b.unit("repeat", "RepeatStatic", ["x"], ["y"], f=3)
    b.unit("sink", "Consumer", ["y"], [])
    return Example(
        f"repeat, {model}", b.network(), stamps={"y": stamps}, levels={"y": [0, 0, 1, 0, 0, 2]}
    )


def repeat_by_factors() -> Example:
    b = NetBuilder(TimingParams(model="step-2026"))
    b.unit("source", "Gen", [], ["x"], tokens=tile_tokens([1, 16, 2, 0], [0, 1]))
    b.unit("repeat", "RepeatStatic", ["x"], ["y"], f=[2, 2])
    b.unit("sink", "Consumer", ["y"], [])
    return Example(
        "repeat by factors",
        b.network(),
        stamps={"y": [2, 3, 4, 5, 6, 7, 8, 9]},
        levels={"y": [0, 1, 0, 2, 0, 1, 0, 3]},
    )


def promote_outer() -> Example:
    """A token waits for its successor; the end of the source is seen at once."""
    b = NetBuilder()
    b.unit(
        "source", "At", [], ["x"], tokens=tile_tokens([1, 16, 2, 0], [0, 0, 1]), times=[0, 10, 10]
    )
    b.unit("promote", "PromoteOuter", ["x"], ["y"])
    b.unit("sink", "Consumer", ["y"], [])
    return Example(
        "promote outer", b.network(), stamps={"y": [12, 13, 14]}, levels={"y": [0, 0, 2]}
    )


def repeat_ref() -> Example:
    """Plain references are passed over; copies leave with the stops, which lose one level."""
    b = NetBuilder()
    b.unit("source", "Gen", [], ["x"], tokens=tile_tokens([1, 16, 2, 0], [0, 1]))
    b.unit("ref", "Gen", [], ["r"], tokens=tile_tokens([1, 1, 2, 0], [0, 1, 0, 2, 1, 3]))
    b.unit("repeat", "RepeatRef", ["x", "r"], ["y"], rank=1, e=1)
    b.unit("sink", "Consumer", ["y"], [])
    return Example(
        "repeat by reference",
        b.network(),
        stamps={"y": [3, 5, 6, 7]},
        levels={"y": [0, 1, 0, 2]},
        slots_free={"x": [2, 5]},
    )


def take_last() -> Example:
    b = NetBuilder()
    b.unit("source", "Gen", [], ["x"], tokens=tile_tokens([1, 16, 2, 0], [0, 0, 1, 2]))
    b.unit("last", "TakeLast", ["x"], ["y"])
    b.unit("sink", "Consumer", ["y"], [])
    return Example("take last", b.network(), stamps={"y": [4, 5]}, levels={"y": [1, 2]})


def static_reassemble() -> Example:
    """A switch of 3 cycles delays the token, not the clock; the other input keeps one."""
    b = NetBuilder()
    b.unit("first", "Gen", [], ["a"], tokens=tile_tokens([1, 16, 2, 0], [0, 1]))
    b.unit("second", "Gen", [], ["b"], tokens=tile_tokens([2, 16, 2, 0], [1, 1]))
    b.unit("join", "StaticReassemble", ["a", "b"], ["y"], rank=1, switch=[3, 1])
    b.unit("sink", "Consumer", ["y"], [])
    rows = [1, 1, 2]
    return Example(
        "static reassemble",
        b.network(),
        stamps={"y": [4, 5, 3]},
        levels={"y": [0, 1, 1]},
        payloads={"y": [tile(r, 16, 2, 0, r) for r in rows]},
    )


def lanes() -> Example:
    """The second token of a group is awaited before the first one leaves."""
    b = NetBuilder()
    b.unit("source", "Gen", [], ["x"], tokens=tile_tokens([1, 16, 2, 0], [0, 0, 0, 1]))
    b.unit("deal", "ContextDeinterleave", ["x"], ["a", "b"])
    b.unit("collect", "ContextInterleave", ["a", "b"], ["y"])
    b.unit("sink", "Consumer", ["y"], [])
    return Example(
        "lanes",
        b.network(),
        stamps={"a": [3, 5], "b": [3, 5], "y": [4, 4, 6, 6]},
        levels={"a": [0, 1], "b": [0, 1], "y": [0, 0, 0, 1]},
    )


def chunks() -> Example:
    """Pieces up to the one with the last valid row; columns keep all rows."""
    b = NetBuilder()
    tokens = payload_tokens([tile(5, 3, 2, 0, 3)], [1])
    for name in "xz":
        b.unit(f"source {name}", "Gen", [], [name], tokens=tokens)
    b.unit("rows", "RetileStreamify", ["x"], ["y"], split_row=True, filter=True, chunk=2)
    b.unit("cols", "RetileStreamify", ["z"], ["w"], split_row=False, filter=False, chunk=2)
    b.unit("sink", "Consumer", ["y"], [])
    b.unit("other", "Consumer", ["w"], [])
    return Example(
        "chunks",
        b.network(),
        stamps={"y": [2, 2], "w": [2, 2]},
        levels={"y": [0, 1], "w": [0, 1]},
        payloads={
            "y": [tile(2, 3, 2, 0, 2), tile(2, 3, 2, 0, 1)],
            "w": [tile(5, 2, 2, 0, 3), tile(5, 1, 2, 0, 3)],
        },
    )


def masked_reshape() -> Example:
    b = NetBuilder()
    b.unit("source", "Gen", [], ["x"], tokens=tile_tokens([2, 16, 2, 0], [0, 0, 1]))
    b.unit(
        "chunk", "ReshapePadStream", ["x"], ["y", "m"], s=0, q=2, ri=1, pad=[2, 16], bpe=2
    )  # fmt: skip
    b.unit("sink", "Consumer", ["y"], [])
    b.unit("marks", "Consumer", ["m"], [])
    real, pad = {**tile(1, 1, 1, 0, 1), "value": 1}, tile(1, 1, 1, 0, 1)
    return Example(
        "masked reshape",
        b.network(),
        stamps={"y": [2, 3, 4, 4], "m": [2, 3, 4, 4]},
        levels={"y": [0, 1, 0, 2], "m": [0, 1, 0, 2]},
        payloads={"m": [real, real, real, pad]},
    )


def filter_rows() -> Example:
    b = NetBuilder()
    b.unit("source", "Gen", [], ["x"], tokens=tile_tokens([3, 16, 2, 0], [0, 0, 0]))
    masks = payload_tokens([selector(rows, 3) for rows in ([0, 2], [], [1])], [0, 0, 0])
    b.unit("masks", "Gen", [], ["m"], tokens=masks)
    b.unit("filter", "FlatmapFilterRowStreamify", ["x", "m"], ["y"])
    b.unit("sink", "Consumer", ["y"], [])
    return Example(
        "filter rows",
        b.network(),
        stamps={"y": [2, 2, 4]},
        levels={"y": [0, 0, 0]},
        payloads={"y": [tile(1, 16, 2, 0, 1)] * 3},
    )


EXAMPLES_2026 = [
    shuffle(),
    repeat("step-2025", [2, 2, 3, 5, 5, 6]),
    repeat("step-2026", [2, 3, 4, 5, 6, 7]),
    repeat_by_factors(),
    promote_outer(),
    repeat_ref(),
    take_last(),
    static_reassemble(),
    lanes(),
    chunks(),
    masked_reshape(),
    filter_rows(),
]
