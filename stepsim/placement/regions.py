"""Regions of a network: strips of columns, in which operators of the dies of a design must be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stepsim.arguments import Range, shown
from stepsim.errors import ArgError, did_you_mean
from stepsim.frozen import frozen
from stepsim.machine import Network
from stepsim.noc import Whole, placed_operators, worker_places
from stepsim.simulation import Prepared


@frozen
class Regions:
    """Where operators must be.

    Attributes
    ----------
    count : regions.
    of_operators : region of every operator, or -1 where it may be anywhere. [operators]
    of_places : region of every place of the network. [places]
    """

    count: int
    of_operators: Whole
    of_places: Whole

    def slots(self, slot_place: Whole) -> list[Whole]:
        """The slots that every operator may have, for slots at these places."""
        every = np.arange(len(slot_place))
        own = [every[self.of_places[slot_place] == region] for region in range(self.count)]
        return [every if region < 0 else own[region] for region in self.of_operators.tolist()]

    @property
    def order(self) -> list[int]:
        """The operators, those that must be in a region first."""
        found: list[int] = np.argsort(self.of_operators < 0, kind="stable").tolist()
        return found


def free_regions(operators: int, places: int) -> Regions:
    """One region, in which every operator may be."""
    return Regions(1, np.full(operators, -1), np.zeros(places, np.int64))


def regions_of(
    prepared: Prepared, network: Network, regions: Any, count: int | None, per_tile: int,
    spans: Mapping[str, int],
) -> Regions:  # fmt: skip
    """Regions as they are given: numbers by the name of an operator; ``spans`` has the number of
    tiles of each, which are items of their own.

    Region r of n has the columns from ``r * cols // n`` up to those of the next.

    Raises
    ------
    ArgError : there is no such operator or region, or a region has too few tiles.
    """
    known = list(placed_operators(prepared.program))
    counts = np.array([spans[name] for name in known], np.int64)
    if regions is None:
        return free_regions(int(counts.sum()), network.places)
    where = f"program '{prepared.program.name}', place: regions"
    if not isinstance(regions, Mapping) or not regions:
        raise ArgError(
            f"{where}: expected a mapping from names of operators to numbers of regions, found "
            f"{shown(regions)}"
        )
    allowed = Range(network.cols - 1, f"there are {network.cols} columns", low=0)
    found = np.full(len(known), -1)
    for name, region in regions.items():
        if name not in known:
            near = did_you_mean(name, known) if isinstance(name, str) else "."
            raise ArgError(f"{where}: the program has no operator {shown(name)}{near}")
        found[known.index(name)] = allowed.checked(f"{where}['{name}']", region)
    total = int(found.max()) + 1 if count is None else count
    if total > network.cols or total <= found.max():
        raise ArgError(
            f"{where}: operators are in regions up to {int(found.max())} of {total}, and network "
            f"'{network.name}' has {network.cols} columns to make them of; use a larger network"
        )
    found = np.repeat(found, counts)
    made = Regions(total, found, np.arange(network.places) % network.cols * total // network.cols)
    tiles = worker_places(network)
    for region in range(total):
        needed, there = int((found == region).sum()), int((made.of_places[tiles] == region).sum())
        if needed > there * per_tile:
            advice = (
                f"use a larger network or per_tile={-(-needed // there)}"
                if there
                else ("use a network with worker cores there")
            )
            raise ArgError(
                f"{where}: region {region} of {total} has {needed} operators, and network "
                f"'{network.name}' {there} tiles for {per_tile} each in it; {advice}"
            )
    return made
