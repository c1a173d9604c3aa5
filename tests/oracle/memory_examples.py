"""Worked examples of the memory node and of the operators around it, with their numbers.

Defaults: the published model, 32 channels, interval 2, latency 2, startup 14. The
readers' outputs never fill unless an example says otherwise. A load's finish clock is the clock at
which its tile is emitted here, that is the stamp minus one.
"""

from __future__ import annotations

from stepsim.lowering.network import TimingParams
from tests.oracle.affine_examples import AFFINE_EXAMPLES
from tests.oracle.build import NetBuilder
from tests.oracle.example import Example, payload_tokens, tile_tokens
from tests.oracle.payloads import integer, tile

__all__ = ["MEMORY_EXAMPLES"]

_FETCH = {"tile": [16, 64], "par": 4, "bpe": 2}  # 32 requests in 8 bundles: 26 cycles when alone


def readers(
    name: str, tile_shape: list[int], pars: list[int], finishes: list[list[int]],
    timing: TimingParams | None = None,
) -> Example:  # fmt: skip
    """Static loads that start together; ``finishes[i]`` are the fetch ends of load i."""
    b = NetBuilder(timing)
    for i, par in enumerate(pars):
        tiles = len(finishes[i])
        b.unit(
            f"load{i}", "OffChipLoad", [], [f"c{i}"], tile=tile_shape, view=[tiles], par=par, bpe=2
        )
    for i in range(len(pars)):
        b.unit(f"sink{i}", "Consumer", [f"c{i}"], [])
    return Example(
        name,
        b.network(),
        stamps={f"c{i}": [f + 1 for f in ends] for i, ends in enumerate(finishes)},
        pubs={f"c{i}": [f + 1 for f in ends] for i, ends in enumerate(finishes)},
        payloads={
            f"c{i}": [tile(tile_shape[0], tile_shape[1], 2, 1, tile_shape[0])] * len(ends)
            for i, ends in enumerate(finishes)
        },
        final_clock={f"load{i}": ends[-1] for i, ends in enumerate(finishes)},
        cycles=max(ends[-1] for ends in finishes) + 3,
    )


def forty_readers() -> Example:
    """More requests per cycle than the channels serve."""
    second = dict.fromkeys(range(8), 192)
    second |= dict.fromkeys([8, 9, 11, 12, 13, *range(15, 19), 20, 21, 22, *range(32, 40)], 194)
    second |= dict.fromkeys([10, 14, 19, 23], 193)
    second |= dict.fromkeys([24, 26, 27, 28, 30, 31], 188) | dict.fromkeys([25, 29], 186)
    first = [95 if 24 <= i <= 31 else 97 for i in range(40)]
    finishes = [[first[i], second[i]] for i in range(40)]
    return readers("40 readers, saturating", [16, 64], [1] * 40, finishes)


def store_after_load(par: int, emits: list[int], ends: list[int]) -> Example:
    """Three tiles of 32 requests through a FIFO of depth 1 into a store."""
    b = NetBuilder(capacity=1)
    b.unit("load", "OffChipLoad", [], ["a"], view=[3], **_FETCH)
    b.unit("store", "OffChipStore", ["a"], [], tile=[16, 64], par=par)
    return Example(
        f"store after load, {par} per bundle",
        b.network(),
        stamps={"a": [e + 1 for e in emits]},
        slots_free={"a": [e + 1 for e in ends]},
        final_clock={"load": emits[-1], "store": ends[-1]},
        cycles=ends[-1] + 3,
    )


def reference_triggered_load() -> Example:
    b = NetBuilder()
    tokens = tile_tokens([1, 1, 2, 0], [0, 1])
    b.unit("ref", "At", [], ["r"], tokens=tokens, times=[4, 5], tail=0)
    b.unit("load", "DynOffChipLoad", ["r"], ["a"], view=[2], **_FETCH)
    b.unit("sink", "Consumer", ["a"], [])
    return Example(
        "reference-triggered load",
        b.network(),
        stamps={"r": [5, 6], "a": [32, 58, 84, 110]},
        levels={"a": [0, 1, 0, 2]},
        slots_free={"r": [6, 58]},
    )


def random_load() -> Example:
    b = NetBuilder()
    tokens = payload_tokens([integer(7), integer(3)], [0, 1])
    b.unit("address", "At", [], ["r"], tokens=tokens, times=[2, 3], tail=0)
    b.unit("load", "RandomOffChipLoad", ["r"], ["a"], **_FETCH)
    b.unit("sink", "Consumer", ["a"], [])
    return Example(
        "random load",
        b.network(),
        stamps={"a": [30, 56]},
        levels={"a": [0, 1]},
        slots_free={"r": [4, 30]},
    )


def random_store() -> Example:
    b = NetBuilder()
    b.unit(
        "address", "At", [], ["r"],
        tokens=payload_tokens([integer(7)], [1]), times=[3], tail=0,
    )  # fmt: skip
    b.unit("data", "At", [], ["d"], tokens=tile_tokens([16, 64, 2, 0], [0]), times=[9], tail=0)
    b.unit("store", "RandomOffChipStore", ["r", "d"], ["a"], ack_addr=True, **_FETCH)
    b.unit("sink", "Consumer", ["a"], [])
    return Example(
        "random store",
        b.network(),
        stamps={"a": [37]},
        levels={"a": [1]},
        payloads={"a": [{"ack": True}]},
        slots_free={"r": [37], "d": [37]},
    )


def dyn_streamify() -> Example:
    b = NetBuilder()
    stored = {"buffer": [2], "tiles": [tile(16, 64, 2, 0, 16)] * 2}
    b.unit("source", "At", [], ["b"], tokens=payload_tokens([stored], [1]), times=[4], tail=0)
    b.unit("ref", "At", [], ["r"], tokens=tile_tokens([1, 1, 2, 0], [0, 1]), times=[0, 1], tail=0)
    b.unit("stream", "DynStreamify", ["b", "r"], ["s"], rank=1, rr=0)
    b.unit("sink", "Consumer", ["s"], [])
    return Example(
        "dynamic streamify",
        b.network(),
        stamps={"s": [6, 7, 8, 9]},
        levels={"s": [0, 1, 0, 2]},
        slots_free={"b": [10]},
    )


def metadata() -> Example:
    b = NetBuilder()
    b.unit("source", "MetadataGen", [], ["m"], values=[4, 3, 2, 1], dims=[2, 2])
    b.unit("sink", "Consumer", ["m"], [])
    return Example(
        "metadata",
        b.network(),
        stamps={"m": [1, 1, 2, 3]},
        levels={"m": [0, 1, 0, 2]},
        payloads={"m": [integer(value) for value in (4, 3, 2, 1)]},
    )


def view_levels(view: list[int], levels: list[int], lead: bool = True) -> Example:
    b = NetBuilder()
    b.unit("load", "OffChipLoad", [], ["a"], view=view, lead=lead, **_FETCH)
    b.unit("sink", "Consumer", ["a"], [])
    return Example(f"levels of view {view}, lead {lead}", b.network(), levels={"a": levels})


def interleaved(channels: int, interval: int = 2) -> TimingParams:
    return TimingParams(hbm_channels=channels, hbm_interval=interval, memory_model="interleaved")


_EIGHT = TimingParams(hbm_channels=8)
_SMALL = TimingParams(hbm_channels=4)

MEMORY_EXAMPLES = [
    readers("one reader", [16, 64], [4], [[26]]),
    readers("one reader, single requests", [16, 64], [1], [[50]]),
    readers("one reader, short last bundle", [5, 32], [4], [[20]]),
    readers("one request", [1, 32], [1], [[19]]),
    readers("8 channels, three tiles", [16, 64], [4], [[27, 54, 81]], _EIGHT),
    readers("8 channels, two readers", [16, 64], [4, 4], [[33, 66], [33, 66]], _EIGHT),
    readers("two tiles", [16, 64], [4], [[26, 52]]),
    readers("seven tiles", [16, 64], [4], [[26 * t for t in range(1, 8)]]),
    readers("two readers", [16, 64], [4, 4], [[27, 54], [27, 54]]),
    readers("two readers, wide bundles", [16, 64], [16, 16], [[21], [21]]),
    forty_readers(),
    store_after_load(4, [26, 55, 84], [54, 83, 111]),
    store_after_load(1, [26, 78, 130], [77, 129, 181]),
    readers("small machine", [8, 32], [4, 2], [[23], [27]], _SMALL),
    reference_triggered_load(),
    random_load(),
    random_store(),
    dyn_streamify(),
    metadata(),
    # Port 0 begins on channel 0, port 1 on channel 2 of 4: in cycle 1 port 0 has channels 0 to 3 at
    # clock 2 and port 1 channels 2 and 3 at clock 4; in cycle 2 port 0 has 0 and 1 at 4, 2 and 3 at
    # 6, and port 1 has 0 and 1 at 6; its last ones start at 8. A response is back 17 clocks later.
    readers("interleaved, small machine", [8, 32], [4, 2], [[23], [25]], interleaved(4)),
    # One request per tile, on channels 0, 1, 0: a channel that was used in the tile before would be
    # busy until clock 27.
    readers("interleaved, goes on", [1, 32], [1], [[19, 38, 57]], interleaved(2, 25)),
    # On 5 channels the ports begin 3 apart and stay so: a channel gets a request every 2 or 3
    # cycles, and no port waits for the other. 13 bundles + 18.
    readers("interleaved, apart", [13, 32], [1, 1], [[31, 62], [31, 62]], interleaved(5)),
    # Channels 0, 1, 0, 1, 0 at 2, 2, 4, 4, 6; the next tile begins on channel 1.
    readers("interleaved, bundle of 5 on 2", [5, 32], [5], [[23, 46]], interleaved(2)),
    view_levels([2, 3], [0, 0, 1, 0, 0, 2]),
    view_levels([2, 2, 3], [0, 0, 1, 0, 0, 2, 0, 0, 1, 0, 0, 3]),
    view_levels([2, 3], [0, 0, 1, 0, 0, 1], lead=False),
    *AFFINE_EXAMPLES,
]
