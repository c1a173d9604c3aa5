"""Programs that are placed: their FIFOs as routes over the network on chip of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import shown
from stepsim.collection import without_collection
from stepsim.deferred import deferred
from stepsim.errors import ArgError
from stepsim.graph import Program, Wiring
from stepsim.kernels import loads_of, network_words
from stepsim.lowering import MULTICAST, SEND, Carriage, Network, Path, Tree, UnitSpec, with_carriers
from stepsim.machine import Machine, Network as MachineNetwork
from stepsim.results import PASSED, Events, records_by
from stepsim.simulation.programs.link_use import LinkUse

if TYPE_CHECKING:
    import pyarrow as pa

    from stepsim import noc
    from stepsim.simulation.recording.record import Record
else:
    noc = deferred("stepsim.noc")


AUTO_PLACE: Final = "auto"
"""Given in place of a placement: one that a search finds."""

ROW_MAJOR: Final = "row-major"
"""Given in place of a placement: operators in their order, row by row."""

_OF_GRID: Final = ("topology", "rows", "cols", "routing", "links", "cores")

Place: TypeAlias = "noc.Placement | noc.PlacementFile | str | PathLike[str]"
"""A placement, its file, or the word for one."""


def carrying_network(program: Program, machine: Machine) -> MachineNetwork:
    """The network on chip of a machine, which a placed program runs on.

    Raises
    ------
    ArgError
        The machine has no network on chip, or one without flits.
    """
    where = f"program '{program.name}', place"
    network = machine.noc
    if network is None:
        raise ArgError(
            f"{where}: machine '{machine.name}' has no network on chip; state its section noc"
        )
    if network.flits is None or network.flits.flit_bytes is None:
        lacks = "flits" if network.flits is None else "flits.flit_bytes"
        raise ArgError(
            f"{where}: the network '{network.name}' of machine '{machine.name}' states no {lacks}, "
            "which tokens of programs are cut into; state it"
        )
    return network


def placement_of(program: Program, machine: Machine, place: Place) -> noc.Placement:
    """The placement that a program is simulated with.

    Raises
    ------
    ArgError
        As `carrying_network`; the placement is for another program or network, or its file cannot
        be read.
    """
    where, network = f"program '{program.name}', place", carrying_network(program, machine)
    if isinstance(place, str) and place.partition(",")[0] == AUTO_PLACE:
        raise ArgError(
            f"{where}: '{place}' is for the command line; here, give place=st.place(program, "
            "machine).placement"
        )
    if isinstance(place, str) and place == ROW_MAJOR:
        return noc.Placement.row_major(program, network)
    if isinstance(place, noc.PlacementFile):
        return place.placed(program, network)
    if isinstance(place, str | PathLike):
        return noc.Placement.from_yaml(place, program, network)
    if not isinstance(place, noc.Placement):
        raise ArgError(
            f"{where}: expected a stepsim.noc.Placement or the path of its file, found "
            f"{shown(place)}"
        )
    if place.network != network and _grid(place.network) == _grid(network):
        # Where operators may be does not depend on the width and delays of links.
        place = place.on(program, network)
    if place.network != network:
        raise ArgError(
            f"{where}: the placement is for the network '{place.network.name}', which is not that "
            f"of machine '{machine.name}'; place the program on machine.noc"
        )
    if set(place.operators) != set(noc.placed_operators(program)):
        raise ArgError(
            f"{where}: the placement is for a program with other operators; place this one"
        )
    return place


def _grid(network: MachineNetwork) -> tuple[object, ...]:
    """What the places of a network and the routes between them depend on."""
    return tuple(getattr(network, key) for key in _OF_GRID)


def described_place(place: Any) -> Any:
    """A placement as plain values: where operators and ports are; a word or a file as it is."""
    if isinstance(place, noc.Placement):
        operators = {
            name: tiles[0] if len(tiles) == 1 else list(tiles)
            for name, tiles in place.tiles.items()
        }
        return {"operators": operators, "ports": dict(place.ports)}
    return place.data if isinstance(place, noc.PlacementFile) else place and str(place)


class NetworkLoads:
    """What crossed the network on chip in a run."""

    def __init__(
        self, placement: noc.Placement, network: Network, scratch: NDArray[np.int64], cycles: int
    ) -> None:
        topology = noc.Topology(placement.network)
        self._topology, self._cycles = topology, cycles
        self._network, self._carriage = network, network.carriage
        ports = topology.port_count
        routes = 0 if self._carriage is None else self._carriage.routes
        # Without a route there are no words of a network.
        words = scratch if routes else np.zeros(network_words(ports, 0, 0, 0), np.int64)
        self._loads = loads_of(words, ports, routes)

    @cached_property
    def _senders(self) -> list[UnitSpec]:
        return _senders(self._network)

    @cached_property
    def routes(self) -> tuple[tuple[str, Path], ...]:
        """FIFO and ports of every route, in the order of the numbers of routes."""
        return routes_of(self._network)

    @property
    def has_packets(self) -> bool:
        """Whether anything crossed it."""
        return bool(self._loads.packets.any())

    def links(self) -> pa.Table:
        """A row for every link, in Arrow; see `Result.links`."""
        loads = self._loads
        packets, nbytes, flits = (
            self._by_port(amount) for amount in (loads.packets, loads.nbytes, loads.flits)
        )
        share = flits / max(self._cycles, 1)
        return noc.link_table(self._topology, packets, nbytes, flits, share, loads.waited)

    @property
    def summary(self) -> str | None:
        """A sentence on the busiest link; None where nothing crossed the network."""
        busiest = self.busiest()
        return None if busiest is None else busiest.sentence(self._cycles)

    def busiest(self) -> LinkUse | None:
        """The port that most flits passed; None where no packet crossed the network."""
        flits = self._by_port(self._loads.flits)
        if not flits.any():
            return None
        port = int(flits.argmax())
        of_senders = self._loads.flits[[bool(path) for _, path in self.routes]].tolist()
        through = [
            (amount, str(unit.params["fifo"]), *_around(unit, port))
            for amount, unit in zip(of_senders, self._senders, strict=True)
            if amount and port in unit.params["path"]
        ]
        ordered = sorted(through, key=lambda one: -one[0])
        count, nbytes = int(flits[port]), int(self._by_port(self._loads.nbytes)[port])
        streams = tuple(dict.fromkeys(fifo for _, fifo, *_ in ordered))
        bound = self._bound(count, min(one[2] for one in through), min(one[3] for one in through))
        return LinkUse(self._topology.port_name(port), count, "flits", nbytes, streams, bound)

    def _bound(self, flits: int, before: int, behind: int) -> int:
        """The time of a link for its flits, one a cycle: the first comes after so many ports in
        front of it, and the last goes through those behind it."""
        its = self._carriage
        assert its is not None  # flits have passed
        hop = its.router + its.wire
        first = its.inject + its.router + hop * (before - 1) if before else 0
        return first + flits + hop * behind

    def port_name(self, route: int, hop: int) -> str:
        """A port of a route in words."""
        return self._topology.port_name(self.routes[route][1][hop])

    def added_to(self, events: Events, record: Record) -> Events:
        """The events of a recorded run with what passed the ports of the network."""
        numbers = {name: number for number, name in enumerate(events.fifos)}
        lengths = [len(path) for _, path in self.routes]
        first = np.cumsum([0, *lengths])[:-1]
        ports = np.array([port for _, path in self.routes for port in path], np.int64)
        streams = np.array([numbers[fifo] for fifo, _ in self.routes], np.int64)
        flits = np.sort(record.flits, order="begin", kind="stable")
        flits = flits[flits["begin"] < events.cycles]  # a limit may end the run before others pass
        route = flits["route"]
        passed = records_by(
            "port", PASSED,
            port=ports[first[route] + flits["hop"]], fifo=streams[route], begin=flits["begin"],
            end=np.minimum(flits["end"], events.cycles),
        )  # fmt: skip
        names = tuple(map(self._topology.port_name, range(self._topology.port_count)))
        return replace(events, ports=names, passed=passed)

    def _by_port(self, amount: NDArray[np.int64]) -> NDArray[np.int64]:
        found = np.zeros(self._topology.port_count, np.int64)
        for (_, path), number in zip(self.routes, amount.tolist(), strict=True):
            found[list(path)] += number
        return found


def routes_of(network: Network) -> tuple[tuple[str, Path], ...]:
    """FIFO and ports of every route of a network with carriers; of the readers of a tree none."""
    found: list[tuple[str, Path]] = []
    for unit in _senders(network):
        found.append((str(unit.params["fifo"]), unit.params["path"]))
        if unit.op == MULTICAST:
            found += [(str(unit.params["fifo"]), ())] * len(unit.outputs)
    return tuple(found)


def _senders(network: Network) -> list[UnitSpec]:
    return [unit for unit in network.units if unit.op in (SEND, MULTICAST)]


def _around(sender: UnitSpec, port: int) -> tuple[int, int]:
    """Ports of a route in front of one and behind it; of a tree those to the nearest reader."""
    path: Path = sender.params["path"]
    before = sender.params.get("before", range(-1, len(path) - 1))
    ways = []
    for end in sender.params.get("ends", (len(path) - 1,)):
        way = [end]
        while way[-1] > 0:
            way.append(before[way[-1]])
        ways.append(way)
    at = path.index(port)
    behind, length = min((way.index(at), len(way)) for way in ways if at in way)
    return length - 1 - behind, behind


@without_collection()
def on_chip(network: Network, wiring: Wiring, placement: noc.Placement) -> Network:
    """The units of a program with carriers on its FIFOs between different places.

    What a load sends crosses the network from the place of its memory port to that of the load
    first; what a store or an address takes, from the operator to that of its port.
    """
    its = placement.network
    topology = noc.Topology(its)
    ports = placement.ports
    tiles = placement.tiles_of_units(wiring)
    tiles += [(ports.get(unit.name, -1),) for unit in wiring.units]
    shared = _shared(its, wiring, tiles)
    of_tree = {c for fifos in shared for c in fifos}
    copied = frozenset(noc.copies_in_trees(its, wiring))
    network_for = {
        (reads, spread): noc.network_of_leg(its, reads=reads, shared=spread)
        for reads in (False, True)
        for spread in (False, True)
    }
    legs: list[tuple[int, int, int]] = []
    fifos_of_legs: list[int] = []
    for c, way in enumerate(noc.legs_of(wiring)):
        begins = c in of_tree
        for source, target, reads in way:
            starts, ends = tiles[source], tiles[target]
            if not _is_apart(starts, ends):
                continue
            # Also where a single reader is elsewhere, so that it depends on no other place.
            wanted = network_for[reads, source in copied]
            # A tree begins at one tile.
            starts = starts[:1] if begins else starts
            begins = False
            legs.append((*noc.nearest_tiles(topology, starts, ends, wanted), wanted))
            fifos_of_legs.append(c)
    own: list[list[Path]] = [[] for _ in wiring.fifos]
    for c, path in zip(fifos_of_legs, _paths(topology, legs), strict=True):
        own[c].append(path)
    trees = []
    for fifos in shared:
        fifos.sort(key=lambda c: own[c][0][-1])
        trees.append(Tree(tuple(fifos), *noc.tree_of([own[c].pop(0) for c in fifos])))
    flits = its.flits
    assert flits is not None  # see placement_of
    assert flits.flit_bytes is not None
    carriage = Carriage(
        topology.port_count, flits.flit_bytes, flits.router, flits.wire, flits.inject,
        flits.quantum, flits.window,
    )  # fmt: skip
    return with_carriers(network, carriage, own, trees)


def _is_apart(tiles: tuple[int, ...], others: tuple[int, ...]) -> bool:
    """Whether two ends have no tile in common."""
    if len(tiles) == len(others) == 1:
        return tiles != others
    return set(tiles).isdisjoint(others)


def _shared(
    its: MachineNetwork, wiring: Wiring, tiles: Sequence[tuple[int, ...]]
) -> list[list[int]]:
    """FIFOs that begin with a tree: of one broadcast, and to other places."""
    if its.broadcast != "tree":
        return []
    readers = {c: u for u, unit in enumerate(wiring.units) for c in unit.inputs}
    found = []
    for u, unit in enumerate(wiring.units):
        if unit.operator is None:
            fifos = [c for c in unit.outputs if _is_apart(tiles[u], tiles[readers[c]])]
            found += [fifos] * (len(fifos) > 1)
    return found


def _paths(topology: noc.Topology, legs: Sequence[tuple[int, int, int]]) -> list[Path]:
    """The route of every leg: from a place to a place over a network; one object for equal ones."""
    if not legs:
        return []
    source, target, wanted = np.array(legs, np.int64).T
    n = topology.places
    once, which = np.unique((wanted * n + source) * n + target, return_inverse=True)
    wanted, (source, target) = once // n**2, np.divmod(once % n**2, n)
    taken = noc.networks_taken(topology, wanted, source, target)
    routes = topology.routes(source, target, taken)
    paths = [
        tuple(routes.path[begin:end].tolist()) for begin, end in pairwise(routes.begin.tolist())
    ]
    return [paths[i] for i in which.tolist()]
