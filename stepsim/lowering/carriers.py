"""FIFOs between places of a network on chip, or between chips: carriers that take their tokens from
one to another.

A FIFO whose ends lie at different places becomes, for every network route on its way, a FIFO in
front of the network, a unit that sends packets or messages, a FIFO of the tokens under way and a
unit that receives them. The FIFO itself stays with its consumer, with its name, its number and its
depth. FIFOs that carry the same tokens may begin with one tree: a unit that sends to all of them.
Units and FIFOs of several routes of a FIFO are numbered from 1; those behind a tree from 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from stepsim.errors import LoweringError
from stepsim.frozen import NamedTuple, frozen
from stepsim.kernels import MOST_PACKETS, MOST_PORTS
from stepsim.lowering.network import (
    Carriage,
    ChannelSpec,
    ChipLinks,
    Network,
    UnitSpec,
)

Path = tuple[int, ...]
"""Ports of a route: injection, links, ejection."""

SEND: Final = "SendPacket"
RECEIVE: Final = "ReceivePacket"
MULTICAST: Final = "MulticastPacket"
"""Units at the ends of routes."""

SEND_MESSAGE: Final = "SendMessage"
RECEIVE_MESSAGE: Final = "ReceiveMessage"
"""Units at both ends of a route between chips."""

CARRIERS: Final = frozenset({SEND, MULTICAST, RECEIVE, SEND_MESSAGE, RECEIVE_MESSAGE})
"""Operators of all carriers; they alone read the FIFOs that a network adds."""

# A third of the time that their constructors take, of which a large program calls ten thousands.
_unit: Final[Callable[[tuple[Any, ...]], UnitSpec]] = partial(tuple.__new__, UnitSpec)
_channel: Final[Callable[[tuple[str, int]], ChannelSpec]] = partial(tuple.__new__, ChannelSpec)

INTERFACE_DEPTH: Final = 2
"""Tokens that wait for the network with their producer: as few as do not slow it down."""


@frozen
class Tree:
    """The route of a stream to several readers.

    Attributes
    ----------
    fifos : the FIFO of every reader; those of readers at one place are next to each other.
    path : ports: injection, then the outputs that packets take, those of one router next to each
        other and behind those that lead to it.
    before : place in ``path`` of what leads to the router of each output; -1 for the injection.
    ends : place in ``path`` of the ejection to every reader.
    """

    fifos: tuple[int, ...]
    path: Path
    before: tuple[int, ...]
    ends: tuple[int, ...]

    def depth(self, reader: int) -> int:
        """Ports on the way to a reader."""
        at, count = self.ends[reader], 0
        while at >= 0:
            at, count = self.before[at], count + 1
        return count


def with_carriers(
    network: Network,
    carriage: Carriage,
    ways: Sequence[Sequence[Path]],
    trees: Sequence[Tree] = (),
) -> Network:
    """The network with carriers on its FIFOs.

    Parameters
    ----------
    ways : of every FIFO, the routes that its tokens take one after the other; none where producer
        and consumer are at one place. Those of a tree take it before.
    trees : of FIFOs with the same producer, which sends the same tokens to all of them.

    Raises
    ------
    LoweringError
        A route has too many ports, or too many tokens may be under way.
    """
    made = _Carriers(network, (SEND, RECEIVE))
    lengths = {len(path) for way in ways for path in way}
    if max(lengths, default=0) > MOST_PORTS:
        for c, way in enumerate(ways):
            for path in way:
                _check_ports(network.channels[c].name, len(path))
    for tree in trees:
        _check_ports(network.channels[tree.fifos[0]].name, len(tree.path) + len(tree.fifos))
    window = {length: _window(carriage, length) for length in lengths}
    legs = [[_Leg(path, window[len(path)]) for path in way] for way in ways]
    of_tree = {c for tree in trees for c in tree.fifos}
    for c, route in enumerate(legs):
        if c not in of_tree and route:
            made.leave_by(c, route)
    for tree in trees:
        windows = [_window(carriage, tree.depth(reader)) for reader in range(len(tree.fifos))]
        made.spread(tree, windows, [made.along(c, legs[c], 1) for c in tree.fifos])
    under_way = made.under_way
    if under_way > MOST_PACKETS:
        raise LoweringError(
            f"{under_way:,} tokens may be under way on the network at once; at most "
            f"{MOST_PACKETS:,} are supported. State flits.window of the network, or place "
            "operators nearer to each other"
        )
    if not under_way:
        return network
    return replace(made.network(), carriage=replace(carriage, routes=made.routes))


def _check_ports(name: str, ports: int) -> None:
    if ports > MOST_PORTS:
        raise LoweringError(
            f"FIFO '{name}': its route over the network has {ports} ports; at most {MOST_PORTS} "
            "are supported. Place its ends nearer to each other"
        )


def _window(carriage: Carriage, ports: int) -> int:
    """Tokens of a stream that may be under way on a route of so many ports."""
    window = carriage.crossing(range(ports)) + INTERFACE_DEPTH
    return window if carriage.window is None else min(window, carriage.window)


def with_messages(
    network: Network, between: ChipLinks, paths: Sequence[Path], token_bytes: Sequence[int]
) -> Network:
    """The network with its units on several chips, and carriers on the FIFOs between them.

    Parameters
    ----------
    between : chips of the units of ``network``, and the links.
    paths : links of the route of every FIFO; none where both ends are on one chip.
    token_bytes : least bytes of a token of every FIFO, by which the number of those under way is
        chosen.
    """
    windows = {
        key: between.window(*key) + INTERFACE_DEPTH
        for key in set(zip(paths, token_bytes, strict=True))
        if key[0]
    }
    made = _Carriers(network, (SEND_MESSAGE, RECEIVE_MESSAGE))
    chips = list(between.units)
    consumer = {c: u for u, unit in enumerate(network.units) for c in unit.inputs}
    for c, path in enumerate(paths):
        if path:
            made.leave_by(c, [_Leg(path, windows[path, token_bytes[c]])])
            chips += [between.units[made.producer[c]], between.units[consumer[c]]]
    return replace(made.network(), between=replace(between, units=tuple(chips)))


class _Leg(NamedTuple):
    """One route on the way of a FIFO, and how many tokens may be under way on it."""

    path: Path
    window: int


class _Carriers:
    """Collects the units and FIFOs of carriers."""

    def __init__(self, network: Network, ends: tuple[str, str]) -> None:
        self._network = network
        self._send, self._receive = ends
        self._units, self._channels = list(network.units), list(network.channels)
        self._carriers: list[UnitSpec] = []
        self.routes = self.under_way = 0
        self._instead: dict[int, int | None] = {}
        """Of FIFOs that units no longer send to: what they send to, None for nothing more."""
        self.producer = {c: u for u, unit in enumerate(network.units) for c in unit.outputs}

    def network(self) -> Network:
        """The network with what was collected."""
        units, instead = self._units, self._instead
        for u in {self.producer[c] for c in instead}:
            name, op, inputs, outputs, params, origin = units[u]
            sent = [instead.get(c, c) for c in outputs]
            units[u] = _unit(
                (name, op, inputs, tuple([c for c in sent if c is not None]), params, origin)
            )
        units += self._carriers
        return replace(self._network, units=tuple(units), channels=tuple(self._channels))

    def leave_by(self, c: int, way: Sequence[_Leg]) -> None:
        """Have what a unit sends to a FIFO take its way."""
        self._instead[c] = self.along(c, way)

    def along(self, c: int, way: Sequence[_Leg], behind: int = 0) -> int:
        """Carriers on the routes of a FIFO, ``behind`` so many others on its way; the number of the
        FIFO that tokens enter first."""
        name, origin = self._channels[c].name, self._network.units[self.producer[c]].origin
        first = here = len(self._channels) if way else c
        last = first + 2 * len(way) - 2
        suffix = ""
        route, receiver = self.routes, self._next_number + 1
        for leg, (path, window) in enumerate(way):
            if behind + len(way) > 1:
                suffix = f" {behind + leg + 1}"
            self._channels += (
                _channel((f"{name}: to network{suffix}", INTERFACE_DEPTH)),
                _channel((f"{name}: under way{suffix}", window)),
            )
            sent = {"route": route, "receiver": receiver, "path": path, "fifo": name}
            self._carriers += (
                _unit((f"{name}: send{suffix}", self._send, (here,), (here + 1,), sent, origin)),
                _unit((
                    f"{name}: receive{suffix}", self._receive, (here + 1,),
                    (c if here == last else here + 2,), {"route": route}, origin,
                )),
            )  # fmt: skip
            self.under_way += window
            route += 1
            receiver += 2
            here += 2
        self.routes = route
        return first

    def spread(self, tree: Tree, windows: Sequence[int], entries: Sequence[int]) -> None:
        """Carriers of a tree, whose readers go on from the FIFOs ``entries``."""
        producer = self._network.units[self.producer[tree.fifos[0]]]
        names = [self._channels[c].name for c in tree.fifos]
        first = len(self._channels)
        self._channels.append(ChannelSpec(f"{names[0]}: to network", INTERFACE_DEPTH))
        for name, window in zip(names, windows, strict=True):
            self._channels.append(ChannelSpec(f"{name}: under way", window))
        # Packets on the tree, and those that readers wait for.
        widest = max(windows)
        self.under_way += widest + sum(windows)
        sender = self._next_number
        under_way = tuple(range(first + 1, first + 1 + len(names)))
        self._carriers.append(
            UnitSpec(
                f"{names[0]}: send", MULTICAST, (first,), under_way,
                {
                    "route": self.routes, "path": tree.path, "before": tree.before,
                    "ends": tree.ends, "fifo": names[0], "packets": widest,
                    "receivers": tuple(range(sender + 1, sender + 1 + len(names))),
                },
                producer.origin,
            )
        )  # fmt: skip
        for reader, name in enumerate(names):
            route = self.routes + 1 + reader
            self._carriers.append(
                UnitSpec(
                    f"{name}: receive", self._receive, (under_way[reader],), (entries[reader],),
                    {"route": route}, producer.origin,
                )
            )  # fmt: skip
        self.routes += 1 + len(names)
        leaving = [c for c in producer.outputs if c in tree.fifos]
        self._instead.update(dict.fromkeys(leaving[1:]))
        self._instead[leaving[0]] = first

    @property
    def _next_number(self) -> int:
        return len(self._units) + len(self._carriers)
