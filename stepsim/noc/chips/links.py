"""The links between chips in any number of dimensions, and the routes over them."""

from __future__ import annotations

from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import ArgError
from stepsim.machine import ChipDimension, Chips
from stepsim.noc.chips.network import check_dimension

MOST_LINKS: Final = 1 << 22
"""Links of all dimensions together."""


class ChipLinks:
    """The directed links of a network of chips, numbered dimension by dimension.

    In a dimension, a ring has the links from every chip to the next one and then those to the one
    before it; fully connected chips have those from chip 0 to all others, then those from chip 1,
    and so on; a switch has those from every chip to it, and then those back.

    Attributes
    ----------
    chips : the network. count : links.
    begin, end : the devices at both ends of every link: chips, and behind them the switches.
    dimension : of every link.

    Raises
    ------
    ArgError : a dimension has fewer chips than its topology joins, or there are too many links.
    """

    def __init__(self, chips: Chips) -> None:
        self.chips = chips
        total = chips.total
        self._dimensions = chips.dimensions
        sizes = [one.chips for one in self._dimensions]
        self._strides = list(accumulate(sizes, lambda a, b: a * b, initial=1))[:-1]
        for one in self._dimensions:
            check_dimension(one)
        counts = [_links_of(one, total) for one in self._dimensions]
        self.count = sum(counts)
        if self.count > MOST_LINKS:
            raise ArgError(
                f"chips.count: {total} chips have {self.count} links, more than the {MOST_LINKS} "
                "that can be followed; use topology 'switch'"
            )
        self._first = list(accumulate(counts, initial=0))[:-1]
        switches = [
            total // one.chips if one.topology == "switch" and one.chips > 1 else 0
            for one in self._dimensions
        ]
        self._first_switch = list(accumulate(switches, initial=total))[:-1]
        ends = [self._ends(number) for number in range(len(sizes))]
        self.begin = np.concatenate([one for one, _ in ends])
        self.end = np.concatenate([other for _, other in ends])
        self.dimension = np.repeat(np.arange(len(sizes)), counts)
        self._known: dict[tuple[int, int], tuple[int, ...]] = {}

    def rates(self, clock_ghz: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Latency in cycles and rate in bytes per cycle of every link, at this clock."""
        latency = np.array([one.latency_ns * clock_ghz for one in self._dimensions])
        rate = np.array([one.bytes_per_ns / clock_ghz for one in self._dimensions])
        return latency[self.dimension], rate[self.dimension]

    def path(self, source: int, destination: int) -> tuple[int, ...]:
        """The links of a route: through the dimensions in their order, in each as in one alone."""
        known = self._known.get((source, destination))
        if known is None:
            known = tuple(self._path(source, destination))
            self._known[source, destination] = known
        return known

    def _path(self, source: int, destination: int) -> list[int]:
        found: list[int] = []
        here = source
        for number, one in enumerate(self._dimensions):
            stride = self._strides[number]
            a, b = here // stride % one.chips, destination // stride % one.chips
            if a != b:
                found += self._within(number, here, a, b)
                here += (b - a) * stride
        return found

    def _within(self, number: int, here: int, a: int, b: int) -> list[int]:
        one, first, stride = self._dimensions[number], self._first[number], self._strides[number]
        total = self.chips.total
        if one.topology == "switch":
            return [first + here, first + total + here + (b - a) * stride]
        if one.topology == "fully-connected":
            return [first + here * (one.chips - 1) + b - (b > a)]
        ahead = (b - a) % one.chips
        # Forwards if both ways are equally long.
        step, way = (1, 0) if one.chips - ahead >= ahead else (-1, total)
        places = [(a + step * i) % one.chips for i in range(min(ahead, one.chips - ahead))]
        return [first + way + here + (place - a) * stride for place in places]

    def _ends(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The devices at both ends of the links of a dimension."""
        one, stride, total = self._dimensions[number], self._strides[number], self.chips.total
        chip = np.arange(total)
        if one.chips == 1:
            return chip[:0], chip[:0]
        place = chip // stride % one.chips
        if one.topology == "switch":
            row = chip // (stride * one.chips) * stride + chip % stride
            switch = self._first_switch[number] + row
            return np.append(chip, switch), np.append(switch, chip)
        if one.topology == "fully-connected":
            other = np.arange(one.chips - 1) + (np.arange(one.chips - 1) >= place[:, None])
            ends = chip[:, None] + (other - place[:, None]) * stride
            return chip.repeat(one.chips - 1), ends.ravel()
        ahead = chip + ((place + 1) % one.chips - place) * stride
        back = chip + ((place - 1) % one.chips - place) * stride
        return np.append(chip, chip), np.append(ahead, back)


def _links_of(dimension: ChipDimension, total: int) -> int:
    if dimension.chips == 1:
        return 0
    each = dimension.chips - 1 if dimension.topology == "fully-connected" else 2
    return total * each
