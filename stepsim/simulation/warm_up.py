"""Compile the engine, or load it from the cache, before the first run."""

from __future__ import annotations

import time

from stepsim.kernels.driver import execute
from stepsim.kernels.jit import is_compiled
from stepsim.lowering import ChannelSpec, Network, UnitSpec, build_image

__all__ = ["ensure_compiled", "warm_up"]


def ensure_compiled() -> None:
    """Compile the engine unless it is on disk, so that other processes need only load it."""
    if not is_compiled():
        warm_up()


def warm_up() -> float:
    """Compile the engine or load it from the cache; seconds that a first tiny run took."""
    network = Network(
        units=(
            UnitSpec(
                "load", "OffChipLoad", (), (0,), {"tile": [1, 1], "view": [1], "par": 1, "bpe": 2}
            ),
            UnitSpec("store", "OffChipStore", (0,), (), {"tile": [1, 1], "par": 1}),
        ),
        channels=(ChannelSpec("tiles", 2),),
    )
    image = build_image(network)
    begin = time.perf_counter()
    execute(image)
    return time.perf_counter() - begin
