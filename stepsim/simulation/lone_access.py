"""How long one access of the off-chip memory takes that has the memory to itself."""

from __future__ import annotations

from functools import lru_cache

from stepsim.kernels.driver import execute
from stepsim.kernels.layout import MAX_TILE_SIDE
from stepsim.lowering import ChannelSpec, Network, TimingParams, UnitSpec, build_image

__all__ = ["lone_access"]


@lru_cache(maxsize=4096)
def lone_access(timing: TimingParams, requests: int, bundle: int) -> int:
    """Cycles from the issue of an access to its completion while nobody else uses the memory.

    It is run by the memory model of the machine, whichever that is.

    Parameters
    ----------
    requests : of the access, at least one.
    bundle : requests that are issued per cycle.
    """
    rows = next(rows for rows in range(min(requests, MAX_TILE_SIDE), 0, -1) if requests % rows == 0)
    tile = [rows, requests // rows * timing.request_bytes]
    load = {"tile": tile, "view": [1], "par": bundle, "bpe": 1}
    units = (
        UnitSpec("load", "OffChipLoad", (), (0,), load),
        UnitSpec("end", "Consumer", (0,), (), {}),
    )
    run = execute(build_image(Network(units, (ChannelSpec("tile", 1),), timing)))
    return int(run.units["memory"][0])
