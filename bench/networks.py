"""Synthetic networks for measuring the engine."""

from __future__ import annotations

from random import Random

import numpy as np

from stepsim.lowering import ChannelSpec, Network, TimingParams, UnitSpec

__all__ = ["chain", "ladder", "merge", "merge_at_once", "random_loads", "reassemble", "sources"]

_TOKEN = {"tile": [16, 16, 2, 0, 16], "level": 0}


def chain(units: int, tokens: int, depth: int, op: str = "UnaryMap") -> Network:
    """A source, ``units - 2`` equal stages and a sink, joined by FIFOs of one depth."""
    params = {
        "UnaryMap": {"fn": "Silu", "bw": 1024, "wb": False},
        "Flatten": {"lo": 0, "hi": 1},
        "Broadcast": {},
    }[op]
    stages = [UnitSpec(f"stage{i}", op, (i,), (i + 1,), params) for i in range(units - 2)]
    source = UnitSpec("source", "Gen", (), (0,), {"tokens": [_TOKEN] * tokens})
    sink = UnitSpec("sink", "Consumer", (units - 2,), (), {})
    channels = tuple(ChannelSpec(f"c{i}", depth) for i in range(units - 1))
    return Network((source, *stages, sink), channels)


def merge_at_once(inputs: int, tokens: int, depth: int = 8) -> Network:
    """Sources of ``tokens`` tokens in all, one EagerMerge and its sinks."""
    given = {"tokens": [_TOKEN] * (tokens // inputs)}
    units = [UnitSpec(f"source{i}", "Gen", (), (i,), given) for i in range(inputs)]
    out, which = inputs, inputs + 1
    units.append(UnitSpec("merge", "EagerMerge", tuple(range(inputs)), (out, which), {"rank": 0}))
    units += [UnitSpec(f"sink{c}", "Consumer", (c,), (), {}) for c in (out, which)]
    return Network(tuple(units), tuple(ChannelSpec(f"c{i}", depth) for i in range(inputs + 2)))


def reassemble(inputs: int, tokens: int, chosen: int, random: Random, depth: int = 8) -> Network:
    """One Reassemble of ``tokens`` tokens in all; each selector chooses so many of the inputs.

    The tokens of an input come at random times.
    """
    selectors = [sorted(random.sample(range(inputs), chosen)) for _ in range(tokens // chosen)]
    counts = [0] * inputs
    for i in (i for one in selectors for i in one):
        counts[i] += 1
    units = []
    for i, count in enumerate(counts):
        times = sorted(random.randrange(20 * tokens) for _ in range(count))
        given = {"tokens": [_TOKEN] * count, "times": times, "tail": 0}
        units.append(UnitSpec(f"source{i}", "Paced", (), (i,), given))
    which, out = inputs, inputs + 1
    given = {"selectors": selectors, "width": inputs, "levels": [0] * len(selectors)}
    units.append(UnitSpec("selectors", "SelectGen", (), (which,), given))
    given = {"rank": 0, "switch": [1] * inputs, "wb": False}
    units.append(UnitSpec("join", "Reassemble", tuple(range(inputs + 1)), (out,), given))
    units.append(UnitSpec("sink", "Consumer", (out,), (), {}))
    return Network(tuple(units), tuple(ChannelSpec(f"c{i}", depth) for i in range(inputs + 2)))


def sources(units: int, tokens: int, form: str) -> Network:
    """Sources of ``tokens`` tokens in all, each with a sink; every tenth token ends a dim.

    The tokens are a "list" of dicts or an "array".
    """
    count = tokens // units
    ends = np.arange(count) % 10 // 9
    columns: list[tuple[str, type]] = [
        (name, np.int16) for name in ("rows", "cols", "bytes", "rd", "valid", "level")
    ]
    array = np.array([(16, 16, 2, 0, 16, 0)], columns).repeat(count)
    array["level"] = ends
    both = (_TOKEN, {**_TOKEN, "level": 1})
    given = (lambda: [both[end] for end in ends.tolist()]) if form == "list" else array.copy
    made = [UnitSpec(f"source{i}", "Gen", (), (i,), {"tokens": given()}) for i in range(units)]
    made += [UnitSpec(f"sink{i}", "Consumer", (i,), (), {}) for i in range(units)]
    return Network(tuple(made), tuple(ChannelSpec(f"c{i}", 2) for i in range(units)))


def ladder(rungs: int, tokens: int, depth: int) -> Network:
    """A source, equal rungs and a sink: each rung is a broadcast, a map on either side, a join."""
    unary = {"fn": "Silu", "bw": 1024, "wb": False}
    binary = {"fn": "Mul", "bw": 1024, "wb": False}
    units = [UnitSpec("source", "Gen", (), (0,), {"tokens": [_TOKEN] * tokens})]
    for i in range(rungs):
        c = 5 * i  # of the channel that comes in; the next rung's is c + 5
        units += [
            UnitSpec(f"fork{i}", "Broadcast", (c,), (c + 1, c + 2), {}),
            UnitSpec(f"left{i}", "UnaryMap", (c + 1,), (c + 3,), unary),
            UnitSpec(f"right{i}", "UnaryMap", (c + 2,), (c + 4,), unary),
            UnitSpec(f"join{i}", "BinaryMap", (c + 3, c + 4), (c + 5,), binary),
        ]
    units.append(UnitSpec("sink", "Consumer", (5 * rungs,), (), {}))
    channels = tuple(ChannelSpec(f"c{i}", depth) for i in range(5 * rungs + 1))
    return Network(tuple(units), channels)


def merge(inputs: int, tokens: int) -> Network:
    """Sources whose tokens come at random times, merged as they arrive."""
    random = np.random.default_rng(1)
    times = np.cumsum(random.integers(1, 2 * inputs, (inputs, tokens)), axis=1)
    units = [
        UnitSpec(
            f"source{i}", "At", (), (i,), {"tokens": [_TOKEN] * tokens, "times": times[i].tolist()}
        )
        for i in range(inputs)
    ]
    ports = tuple(range(inputs))
    units += [
        UnitSpec("merge", "EagerMerge", ports, (inputs, inputs + 1), {"rank": 0}),
        UnitSpec("data", "Consumer", (inputs,), (), {}),
        UnitSpec("selectors", "Consumer", (inputs + 1,), (), {}),
    ]
    channels = tuple(ChannelSpec(f"c{i}", 8) for i in range(inputs + 2))
    return Network(tuple(units), channels)


def random_loads(ports: int, tiles: int, memory_channels: int = 127) -> Network:
    """Loads of tiles of sizes drawn for every port, which contend for many channels."""
    random = np.random.default_rng(1)
    units = []
    for i in range(ports):
        rows, cols = (int(side) for side in random.integers(1, 200, 2))
        load = {"tile": [rows, cols], "view": [tiles], "par": 4, "bpe": 2}
        units.append(UnitSpec(f"load{i}", "OffChipLoad", (), (i,), load))
    units += [UnitSpec(f"sink{i}", "Consumer", (i,), (), {}) for i in range(ports)]
    channels = tuple(ChannelSpec(f"c{i}", 4) for i in range(ports))
    return Network(tuple(units), channels, TimingParams(hbm_channels=memory_channels))
