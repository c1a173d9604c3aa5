"""Small networks to lay out."""

from __future__ import annotations

from typing import Any

from stepsim.lowering import Network, TimingParams
from tests.oracle.build import NetBuilder

__all__ = ["TILE", "load_store", "one_unit", "source"]

TILE = [1, 1, 2, 0, 1]


def source(b: NetBuilder, channel: str, tile: list[int] | None = None) -> None:
    b.unit(f"src_{channel}", "Gen", [], [channel], tokens=[{"tile": tile or TILE, "level": 0}])


def one_unit(
    op: str,
    inputs: int = 1,
    outputs: int = 1,
    timing: TimingParams | None = None,
    drop: str = "",
    **params: Any,
) -> Network:
    """A unit named ``u`` between sources and consumers, without its parameter ``drop``."""
    b = NetBuilder(timing, capacity=2)
    for i in range(inputs):
        source(b, f"i{i}")
    kept = {name: value for name, value in params.items() if name != drop}
    b.unit("u", op, [f"i{i}" for i in range(inputs)], [f"o{i}" for i in range(outputs)], **kept)
    for i in range(outputs):
        b.unit(f"end{i}", "Consumer", [f"o{i}"], [])
    return b.network()


def load_store(timing: TimingParams | None = None, rows: int = 4, depth: int = 2) -> Network:
    b = NetBuilder(timing, capacity=depth)
    b.unit("load", "OffChipLoad", [], ["t"], tile=[rows, 32], view=[3], par=1, bpe=2)
    b.unit("map", "UnaryMap", ["t"], ["y"], fn="Silu", bw=64, wb=False)
    b.unit("store", "OffChipStore", ["y"], [], tile=[rows, 32], par=1)
    return b.network()
