"""Disturbances of ensembles at the tile level: memory, base addresses, FIFOs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepsim.ensembles import Bounds, Disturbance, draw_one
from stepsim.graph import FIFO_DEPTH
from stepsim.lowering import with_bases, with_first_channels
from stepsim.machine import Addresses, Port, load_machine

if TYPE_CHECKING:
    from stepsim.simulation.programs.prepared import Prepared

Changes = tuple[int, ...]


def _uses_memory(prepared: Prepared) -> bool:
    return len(prepared.template.first.ports) > 0


def _has_addresses(prepared: Prepared) -> bool:
    return prepared.timing.dram is not None and _uses_memory(prepared)


def _has_latency(prepared: Prepared) -> bool:
    return prepared.timing.dram is None and _uses_memory(prepared)


def _set(prepared: Prepared, values: Mapping[str, Any]) -> Prepared:
    return prepared.changed(machine=load_machine(prepared.machine, values))


def _with_latency(prepared: Prepared, change: int) -> Prepared:
    """Delay responses by this many cycles, possibly negative, but never before the request."""
    if change == 0:
        return prepared
    return _set(prepared, {"hbm.latency": max(0, prepared.machine.hbm.latency + change)})


def _with_response_latency(prepared: Prepared, change: int) -> Prepared:
    """Delay the responses of a DRAM."""
    if change == 0:
        return prepared
    port = prepared.machine.hbm.port or Port()
    latency = max(0, port.response_latency + change)
    return _set(prepared, {"hbm.port.response_latency": latency})


def _ports(prepared: Prepared) -> int:
    return len(prepared.template.first.ports)


def _with_first(prepared: Prepared, change: int) -> Prepared:
    """Advance the first port of the arbiter by this many ports."""
    first = ((prepared.machine.hbm.port or Port()).first + change) % _ports(prepared)
    return _set(prepared, {"hbm.port.first": first})


def _has_bases(prepared: Prepared) -> bool:
    interleaved = prepared.machine.hbm.model == "interleaved" and _uses_memory(prepared)
    return interleaved or _has_addresses(prepared)


def _free_requests(prepared: Prepared) -> int:
    """0 if the machine places all tensors at address 0, which is fixed by its design."""
    rules = prepared.machine.hbm.addresses or Addresses()
    return 0 if _has_addresses(prepared) and rules.bases == "zero" else 3


def _base_changes(random: np.random.Generator, bounds: Bounds, prepared: Prepared) -> Changes:
    """One change for every port, or with addresses for every tensor."""
    count = len(prepared.address_map.regions) if _has_addresses(prepared) else _ports(prepared)
    return tuple(random.integers(bounds[0], bounds[1], count, endpoint=True).tolist())


def _with_bases(prepared: Prepared, changes: Changes) -> Prepared:
    """Move the first byte of each tensor by this many requests."""
    if _has_addresses(prepared):
        return _with_tensors_moved(prepared, changes)
    return prepared.edited(lambda image: with_first_channels(image, changes))


def _with_tensors_moved(prepared: Prepared, changes: Changes) -> Prepared:
    """Move tensors within the DRAM; tensors that loads and stores share stay shared."""
    placed, size = prepared.address_map, prepared.machine.hbm.request_bytes
    moved: dict[str, int] = {}
    for region, change in zip(placed.regions, changes, strict=True):
        last = placed.capacity - region.size
        base = min(max(0, region.base + size * change), last)
        moved |= dict.fromkeys(region.operators, base)
    return prepared.edited(lambda image: with_bases(image, prepared.timing, moved))


def _bounded(prepared: Prepared) -> list[str]:
    """Names of the bounded FIFOs."""
    names = (fifo.name for fifo in prepared.wiring.fifos)
    return [name for name, depth in zip(names, prepared.depths, strict=True) if depth is not None]


def _depth_changes(random: np.random.Generator, bounds: Bounds, prepared: Prepared) -> Changes:
    count = len(_bounded(prepared))
    return tuple(random.integers(bounds[0], bounds[1], count, endpoint=True).tolist())


def _with_other_depths(prepared: Prepared, changes: Changes) -> Prepared:
    """Change FIFO depths by this many tokens; the depth stays at least one."""
    numbers = prepared.fifo_numbers
    caps = prepared.template.first.channels["cap"]
    names = _bounded(prepared)
    depths = {
        name: min(max(1, int(caps[numbers[name]]) + change), FIFO_DEPTH.high)
        for name, change in zip(names, changes, strict=True)
        if change
    }
    return prepared.changed(fifo_depths=depths) if depths else prepared


DISTURBANCES: Final = (
    Disturbance(
        "hbm.latency",
        "cycles by which every response of the off-chip memory is delayed",
        (0, 3),
        _has_latency,
        draw_one,
        _with_latency,
    ),
    Disturbance(
        "hbm.port.response_latency",
        "cycles by which every response of the DRAM is delayed",
        (0, 3),
        _has_addresses,
        draw_one,
        _with_response_latency,
    ),
    Disturbance(
        "hbm.port.first",
        "ports by which the first port of the arbiter is advanced",
        (0, 255),
        _has_addresses,
        draw_one,
        _with_first,
        most=lambda prepared: _ports(prepared) - 1,
    ),
    Disturbance(
        "hbm.bases",
        "requests by which the first byte of every tensor, or the first channel of every port, is "
        "moved on",
        (0, 3),
        _has_bases,
        _base_changes,
        _with_bases,
        most=_free_requests,
    ),
    Disturbance(
        "fifo.depth",
        "additional tokens in every bounded FIFO, drawn for each FIFO",
        (0, 2),
        lambda prepared: bool(_bounded(prepared)),
        _depth_changes,
        _with_other_depths,
    ),
)
"""All entries, in the order in which they are applied: those that change a machine come first, for
the image of another machine is laid out with its own tables."""
