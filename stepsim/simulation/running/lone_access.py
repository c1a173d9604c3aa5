"""The duration of an access to an otherwise idle off-chip memory."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from stepsim.kernels import MAX_TILE_SIDE, PortAccess, execute
from stepsim.lowering import ChannelSpec, Network, TimingParams, UnitSpec, build_image


class AccessParts(NamedTuple):
    """What an access took, in cycles: the parts add up to its length, in the order of time."""

    transfer: int
    queue: int
    latency: int


@lru_cache(maxsize=4096)
def lone_access(timing: TimingParams, requests: int, bundle: int) -> int:
    """Cycles from the issue of an access to its completion while nobody else uses the memory.

    It is run by the memory model of the machine, whichever that is; with addresses, from the first
    byte on.

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
    size = requests * timing.request_bytes
    whole = PortAccess(base=0, rows=1, columns=1, pitch=size, row_bytes=size)
    network = Network(units, (ChannelSpec("tile", 1),), timing, {"load": whole})
    run = execute(build_image(network))
    return int(run.units["memory"][0])


def access_parts(timing: TimingParams, requests: int, bundle: int, length: int) -> AccessParts:
    """An access in parts: what one request takes on an idle memory, what the others take there,
    and waiting for the requests of other units.

    Parameters
    ----------
    requests, bundle : as of `lone_access`; an access of no request of its own, whose tile is in
        one that is under way, waits for that.
    length : of the access, in cycles.
    """
    requests = max(requests, 1)
    queue = max(0, length - lone_access(timing, requests, bundle))
    latency = min(length - queue, lone_access(timing, 1, bundle))
    return AccessParts(length - queue - latency, queue, latency)
