"""Hand-simulated examples of the timing rules for operators, with their numbers.

Channels are unbounded unless an example says otherwise. Each example runs on any backend through
:meth:`tests.oracle.example.Example.check`.
"""

from __future__ import annotations

from stepsim.lowering.network import Network, TimingParams
from tests.oracle.build import NetBuilder
from tests.oracle.example import Example, payload_tokens, tile_tokens
from tests.oracle.payloads import selector, tile

__all__ = ["OPERATOR_EXAMPLES", "freed_by_a_failure", "parked_producer"]

_BF16 = [16, 16, 2, 0]


def back_pressure(capacity: int, stamps: list[int]) -> Example:
    """Zero-work producer and consumer: C tokens per two cycles."""
    b = NetBuilder(capacity=capacity)
    b.unit("source", "Src", [], ["a"], tokens=tile_tokens(_BF16, [0] * 6), n=0, tail=0)
    b.unit("sink", "Hold", ["a"], [], n=0)
    return Example(f"back-pressure, capacity {capacity}", b.network(), stamps={"a": stamps})


def chain() -> Example:
    """Load, map and store-like chain; every channel of capacity 2."""
    b = NetBuilder(capacity=2)
    b.unit("source", "Src", [], ["a"], tokens=tile_tokens([16, 16, 2, 1], [0, 0, 1]), n=4, tail=0)
    b.unit("map", "UnaryMap", ["a"], ["b"], fn="Silu", bw=205, wb=True)
    b.unit("sink", "Hold", ["b"], [], n=20)
    return Example(
        "chain",
        b.network(),
        stamps={"a": [5, 9, 17], "b": [16, 26, 38]},
        slots_free={"a": [16, 26, 38], "b": [37, 57, 77]},
        final_clock={"source": 16, "map": 37, "sink": 76},
        cycles=76,
    )


def reshape_padding() -> Example:
    """Padding on a stop, with back-pressure."""
    b = NetBuilder()
    b.unit("source", "Gen", [], ["a"], tokens=tile_tokens(_BF16, [0, 0, 0, 1]))
    b.channel("b", 2)
    b.unit(
        "reshape", "Reshape", ["a"], ["b"], s=0, q=3, pad=[16, 16], bpe=2, ri=1, outer=False
    )  # fmt: skip
    b.unit("sink", "Consumer", ["b"], [])
    data, pad = tile(16, 16, 2, 0, 16), tile(16, 16, 2, 0, 0)
    return Example(
        "reshape, padding on a stop",
        b.network(),
        stamps={"b": [2, 3, 4, 5, 6, 7]},
        levels={"b": [0, 0, 1, 0, 0, 2]},
        payloads={"b": [data, data, data, data, pad, pad]},
        slots_free={"b": [3, 4, 5, 6, 7, 8]},
        final_clock={"reshape": 6, "sink": 8},
    )


def reshape_look_ahead() -> Example:
    """The last token of a chunk is withheld until the next one arrives."""
    b = NetBuilder()
    times = [0, 1, 9, 10]
    b.unit("source", "At", [], ["a"], tokens=tile_tokens(_BF16, [0] * 4), times=times, tail=0)
    b.unit("reshape", "Reshape", ["a"], ["b"], s=0, q=2, bpe=2, ri=0, outer=True)
    b.unit("sink", "Consumer", ["b"], [])
    return Example(
        "reshape, look-ahead",
        b.network(),
        stamps={"b": [2, 11, 11, 12]},
        levels={"b": [0, 1, 0, 2]},
    )


def reshape_padding_at_closure() -> Example:
    """The source never waits, so its long tail is not visible to the closure."""
    b = NetBuilder()
    tokens = tile_tokens(_BF16, [0] * 4)
    b.unit("source", "At", [], ["a"], tokens=tokens, times=[0, 1, 2, 3], tail=17)
    b.unit("reshape", "Reshape", ["a"], ["b"], s=0, q=3, pad=[16, 16], bpe=2, ri=0, outer=False)
    b.unit("sink", "Consumer", ["b"], [])
    return Example(
        "reshape, padding at closure",
        b.network(),
        stamps={"b": [2, 3, 4, 5, 5, 5]},
        levels={"b": [0, 0, 1, 0, 0, 1]},
        final_clock={"source": 20, "reshape": 4},
    )


def closure_before_the_last_token(paced: bool) -> Example:
    """An output of a Partition closes before the last token leaves on the other output."""
    b = NetBuilder()
    op = "Paced" if paced else "At"
    tokens = tile_tokens([1, 64, 2, 1], [0, 0])
    b.unit("data", op, [], ["a"], tokens=tokens, times=[0, 29], tail=0)
    b.unit("choice", "SelectGen", [], ["s"], selectors=[[0], [1]], width=2, levels=[0, 0])
    b.unit("split", "Partition", ["a", "s"], ["o0", "o1"], rank=0, switch=[1, 1], wb=False)
    b.unit("reshape", "Reshape", ["o0"], ["r"], s=0, q=1, bpe=2, ri=0, outer=True)
    b.unit("sink0", "Consumer", ["r"], [])
    b.unit("sink1", "Consumer", ["o1"], [])
    return Example(
        f"closure before the last token, {op} source",
        b.network(),
        stamps={"o0": [5], "o1": [34], "r": [32 if paced else 6]},
        pubs={"o0": [2], "o1": [31 if paced else 2]},
        levels={"r": [2]},
        final_clock={"split": 33, "reshape": 31 if paced else 5},
    )


def repeat_into_matmul() -> Example:
    """A repeated operand meets a slower second operand."""
    b = NetBuilder(capacity=2)
    b.unit("source", "Gen", [], ["a"], tokens=tile_tokens(_BF16, [0, 1]))
    b.unit("repeat", "RepeatStatic", ["a"], ["x1"], f=3)
    b.channel("x2", None)
    tokens = tile_tokens([16, 16, 2, 1], [0, 0, 1, 0, 0, 2])
    times = [5, 11, 17, 23, 29, 35]
    b.unit("weights", "At", [], ["x2"], tokens=tokens, times=times, tail=0)
    b.unit(
        "matmul", "BinaryMap", ["x1", "x2"], ["y"], fn=["Matmul", False], bw=1024, wb=False
    )  # fmt: skip
    b.unit("sink", "Consumer", ["y"], [])
    freed = [15, 23, 31, 39, 47, 55]
    return Example(
        "repeat into a matmul",
        b.network(),
        stamps={
            "x1": [2, 2, 16, 24, 32, 40],
            "x2": [6, 12, 18, 24, 30, 36],
            "y": [15, 23, 31, 39, 47, 55],
        },
        levels={"y": [0, 0, 1, 0, 0, 2]},
        slots_free={"x1": freed, "x2": freed, "a": [19, 43]},
        final_clock={"repeat": 42, "matmul": 54, "sink": 56},
    )


def eager_merge(paced: bool) -> Example:
    """Two streams of chunks, merged by arrival; the selector follows publication."""
    b = NetBuilder()
    op = "Paced" if paced else "At"
    x, y = tile_tokens([1, 16, 2, 0], [0, 1, 1]), tile_tokens([2, 16, 2, 0], [0, 1])
    b.unit("x", op, [], ["in0"], tokens=x, times=[4, 8, 29], tail=0)
    b.unit("y", op, [], ["in1"], tokens=y, times=[6, 7], tail=0)
    b.unit("merge", "EagerMerge", ["in0", "in1"], ["data", "sel"], rank=1)
    b.unit("sink0", "Consumer", ["data"], [])
    b.unit("sink1", "Consumer", ["sel"], [])
    return Example(
        f"eager merge, {op} sources",
        b.network(),
        stamps={"data": [6, 10, 10, 11, 31], "sel": [6, 10, 31] if paced else [2, 10, 11]},
        levels={"data": [0, 1, 0, 1, 1], "sel": [0, 0, 0]},
        payloads={"sel": [selector([0], 2), selector([1], 2), selector([0], 2)]},
        final_clock={"merge": 30},
    )


def reassemble(paced: bool) -> Example:
    """A two-hot selector, then a one-hot one, with write-back of 2 cycles per tile."""
    b = NetBuilder()
    op = "Paced" if paced else "At"
    names = {"p": ([19, 23], [0, 1]), "r": ([14], [1]), "q": ([9], [1])}
    for i, (name, (times, levels)) in enumerate(names.items()):
        tokens = tile_tokens([1, 64, 2, 0], levels)
        b.unit(name, op, [], [f"in{i}"], tokens=tokens, times=times, tail=0)
    choices = payload_tokens([selector([0, 2], 3), selector([1], 3)], [0, 1])
    b.unit("choice", "At", [], ["s"], tokens=choices, times=[1, 2], tail=0)
    inputs = ["in0", "in1", "in2", "s"]
    b.unit("join", "Reassemble", inputs, ["out"], rank=1, switch=[1, 1, 1], wb=True)
    b.unit("sink", "Consumer", ["out"], [])
    return Example(
        f"reassemble, {op} sources",
        b.network(),
        stamps={"out": [23, 25, 27, 29] if paced else [14, 24, 27, 29]},
        levels={"out": [1, 0, 2, 3]},
        slots_free={"in2": [21 if paced else 12], "in0": [23, 25] if paced else [22, 25]},
        final_clock={"join": 28},
    )


def broadcast() -> Example:
    """The slower target gates both; all channels of capacity 1."""
    b = NetBuilder(capacity=1)
    b.unit("source", "Gen", [], ["a"], tokens=tile_tokens(_BF16, [0] * 4))
    b.unit("fan", "Broadcast", ["a"], ["x", "y"])
    b.unit("fast", "Consumer", ["x"], [])
    b.channel("z", None)
    # A sink with add(5): it takes the token, then works for 5 cycles.
    shape = {"dims": [1], "tile": ["rows", "cols"], "cycles": 5}
    b.unit("slow", "FlatMap", ["y"], ["z"], **shape)
    b.unit("rest", "Consumer", ["z"], [])
    return Example(
        "broadcast",
        b.network(),
        stamps={"a": [1, 3, 5, 7], "x": [2, 4, 9, 14], "y": [2, 4, 9, 14]},
        slots_free={"a": [2, 4, 6, 9], "x": [3, 5, 10, 15], "y": [3, 8, 13, 18]},
    )


def load_store(tiles: int, rows: int, par: int, stamps: list[int], ends: list[int]) -> Example:
    """A load feeding a store through a FIFO of 2, two memory channels."""
    b = NetBuilder(TimingParams(hbm_channels=2), capacity=2)
    b.unit("load", "OffChipLoad", [], ["a"], tile=[rows, 32], view=[tiles], par=par, bpe=2)
    b.unit("store", "OffChipStore", ["a"], [], tile=[rows, 32], par=par)
    return Example(
        f"load and store of {tiles} tiles",
        b.network(),
        stamps={"a": stamps},
        slots_free={"a": [end + 1 for end in ends]},
        final_clock={"store": ends[-1]},
        cycles=ends[-1] + 3,
    )


def bufferize(times: list[int], stamp: int, freed: list[int]) -> Example:
    """A buffer is stamped one cycle after its last token was taken."""
    b = NetBuilder()
    tokens = tile_tokens(_BF16, [0, 0, 1])
    b.unit("source", "At", [], ["a"], tokens=tokens, times=times, tail=0)
    b.unit("collect", "Bufferize", ["a"], ["b"], rank=1)
    b.unit("sink", "Consumer", ["b"], [])
    return Example(
        f"bufferize of tokens at {times}",
        b.network(),
        stamps={"b": [stamp]},
        levels={"b": [0]},
        payloads={"b": [{"buffer": [3], "tiles": [tile(16, 16, 2, 0, 16)] * 3}]},
        slots_free={"a": freed},
    )


def partition() -> Example:
    """One two-hot selector: load, then one switch cycle for both outputs."""
    b = NetBuilder()
    tokens = tile_tokens([1, 64, 2, 1], [0])
    b.unit("data", "At", [], ["a"], tokens=tokens, times=[0], tail=0)
    b.unit("choice", "SelectGen", [], ["s"], selectors=[[0, 1]], width=2, levels=[0])
    b.unit("split", "Partition", ["a", "s"], ["o0", "o1"], rank=0, switch=[1, 1], wb=False)
    b.unit("sink0", "Consumer", ["o0"], [])
    b.unit("sink1", "Consumer", ["o1"], [])
    out = [tile(1, 64, 2, 0, 1)]
    return Example(
        "partition",
        b.network(),
        stamps={"o0": [5], "o1": [5]},
        payloads={"o0": out, "o1": out},
        slots_free={"a": [4]},
        final_clock={"split": 4},
    )


def buffer_pipeline(
    name: str, depths: tuple[int, int, int], buffers: int, passes: int,
    emits: list[int], outputs: list[int], released: list[int],
) -> Example:  # fmt: skip
    """Source, Bufferize, Streamify and consumer; 4-tile buffers, one tile per cycle at each end."""
    b = NetBuilder()
    for channel, depth in zip("abs", depths, strict=True):
        b.channel(channel, depth)
    tokens = tile_tokens(_BF16, [0, 0, 0, 1] * buffers)
    b.unit("source", "Gen", [], ["a"], tokens=tokens)
    b.unit("collect", "Bufferize", ["a"], ["b"], rank=1)
    b.unit("stream", "Streamify", ["b"], ["s"], rank=1, repeat=[passes] if passes > 1 else [])
    b.unit("sink", "Consumer", ["s"], [])
    return Example(
        name,
        b.network(),
        stamps={"b": [e + 1 for e in emits], "s": [s + 1 for s in outputs]},
        slots_free={"b": [u + 1 for u in released]},
    )


def parked_producer() -> Example:
    """A producer that finds its FIFO full at its pace sleeps with its work in its clock (7.7)."""
    b = NetBuilder(TimingParams(hbm_channels=8), capacity=1)
    chosen = {"selectors": [[0, 1], [1], [0, 1], [0, 1]], "width": 2, "levels": [0, 0, 0, 1]}
    b.unit("load", "OffChipLoad", [], ["a"], tile=[2, 32], view=[4], par=2, bpe=2)
    b.unit("to", "SelectGen", [], ["s"], **chosen)
    b.unit("from", "SelectGen", [], ["t"], **chosen)
    b.unit("split", "Partition", ["a", "s"], ["x", "y"], rank=0, switch=[1, 1], wb=False)
    b.unit("silu", "UnaryMap", ["y"], ["z"], fn="Silu", bw=1, wb=False)
    b.unit("join", "Reassemble", ["x", "z", "t"], ["out"], rank=0, switch=[1, 1], wb=False)
    b.unit("store", "OffChipStore", ["out"], [], tile=[2, 32], par=2)
    return Example(
        "a producer that parks",
        b.network(),
        stamps={
            "a": [20, 39, 58, 541], "x": [24, 541, 1055], "y": [24, 538, 1052, 1566],
            "z": [537, 1051, 1565, 2079], "out": [26, 539, 1053, 1074, 1567, 2080, 2101],
        },
        pubs={
            "a": [20, 39, 58, 77], "x": [21, 59, 1055], "y": [21, 40, 59, 1055],
            "z": [22, 41, 60, 1095], "out": [23, 47, 560, 1074, 1095, 1588, 2101],
        },
        final_clock={"load": 540, "split": 1565, "silu": 2078, "join": 2100, "store": 2120},
        cycles=2123,
    )  # fmt: skip


def freed_by_a_failure() -> Network:
    """The consumer of a parked producer fails; its clock had reached that of the producer."""
    b = NetBuilder(TimingParams(onchip_bytes_per_cycle=64), capacity=4)
    for channel in ("held", "appended"):
        b.channel(channel, 1)
    rows = [[4, 16, 2, 0, 1]] * 7
    added = [[1, 16, 2, 0, valid] for valid in (0, 1, 0, 0, 0, 1, 0)]
    for name, tiles, levels in (
        ("held", rows, [2, 0, 0, 1, 0, 0, 1]), ("added", added, [2, 0, 0, 0, 0, 1, 3]),
    ):  # fmt: skip
        tokens = [{"tile": t, "level": level} for t, level in zip(tiles, levels, strict=True)]
        b.unit(f"source of {name}", "Gen", [], [name], tokens=tokens)
    b.unit("append", "BinaryMap", ["held", "added"], ["appended"], fn=["RowWiseAppend"], bw=16,
           wb=True)  # fmt: skip
    late = [{"tile": [1, 1, 8, 0, 1], "value": 7, "level": 0}]
    b.unit("late", "Paced", [], ["late"], tokens=late, times=[0], tail=60)
    b.unit("both", "Zip", ["appended", "late"], ["pairs"])
    b.unit("sink", "Consumer", ["pairs"], [])
    return b.network()


OPERATOR_EXAMPLES = [
    back_pressure(1, [1, 3, 5, 7, 9, 11]),
    back_pressure(2, [1, 1, 3, 3, 5, 5]),
    back_pressure(3, [1, 1, 1, 3, 3, 3]),
    chain(),
    reshape_padding(),
    reshape_look_ahead(),
    reshape_padding_at_closure(),
    closure_before_the_last_token(paced=True),
    closure_before_the_last_token(paced=False),
    repeat_into_matmul(),
    eager_merge(paced=True),
    eager_merge(paced=False),
    reassemble(paced=True),
    reassemble(paced=False),
    broadcast(),
    load_store(1, 1, 1, [20], [39]),
    load_store(3, 4, 2, [22, 43, 64], [46, 67, 88]),
    bufferize([0, 1, 2], 4, [2, 3, 4]),
    bufferize([0, 0, 0], 4, [2, 3, 4]),
    partition(),
    parked_producer(),
    buffer_pipeline(
        "O1", (2, 1, 2), 2, 1, [4, 10], [5, 6, 7, 8, 11, 12, 13, 14], [9, 15]
    ),
    buffer_pipeline(
        "O2", (1, 1, 1), 2, 1, [7, 16], [8, 10, 12, 14, 17, 19, 21, 23], [15, 24]
    ),
    buffer_pipeline(
        "O3", (2, 1, 2), 3, 2, [4, 14, 24],
        [*range(5, 13), *range(15, 23), *range(25, 33)], [13, 23, 33],
    ),
]  # fmt: skip
