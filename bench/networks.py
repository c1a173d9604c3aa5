"""Synthetic networks for measuring the engine."""

from __future__ import annotations

from stepsim.lowering import ChannelSpec, Network, UnitSpec

__all__ = ["chain"]


def chain(units: int, tokens: int, depth: int, op: str = "UnaryMap") -> Network:
    """A source, ``units - 2`` equal stages and a sink, joined by FIFOs of one depth."""
    token = {"tile": [16, 16, 2, 0, 16], "level": 0}
    params = {
        "UnaryMap": {"fn": "Silu", "bw": 1024, "wb": False},
        "Flatten": {"lo": 0, "hi": 1},
        "Broadcast": {},
    }[op]
    stages = [UnitSpec(f"stage{i}", op, (i,), (i + 1,), params) for i in range(units - 2)]
    source = UnitSpec("source", "Gen", (), (0,), {"tokens": [token] * tokens})
    sink = UnitSpec("sink", "Consumer", (units - 2,), (), {})
    channels = tuple(ChannelSpec(f"c{i}", depth) for i in range(units - 1))
    return Network((source, *stages, sink), channels)
