"""The network of chips that is given, and what the engine needs of it."""

from __future__ import annotations

from typing import Any

from stepsim.arguments import shown
from stepsim.errors import ArgError
from stepsim.kernels import ChipTopology
from stepsim.machine import ChipDimension, Chips, Machine

_TOPOLOGIES = {
    "ring": ChipTopology.RING,
    "fully-connected": ChipTopology.FULLY_CONNECTED,
    "switch": ChipTopology.SWITCH,
}

_MOST_LINKS = 1 << 22
_MOST_NS = 1 << 62


def chips_of(chips: Any) -> Chips:
    """The description of several chips, from one or from a machine.

    Raises
    ------
    ArgError : neither of them, or a machine of a single chip.
    """
    if isinstance(chips, Machine):
        if chips.chips is None:
            raise ArgError(
                f"chips: machine '{chips.name}' is one chip; state its section chips, as in "
                "load_machine(..., {'chips.count': 8, 'chips.topology': 'ring', "
                "'chips.gib_per_s': 50, 'chips.latency_ns': 500})"
            )
        return chips.chips
    if not isinstance(chips, Chips):
        raise ArgError(
            f"chips: expected a stepsim.machine.Chips, or a machine with chips, found "
            f"{shown(chips)}"
        )
    return chips


def contended(chips: Chips) -> tuple[ChipTopology, ChipDimension]:
    """The one dimension of a network whose links the engine follows.

    Raises
    ------
    ArgError : more dimensions, fewer chips than the topology joins, or too many links.
    """
    if len(chips.dimensions) > 1:
        raise ArgError(
            f"chips: congestion for links is modeled in one dimension, found "
            f"{len(chips.dimensions)}; leave congestion out (congestion=False), or describe one "
            "dimension"
        )
    [dimension] = chips.dimensions
    check_dimension(dimension, least=2)
    if dimension.topology == "fully-connected" and dimension.chips**2 > _MOST_LINKS:
        raise ArgError(
            f"chips.count: {dimension.chips} chips with a link between any two are more than the "
            f"{_MOST_LINKS} links that can be followed; use topology 'switch', or leave congestion "
            "out"
        )
    return _TOPOLOGIES[dimension.topology], dimension


def check_dimension(dimension: ChipDimension, least: int = 1) -> None:
    """Refuse fewer chips than a topology joins; a ring has three or more, or one alone.

    Raises
    ------
    ArgError : there are fewer.
    """
    ring = dimension.topology == "ring"
    if dimension.chips < least or (ring and dimension.chips == 2):
        other = "; join two chips by topology 'fully-connected'" if dimension.chips == 2 else ""
        raise ArgError(
            f"chips.count: topology '{dimension.topology}' joins {3 if ring else 2} chips or "
            f"more, found {dimension.chips}{other}"
        )


def check_times(what: str, chips: Chips, latest: int, most_bytes: int, steps: int) -> None:
    """Refuse what might take longer than whole ns can count.

    Raises
    ------
    ArgError : ``steps`` transfers of ``most_bytes`` one after the other, from ``latest`` on, do.
    """
    each = max(one.latency_ns + most_bytes / one.bytes_per_ns for one in chips.dimensions)
    if not latest + each * steps < _MOST_NS:
        raise ArgError(
            f"{what}: {most_bytes} bytes take {each:.3g} ns on a link, and {steps} such transfers "
            f"may not end within 2**62 ns; send less, or state a larger chips.gib_per_s or a "
            "smaller chips.latency_ns"
        )
