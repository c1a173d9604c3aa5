"""The links of a network and the routes over them, as numbers of ports."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepsim.machine import Network

Whole = NDArray[np.int64]

_EAST, _SOUTH, _NORTH, _WEST = range(4)
_LETTERS: Final = ("east", "south", "north", "west")
_STEPS: Final = {_EAST: (0, 1), _SOUTH: (1, 0), _NORTH: (-1, 0), _WEST: (0, -1)}


class Routes(NamedTuple):
    """Paths of transfers, one after the other.

    Attributes
    ----------
    begin : first place of each path in ``path``, and the end of the last. [transfers + 1]
    sinks : first place of each path's sinks. [transfers]
    path : ports: source, links in the order in which they are passed, sinks.
    """

    begin: Whole
    sinks: Whole
    path: Whole

    @property
    def links(self) -> Whole:
        """Number of links of every path. [transfers]"""
        return self.sinks - self.begin[:-1] - 1


@dataclass(frozen=True)
class Topology:
    """A network as ports: its links, then a source and a sink of every place on every network.

    The link of a grid that leaves place p to the east, south, north or west has the number 4 p + 0
    to 3; one of a switch p to it and places + p from it; listed links have their place in the list.
    """

    network: Network

    @property
    def places(self) -> int:
        """Number of places."""
        return self.network.places

    @property
    def is_grid(self) -> bool:
        """Whether links go to neighbors in rows and columns."""
        return self.network.topology in ("mesh", "torus", "ring")

    @cached_property
    def link_count(self) -> int:
        """Number of links, including those at the edge of a mesh, which lead nowhere."""
        if self.is_grid:
            return 4 * self.places
        if self.network.topology == "switch":
            return 2 * self.places
        return len(self.network.listed_links)

    @property
    def port_count(self) -> int:
        """Number of links, sources and sinks."""
        return self.link_count + 2 * self.network.networks * self.places

    def source(self, place: Whole, network: Whole) -> Whole:
        """Ports by which places send on a network."""
        return self.link_count + network * self.places + place

    def sink(self, place: Whole, network: Whole) -> Whole:
        """Ports by which places receive on a network."""
        return self.link_count + (self.network.networks + network) * self.places + place

    def directions(self, link: Whole) -> Whole:
        """What distinguishes the links that leave one place: the direction on a grid."""
        return link % 4 if self.is_grid else link

    def places_of(self, link: Whole) -> tuple[Whole, Whole]:
        """Places that links leave and reach; the switch counts as the place after the last."""
        n, net = self.places, self.network
        if self.is_grid:
            row, col = np.divmod(link // 4, net.cols)
            steps = np.array([_STEPS[one] for one in range(4)])[link % 4]
            to = (row + steps[:, 0]) % net.rows * net.cols + (col + steps[:, 1]) % net.cols
            return link // 4, to
        if net.topology == "switch":
            return np.where(link < n, link, n), np.where(link < n, n, link - n)
        pairs = np.array(net.listed_links, np.int64).reshape(-1, 2)[link]
        return pairs[:, 0], pairs[:, 1]

    def name_of(self, link: int) -> str:
        """A link in words."""
        if self.is_grid:
            return f"{self.place_name(link // 4)} {_LETTERS[link % 4]}"
        one, other = (int(place[0]) for place in self.places_of(np.array([link])))
        return f"{self.place_name(one)} > {self.place_name(other)}"

    def port_name(self, port: int) -> str:
        """A port in words: a link, or the port by which a place sends or receives."""
        if port < self.link_count:
            return self.name_of(port)
        side, place = divmod(port - self.link_count, self.places)
        side, network = divmod(side, self.network.networks)
        of = "" if self.network.networks == 1 else f" on network {network}"
        return f"{('out of', 'into')[side]} {self.place_name(place)}{of}"

    def place_name(self, place: int) -> str:
        """A place in words: row and column on a grid of several rows."""
        if place == self.places:
            return "switch"
        if self.network.rows == 1:
            return str(place)
        return "({}, {})".format(*divmod(place, self.network.cols))

    def exists(self, link: Whole) -> NDArray[np.bool_]:
        """Whether links lead to another place: those at the edge of a mesh do not."""
        if not self.is_grid:
            return np.ones(len(link), np.bool_)
        net = self.network
        row, col = np.divmod(link // 4, net.cols)
        way = link % 4
        if net.topology == "mesh":
            edge = [col == net.cols - 1, row == net.rows - 1, row == 0, col == 0]
            return ~np.choose(way, edge)
        sideways = (way == _EAST) | (way == _WEST)
        return np.where(sideways, net.cols > 1, net.rows > 1)

    @cached_property
    def links(self) -> Whole:
        """Numbers of the links that lead to another place."""
        every = np.arange(self.link_count)
        return every[self.exists(every)]

    def rates(self) -> NDArray[np.float32]:
        """Bytes per cycle of every port; the network states rates."""
        rates = self.network.rates
        assert rates is not None
        letters = self.network.core_letters
        ends = [
            np.tile([one.of(letter) for letter in letters], self.network.networks)
            for one in (rates.source, rates.sink)
        ]
        return np.concatenate([np.full(self.link_count, rates.link), *ends]).astype(np.float32)

    def routes(self, source: Whole, destination: Whole, network: Whole) -> Routes:
        """The path of every transfer from one place to another."""
        hops = self._hops(source, destination, network)
        count = (hops >= 0).sum(axis=1)
        begin = np.concatenate([[0], np.cumsum(count + 2)])
        path = np.empty(begin[-1], np.int64)
        path[begin[:-1]] = self.source(source, network)
        path[begin[1:] - 1] = self.sink(destination, network)
        inner = np.ones(len(path), np.bool_)
        inner[begin[:-1]] = inner[begin[1:] - 1] = False
        path[inner] = hops[hops >= 0]
        return Routes(begin, begin[1:] - 1, path)

    def _hops(self, source: Whole, destination: Whole, network: Whole) -> Whole:
        """Links of every route, and -1 behind the last. [transfers, longest]"""
        net = self.network
        if net.topology == "switch":
            hops = np.stack([source, self.places + destination], axis=1)
            hops[source == destination] = -1
            return hops
        if net.topology == "links":
            return self._listed_hops(source, destination)
        row, col = np.divmod(source, net.cols)
        to_row, to_col = np.divmod(destination, net.cols)
        if net.routing == "one-way":
            back = network == 1
            down = (to_row - row) % net.rows
            right = (to_col - col) % net.cols
            legs = [
                (np.where(back, 0, right), _EAST),
                (np.where(back, 0, down), _SOUTH),
                (np.where(back, -down % net.rows, 0), _NORTH),
                (np.where(back, -right % net.cols, 0), _WEST),
            ]
        else:
            across = self._signed(to_col - col, net.cols)
            along = self._signed(to_row - row, net.rows)
            legs = [
                (np.maximum(across, 0), _EAST), (np.maximum(-across, 0), _WEST),
                (np.maximum(along, 0), _SOUTH), (np.maximum(-along, 0), _NORTH),
            ]  # fmt: skip
        return self._walk(row, col, legs)

    def _signed(self, distance: Whole, size: int) -> Whole:
        """Steps with their direction; around the edge where that is shorter and possible."""
        if self.network.topology == "mesh":
            return distance
        ahead = distance % size
        return np.where(2 * ahead <= size, ahead, ahead - size)

    def _walk(self, row: Whole, col: Whole, legs: list[tuple[Whole, int]]) -> Whole:
        net = self.network
        total = np.sum([steps for steps, _ in legs], axis=0)
        hops = np.full((len(row), int(total.max(initial=0))), -1, np.int64)
        done = np.zeros(len(row), np.int64)
        row, col = row.copy(), col.copy()
        for steps, way in legs:
            down, right = _STEPS[way]
            for k in range(int(steps.max(initial=0))):
                go = np.flatnonzero(steps > k)
                hops[go, done[go]] = 4 * (row[go] * net.cols + col[go]) + way
                row[go] = (row[go] + down) % net.rows
                col[go] = (col[go] + right) % net.cols
                done[go] += 1
        return hops

    def _listed_hops(self, source: Whole, destination: Whole) -> Whole:
        links = self._next_links
        to = np.array([other for _, other in self.network.listed_links], np.int64)
        here, columns = source.copy(), []
        while (here != destination).any():
            link = np.where(here == destination, -1, links[here, destination])
            columns.append(link)
            here = np.where(link >= 0, to[link], here)
        if not columns:
            return np.full((len(source), 0), -1, np.int64)
        return np.stack(columns, axis=1)

    @cached_property
    def _next_links(self) -> Whole:
        """The link by which a place sends what is for another. [places, places]"""
        n = self.places
        into: list[list[tuple[int, int]]] = [[] for _ in range(n)]
        for number, (one, other) in enumerate(self.network.listed_links):
            into[other].append((one, number))
        found = np.full((n, n), -1, np.int64)
        for end in range(n):
            distance = {end: 0}
            wave = [end]
            while wave:
                # The lowest place of a wave comes first, so its links win ties.
                reached: list[int] = []
                for place in sorted(wave):
                    for one, number in sorted(into[place]):
                        if one not in distance:
                            distance[one] = distance[place] + 1
                            found[one, end] = number
                            reached.append(one)
                wave = reached
        return found
