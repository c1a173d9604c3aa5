"""Places of a network that operators and memory ports can have, and the operators of a program."""

from __future__ import annotations

from typing import Final

import numpy as np

from stepsim.errors import ArgError
from stepsim.graph import (
    OffChipOperator,
    Operator,
    Program,
    check_one_chip,
    check_program,
    construction_order,
)
from stepsim.machine import Network
from stepsim.noc.topology import Whole

_ONE_CHIP: Final = (
    "place it on one chip, without `with st.chip(...)` and with tp, ep and pp of 1, or run it on "
    "several chips without a placement"
)


def placed_operators(program: Program) -> dict[str, bool]:
    """Names of the operators that need a place, and whether they have an off-chip memory port.

    Raises
    ------
    ArgError : it is not a program, or one on several chips.
    """
    check_program("placement", program)
    check_one_chip(program, f"placement: program '{program.name}'", ArgError, _ONE_CHIP)
    order = [one for one in construction_order(program) if one.loops_back() is None]
    return {one.title(): has_port(one) for one in order}


def has_port(operator: Operator) -> bool:
    """Whether an operator accesses off-chip memory."""
    # A load that bypasses the memory makes no requests.
    return isinstance(operator, OffChipOperator) and not getattr(operator, "bypass", False)


def worker_places(network: Network) -> Whole:
    """Places that operators can be on."""
    return np.flatnonzero([letter == "W" for letter in network.core_letters])


def memory_places(network: Network) -> Whole:
    """Places with a port to off-chip memory: the DRAM cores.

    Without a map of cores, those of the first and the last column of a mesh or torus; of other
    networks place 0.
    """
    dram = np.flatnonzero([letter == "D" for letter in network.core_letters])
    if len(dram):
        return dram
    if network.topology not in ("mesh", "torus"):
        return np.zeros(1, np.int64)
    places = np.arange(network.places)
    return places[np.isin(places % network.cols, (0, network.cols - 1))]


def default_ports(program: Program, network: Network) -> dict[str, int]:
    """Places of memory ports where none is stated: one of `memory_places` after another."""
    places = memory_places(network)
    names = [name for name, offchip in placed_operators(program).items() if offchip]
    return {name: int(places[i % len(places)]) for i, name in enumerate(names)}


def check_size(where: str, program: Program, count: int, network: Network, per_tile: int) -> None:
    """Refuse a program with more operators than its tiles may hold."""
    tiles = len(worker_places(network))
    if count > tiles * per_tile:
        advice = (
            f"use a larger network or per_tile={-(-count // tiles)}"
            if tiles
            else "state worker cores (W) in its map of cores"
        )
        raise ArgError(
            f"{where}: program '{program.name}' is larger than the machine: it has {count} "
            f"operators, and network '{network.name}' {tiles} tiles for {per_tile} each; {advice}"
        )
