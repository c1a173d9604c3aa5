"""FIFOs between places of a network on chip: carriers that take their tokens from one to another.

A FIFO whose ends lie at different places becomes, for every network route on its way, a FIFO in
front of the network, a unit that sends packets, a FIFO of the tokens under way and a unit that
receives them. The FIFO itself stays with its consumer, with its name, its number and its depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stepsim.errors import LoweringError
from stepsim.kernels import MOST_PACKETS, MOST_PORTS
from stepsim.lowering.network import Carriage, ChannelSpec, Network, UnitSpec

Path = tuple[int, ...]
"""Ports of a route: injection, links, ejection."""

SEND: Final = "SendPacket"
RECEIVE: Final = "ReceivePacket"
"""Units at both ends of a route."""

INTERFACE_DEPTH: Final = 2
"""Tokens that wait for the network with their producer: as few as do not slow it down."""


def with_carriers(network: Network, carriage: Carriage, ways: Sequence[Sequence[Path]]) -> Network:
    """The network with carriers on its FIFOs.

    Parameters
    ----------
    ways : of every FIFO, the routes that its tokens take one after the other; none where producer
        and consumer are at one place.

    Raises
    ------
    LoweringError
        A route has too many ports, or too many tokens may be under way.
    """
    units, channels = list(network.units), list(network.channels)
    producer = {c: u for u, unit in enumerate(units) for c in unit.outputs}
    carriers: list[UnitSpec] = []
    under_way = 0
    for c, way in enumerate(ways):
        name, source, origin = channels[c].name, producer[c], units[producer[c]].origin
        for leg, path in enumerate(way):
            if len(path) > MOST_PORTS:
                raise LoweringError(
                    f"FIFO '{name}': its route over the network has {len(path)} ports; at most "
                    f"{MOST_PORTS} are supported. Place its ends nearer to each other"
                )
            suffix = "" if len(way) == 1 else f" {leg + 1}"
            first = len(channels)
            window = carriage.crossing(path) + INTERFACE_DEPTH
            under_way += window
            channels.append(ChannelSpec(f"{name}: to network{suffix}", INTERFACE_DEPTH))
            channels.append(ChannelSpec(f"{name}: under way{suffix}", window))
            last = leg == len(way) - 1
            to = c if last else first + 2
            if leg == 0:
                unit = units[source]
                outputs = tuple(first if out == c else out for out in unit.outputs)
                units[source] = replace(unit, outputs=outputs)
            number = len(units) + len(carriers)
            route = len(carriers) // 2
            carriers.append(
                UnitSpec(
                    f"{name}: send{suffix}", SEND, (first,), (first + 1,),
                    {"route": route, "receiver": number + 1, "path": path, "fifo": name}, origin,
                )
            )  # fmt: skip
            carriers.append(
                UnitSpec(
                    f"{name}: receive{suffix}", RECEIVE, (first + 1,), (to,),
                    {"route": route}, origin,
                )
            )  # fmt: skip
    if not carriers:
        return network
    if under_way > MOST_PACKETS:
        raise LoweringError(
            f"{under_way:,} tokens may be under way on the network at once; at most "
            f"{MOST_PACKETS:,} are supported. Place operators nearer to each other"
        )
    return replace(network, units=(*units, *carriers), channels=tuple(channels), carriage=carriage)
