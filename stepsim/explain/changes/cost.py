"""The cost of a change at the prices of a machine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from stepsim.explain.changes.candidates import Change
from stepsim.graph import slot_bytes
from stepsim.lowering import compute_bandwidths
from stepsim.simulation import Prepared

HELPS: Final = 0.05
"""Least gain, as a fraction of a run, of a change that shows what the run is bound by."""

ENOUGH: Final = 0.2
"""Gain of a single change, as a fraction of a run, with which no two changes are tried together."""

_COUNTS: Final = 0.01
"""Least gain at which prices matter; below it, no change is worth its price."""

_ALIKE: Final = 0.005
"""Largest difference, as a fraction of a run, between two equally good changes."""

WASTE: Final = ("fifo_depth", "balance", "place")
"""Kinds that add no hardware except FIFO slots."""

_PRICES: Final[Mapping[str, tuple[str, ...]]] = {
    "hbm.channels": ("hbm_channel", "hbm_bytes_per_cycle"),
    "hbm.dram.channels": ("hbm_channel", "hbm_bytes_per_cycle"),
    "hbm.interval": ("hbm_bytes_per_cycle",),
    "hbm.request_bytes": ("hbm_bytes_per_cycle",),
    "onchip.bytes_per_cycle": ("onchip_bytes_per_cycle",),
}
"""Values of a machine that have a cost, and the prices of which one is needed."""


def cost_of(prepared: Prepared, change: Change) -> float | None:
    """The additional cost of a change over the program on its present machine.

    None if the machine has no price for something that changes, and for changes that cannot be
    bought: no limit, no latency. Requests per cycle and routings have no price either; with other
    changes they cost nothing.
    """
    costs = prepared.machine.costs
    if costs is None or not change.buildable:
        return None
    stated = {name for name, price in costs.to_dict().items() if price is not None}
    needed: list[tuple[str, ...]] = [_PRICES.get(key, ()) for key in change.overrides]
    if change.compute:
        needed.append(("flops_per_cycle",))
    if change.fifo_depths or change.fifo_depth is not None:
        needed.append(("onchip_byte",))
    if not needed or not all(stated & set(prices) for prices in needed):
        return None
    changed = change.variant(prepared.machine).applied(prepared)
    before, after = (_total(one, change) for one in (prepared, changed))
    return None if before is None or after is None else after - before


def _total(prepared: Prepared, change: Change) -> float | None:
    """Cost of the machine, of the operators that the change names, and of all FIFOs."""
    names = [unit.name for unit in prepared.wiring.units]
    rates = compute_bandwidths(prepared.template.first)
    flops = sum(rate for unit, rate in rates.items() if names[unit] in change.compute)
    held = 0
    for fifo, depth in zip(prepared.wiring.fifos, prepared.depths, strict=True):
        if fifo.name in change.fifo_depths or change.fifo_depth is not None:
            size = slot_bytes(fifo.stream.type)
            if not isinstance(size, int) or depth is None:
                return None
            held += size * depth
    return prepared.machine.cost(onchip_bytes=held, flops_per_cycle=flops)


def nearly_equal(gain: float, other: float) -> bool:
    """Whether two gains, as fractions of a run, differ too little to prefer one change."""
    return abs(gain - other) <= _ALIKE


class Size(NamedTuple):
    """How much a change changes; of equally good ones, the least comes first.

    Attributes
    ----------
    hardware : whether it adds some, rather than settings of the program alone.
    parts : number of changes in it.
    targets : number of operators or FIFOs that it changes.
    amount : sum of their requests per cycle and depths.
    """

    hardware: bool
    parts: int
    targets: int
    amount: int


def size_of(change: Change) -> Size:
    """How much a change changes."""
    tokens = (depth or 0 for depth in change.fifo_depths.values())
    return Size(
        bool(change.overrides or change.compute or change.machine),
        max(1, len(change.parts)),
        len(change.targets),
        sum(change.par_dispatch.values()) + sum(tokens),
    )


def ranks_of(rows: Sequence[Mapping[str, Any]], sizes: Sequence[Size]) -> list[int]:
    """Ranks from 1: buildable changes, then bounds; changes that help before the others.

    Without prices, the largest gain comes first. Among gains that differ by half a percent of the
    run at most, what adds no hardware (FIFO depths, requests per cycle, a balanced routing) comes
    first, then the change that changes least. With prices, those that have one come by gain per
    cost, behind changes without one that add no hardware and gain more than all of them.

    Parameters
    ----------
    rows : rows of the table of a what-if.
    sizes : how much each of them changes.
    """
    gains = [row["gain"] or 0.0 for row in rows]
    most = max(
        (row["gain"] for row in rows if row["buildable"] and row["gain_per_cost"] is not None),
        default=math.inf,
    )
    groups = [_group(row, size, most) for row, size in zip(rows, sizes, strict=True)]

    def key(number: int) -> tuple[Any, ...]:
        ratio = rows[number]["gain_per_cost"] or 0
        return *groups[number], -ratio, -gains[number], sizes[number], number

    left = sorted(range(len(rows)), key=key)
    places = [0] * len(rows)
    for place in range(1, len(rows) + 1):
        first = left[0]
        near = [first]
        if rows[first]["gain_per_cost"] is None:
            near = [
                one
                for one in left
                if groups[one] == groups[first] and nearly_equal(gains[one], gains[first])
            ]
        best = min(near, key=lambda one: (sizes[one], left.index(one)))
        places[best] = place
        left.remove(best)
    return places


def _group(row: Mapping[str, Any], size: Size, most: float) -> tuple[bool | int, ...]:
    """The group of a row, where ``most`` is the largest gain of the changes that have a price."""
    gain = row["gain"] or 0.0
    priced = row["gain_per_cost"] is not None
    return (
        0 if gain >= _COUNTS else 1 if gain > 0 else 2,
        not row["buildable"],
        1 if priced else 0 if gain > most and not size.hardware else 2,
    )
