"""Hand-simulated affine reads of buffers, forms of loads, counters and addresses of views.

Channels are unbounded unless an example says otherwise.
"""

from __future__ import annotations

from typing import Any

from tests.oracle.build import NetBuilder
from tests.oracle.example import Example, payload_tokens, tile_tokens
from tests.oracle.payloads import integer, selector, tile

__all__ = ["AFFINE_EXAMPLES"]

_FETCH = {"tile": [16, 64], "par": 4, "bpe": 2}  # 32 requests in 8 bundles: 26 cycles when alone


def _cells(*numbers: int) -> list[dict[str, Any]]:
    """Tiles that can be told apart by their columns."""
    return [tile(1, 1 + number, 2, 0, 1) for number in numbers]


def static_read(
    name: str, dims: list[int], level: int, levels: list[int], read: list[int], **params: Any
) -> Example:
    """A buffer that arrives at 5; one element leaves per cycle, then its slot is free."""
    b = NetBuilder()
    held = 1
    for dim in dims:
        held *= dim
    stored = {"buffer": dims, "tiles": _cells(*range(held))}
    b.unit("source", "At", [], ["b"], tokens=payload_tokens([stored], [level]), times=[4], tail=0)
    b.unit("stream", "StaticStreamify", ["b"], ["s"], rank=len(dims), **params)
    b.unit("sink", "Consumer", ["s"], [])
    return Example(
        f"static streamify, {name}",
        b.network(),
        stamps={"s": list(range(6, 6 + len(read)))},
        levels={"s": levels},
        payloads={"s": _cells(*read)},
        slots_free={"b": [6 + len(read)]},
    )


def affine_by_reference() -> Example:
    b = NetBuilder()
    stored = {"buffer": [2, 2], "tiles": _cells(0, 1, 2, 3)}
    b.unit("source", "At", [], ["b"], tokens=payload_tokens([stored], [1]), times=[4], tail=0)
    b.unit("ref", "At", [], ["r"], tokens=tile_tokens([1, 1, 2, 0], [0, 1]), times=[0, 1], tail=0)
    b.unit("stream", "DynStreamify", ["b", "r"], ["s"], rank=2, rr=0, shape=[2], stride=[2])
    b.unit("sink", "Consumer", ["s"], [])
    return Example(
        "dynamic streamify, affine",
        b.network(),
        stamps={"s": [6, 7, 8, 9]},
        levels={"s": [0, 1, 0, 2]},
        payloads={"s": _cells(0, 2, 0, 2)},
        slots_free={"b": [10]},
    )


def triggered_load() -> Example:
    """The first reference is below the trigger rank: taken at 5, and nothing happens."""
    b = NetBuilder()
    tokens = tile_tokens([1, 1, 2, 0], [0, 1, 2])
    b.unit("ref", "At", [], ["r"], tokens=tokens, times=[4, 5, 6], tail=0)
    b.unit("load", "DynOffChipLoad", ["r"], ["a"], view=[2], trigger_rank=1, **_FETCH)
    b.unit("sink", "Consumer", ["a"], [])
    return Example(
        "triggered load",
        b.network(),
        stamps={"a": [33, 59, 85, 111]},
        levels={"a": [0, 1, 0, 2]},
        slots_free={"r": [6, 7, 59]},
    )


def transposed_load() -> Example:
    """5 requests for the 5 rows as they are stored; as delivered there would be 32."""
    b = NetBuilder()
    b.unit(
        "load", "OffChipLoad", [], ["a"],
        tile=[5, 32], par=4, bpe=2, view=[1], transposed=True,
    )  # fmt: skip
    b.unit("sink", "Consumer", ["a"], [])
    return Example(
        "transposed load",
        b.network(),
        stamps={"a": [21]},
        payloads={"a": [tile(32, 5, 2, 1, 32)]},
        cycles=23,
    )


def bypassed_load(capacity: int | None, stamps: list[int]) -> Example:
    """Nothing but the depth of the output limits the rate, and no memory node has to drain."""
    b = NetBuilder(capacity=capacity)
    b.unit("load", "BypassLoad", [], ["a"], tile=[16, 64], bpe=2, view=[2, 2])
    b.unit("sink", "Consumer", ["a"], [])
    return Example(
        f"bypassed load, depth {capacity}",
        b.network(),
        stamps={"a": stamps},
        levels={"a": [0, 1, 0, 2]},
        payloads={"a": [tile(16, 64, 2, 1, 16)] * 4},
        final_clock={"load": stamps[-1] - 1},
        cycles={1: 8, None: 5}[capacity],
    )


def bypassed_by_reference() -> Example:
    b = NetBuilder()
    tokens = tile_tokens([1, 1, 2, 0], [0, 1])
    b.unit("ref", "At", [], ["r"], tokens=tokens, times=[4, 9], tail=0)
    b.unit("load", "DynBypassLoad", ["r"], ["a"], tile=[16, 64], bpe=2, view=[2])
    b.unit("sink", "Consumer", ["a"], [])
    return Example(
        "bypassed load by reference",
        b.network(),
        stamps={"a": [6, 6, 11, 11]},
        levels={"a": [0, 1, 0, 2]},
        slots_free={"r": [6, 11]},
    )


def counter(capacity: int | None, lead: bool, stamps: list[int]) -> Example:
    b = NetBuilder(capacity=capacity)
    b.unit("count", "Counter", [], ["a"], n=3, lead=lead)
    b.unit("sink", "Consumer", ["a"], [])
    return Example(
        f"counter, depth {capacity}, lead {lead}",
        b.network(),
        stamps={"a": stamps},
        levels={"a": [0, 0, int(lead)]},
        payloads={"a": [integer(value) for value in range(3)]},
    )


def counter_by_reference() -> Example:
    b = NetBuilder()
    tokens = tile_tokens([1, 1, 2, 0], [0, 1])
    b.unit("ref", "At", [], ["r"], tokens=tokens, times=[4, 9], tail=0)
    b.unit("count", "DynCounter", ["r"], ["a"], n=2)
    b.unit("sink", "Consumer", ["a"], [])
    return Example(
        "counter by reference",
        b.network(),
        stamps={"a": [6, 6, 11, 11]},
        levels={"a": [0, 1, 0, 2]},
        payloads={"a": [integer(0), integer(1)] * 2},
        slots_free={"r": [6, 11]},
    )


def flatmap_counter() -> Example:
    b = NetBuilder()
    lengths = [integer(2), integer(3, rd=1)]
    b.unit("lengths", "Gen", [], ["n"], tokens=payload_tokens(lengths, [0, 1]))
    b.unit("count", "FlatmapCounter", ["n"], ["a"])
    b.unit("sink", "Consumer", ["a"], [])
    return Example(
        "flat-map counter",
        b.network(),
        stamps={"a": [2, 2, 3, 3, 3]},
        levels={"a": [0, 1, 0, 0, 2]},
        payloads={"a": [integer(0), integer(1), *(integer(i, rd=1) for i in range(3))]},
        slots_free={"n": [2, 3]},
    )


def view_addresses(name: str, chosen: list[dict[str, Any]]) -> Example:
    """The walk 0, 1, 3, 4 in slabs of 4: the last one is 0 again."""
    b = NetBuilder()
    b.unit("slabs", "Gen", [], ["e"], tokens=payload_tokens(chosen, [0, 1]))
    b.unit(
        "view", "DynAddrGen", ["e"], ["a"],
        shape=[2, 2], stride=[3, 1], slab=4, base=10,
    )  # fmt: skip
    b.unit("sink", "Consumer", ["a"], [])
    return Example(
        f"addresses of a view by {name}",
        b.network(),
        stamps={"a": [2] * 4 + [3] * 4},
        levels={"a": [0, 1, 0, 2, 0, 1, 0, 3]},
        payloads={"a": [integer(value) for value in (14, 15, 17, 14, 18, 19, 21, 18)]},
        slots_free={"e": [2, 3]},
    )


AFFINE_EXAMPLES = [
    static_read(
        "affine", [2, 3], 1, [0, 1, 0, 2, 0, 1, 0, 4], [0, 2, 1, 3] * 2,
        repeat=[2], shape=[2, 2], stride=[1, 2],
    ),
    # The strides [0, 1] of one repeat, and the repeat itself.
    static_read("stride 0", [3], 0, [0, 0, 1, 0, 0, 2], [0, 1, 2] * 2,
                repeat=[], shape=[2, 3], stride=[0, 1]),
    static_read("one factor", [3], 0, [0, 0, 1, 0, 0, 2], [0, 1, 2] * 2, repeat=[2]),
    static_read("nested factors", [2], 2, [0, 1, 0, 2, 0, 1, 0, 2, 0, 1, 0, 5], [0, 1] * 6,
                repeat=[3, 2]),
    # A buffer of one element follows the general rule of levels.
    static_read("one element", [1], 0, [1, 2, 1, 3], [0] * 4, repeat=[2, 2]),
    affine_by_reference(),
    triggered_load(),
    transposed_load(),
    bypassed_load(None, [1, 1, 1, 1]),
    bypassed_load(1, [1, 3, 5, 7]),
    bypassed_by_reference(),
    counter(None, True, [1, 1, 1]),
    counter(2, False, [1, 1, 3]),
    counter_by_reference(),
    flatmap_counter(),
    view_addresses("selectors", [selector([1], 3), selector([2], 3)]),
    view_addresses("integers", [integer(1), integer(2)]),
]  # fmt: skip
