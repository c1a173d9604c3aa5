"""The speed of light of a run: the time that each resource alone would take, as true lower bounds.

A bound is the work of one resource in this run, at its full rate and with everything else free; no
run of the same work can be shorter. The work of memory and operators follows from the run's
records; the split of an operator's time into compute and on-chip traffic is found by running the
program once with unlimited compute and once with unlimited on-chip bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.deferred import deferred
from stepsim.explain.wait_graph import WITHOUT_LIMIT
from stepsim.lowering import dispatch_widths, unit_bandwidth
from stepsim.machine import load_machine
from stepsim.results import schema
from stepsim.simulation import MEMORY_TAIL, ImageRun, Limits, Prepared, lone_access

pa: Any = deferred("pyarrow")

_BUILT_IN: Final = ("published", "interleaved", "uncontended")
"""Memory models whose accesses take the times in docs/timing.md."""

_UNLIMITED_ONCHIP: Final = {"onchip.bytes_per_cycle": 1 << 20}
_OVERHEAD: Final = 2
"""Cycles of an access in addition to its bundles and the delay of the last request."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource in one run.

    Attributes
    ----------
    kind : ``hbm_bandwidth``, ``hbm_latency``, ``hbm_port``, ``compute``, ``onchip_bandwidth``,
        ``token_rate`` or ``link``.
    target : the unit that needs it most, the busiest link, or on several chips the chip whose
        memory has the most requests; empty for a resource that all units share.
    used, peak : amount in this run, and the capacity of the resource over the run, in ``unit``.
    share : used / peak.
    bound : cycles that this resource alone needs; no run of the same work is shorter.
    source : line of the user's code that made the target, as ``file:line``; None without one.
    streams : names of the FIFOs that share a link, those with the most flits first.
    """

    kind: str
    target: str
    used: int
    peak: float
    unit: str
    share: float
    bound: int
    source: str | None = None
    streams: tuple[str, ...] = ()


@dataclass(frozen=True)
class SpeedOfLight:
    """All resources of a run, the largest lower bound first.

    Attributes
    ----------
    cycles : length of the run.
    resources : without those that the run does not use.
    work : cycles of compute and of on-chip traffic by unit, as arrays ``[units]``.
    """

    cycles: int
    resources: tuple[Resource, ...]
    work: Mapping[str, NDArray[np.int64]]

    @property
    def largest(self) -> Resource | None:
        """The resource with the largest bound; None for a run without work."""
        return self.resources[0] if self.resources else None

    @property
    def distance(self) -> float | None:
        """How far the run is from its largest bound: cycles / bound - 1."""
        largest = self.largest
        return self.cycles / largest.bound - 1 if largest and largest.bound else None

    @cached_property
    def table(self) -> pa.Table:
        """One row per resource, as an Arrow table."""
        rows = [dict(zip(_COLUMNS, astuple(one)[:-1], strict=True)) for one in self.resources]
        return pa.Table.from_pylist(rows, schema=schema("speed_of_light", _COLUMNS, _COLUMNS[:-1]))

    def to_dict(self) -> dict[str, Any]:
        """All fields but the arrays, as plain values for JSON."""
        return {
            "cycles": self.cycles,
            "distance": self.distance,
            "resources": [asdict(one) for one in self.resources],
        }


def largest_bound(
    prepared: Prepared, bindings: Mapping[Any, Any] | None = None, *, limits: Limits | None = None
) -> Resource | None:
    """The resource that needs most time alone in a run, as `speed_of_light` says."""
    return speed_of_light(prepared, bindings, limits=limits).largest


# Of the fields of `Resource`, in their order, without the last.
_COLUMNS: Final = (
    "resource_kind",
    "resource_target",
    "resource_used",
    "resource_peak",
    "resource_unit",
    "resource_share",
    "bound_cycles",
    "source",
)


def speed_of_light(
    prepared: Prepared,
    bindings: Mapping[Any, Any] | None = None,
    *,
    done: ImageRun | None = None,
    limits: Limits | None = None,
) -> SpeedOfLight:
    """Lower bounds of a run, from each resource alone.

    Parameters
    ----------
    prepared, bindings : the program and its bindings.
    done : the run, if it exists already.
    limits : limits of the runs made here.

    Returns
    -------
    SpeedOfLight
        For a run that is not ok, the bounds are those of the part that ran.
    """
    base = prepared.execute(bindings, limits=limits) if done is None else done
    units = base.tables().unit_columns
    cycles = base.totals.cycles
    work = _work(prepared, bindings, units, limits)
    found = [
        *_bandwidth(prepared, base),
        *_accesses(prepared, units, cycles),
        *_operators(prepared, units, work, cycles),
        *_links(prepared, base),
    ]
    return SpeedOfLight(cycles, tuple(sorted(found, key=lambda one: -one.bound)), work)


def _bandwidth(prepared: Prepared, base: ImageRun) -> list[Resource]:
    """The time of the channels for all requests, from the first start to the end of the memory.

    On several chips it is that of the memory with the most requests.
    """
    totals, timing = base.totals, prepared.timing
    if totals.peak_bytes is None or not totals.memory_requests:
        return []
    chip, requests = busiest_memory(prepared, base)
    used, peak = requests * timing.request_bytes, totals.peak_bytes // timing.chips
    target = "" if chip is None else f"chip {chip}"
    starts = math.ceil(max(1, requests - timing.ahead) / timing.hbm_channels)
    bound = (starts - 1) * timing.hbm_interval + 1
    if timing.memory_model in _BUILT_IN:
        # The first one starts in cycle 2; the requester continues a cycle after the last response.
        bound += 2 + _delay(prepared) + MEMORY_TAIL
    return [Resource("hbm_bandwidth", target, used, peak, "bytes", used / peak, bound)]


def busiest_memory(prepared: Prepared, base: ImageRun) -> tuple[int | None, int]:
    """The chip whose memory has the most requests, and their number; on one chip None, and all."""
    if prepared.crossing is None:
        return None, base.totals.memory_requests
    chips = prepared.crossing.unit_chips
    requests = np.zeros(int(chips.max()) + 1, np.int64)
    np.add.at(requests, chips, base.execution.units["requests"])
    return int(requests.argmax()), int(requests.max())


def _links(prepared: Prepared, base: ImageRun) -> list[Resource]:
    """The time of the busiest link for all that crossed it."""
    loads = prepared.loads(base)
    busiest = None if loads is None else loads.busiest()
    if busiest is None:
        return []
    cycles = base.totals.cycles
    share = busiest.used / max(1, cycles)
    return [
        Resource(
            "link", busiest.name, busiest.used, cycles, busiest.unit, share, busiest.bound,
            streams=busiest.streams,
        )
    ]  # fmt: skip


def _delay(prepared: Prepared) -> int:
    return prepared.timing.delay


def _accesses(prepared: Prepared, units: Mapping[str, Any], cycles: int) -> list[Resource]:
    """The time of the accesses of a port one after the other, if it were alone.

    A unit requests its next tile when it has the last one; all its tiles have one size. A port
    that mostly waits for responses is bound by latency, one that mostly issues by its rate.
    """
    ports = np.flatnonzero(units["requests"])
    if prepared.timing.memory_model not in _BUILT_IN:
        return []
    delay, widths = _delay(prepared) + _OVERHEAD, dispatch_widths(prepared.template.first)
    free = replace(prepared.timing, memory_model=WITHOUT_LIMIT)
    found: dict[str, Resource] = {}
    for unit in ports.tolist():
        accesses, requests = int(units["firings"][unit]), int(units["requests"][unit])
        bundle = widths[unit]
        issuing = -(-requests // accesses // bundle)
        each = delay + issuing
        if prepared.timing.window is not None:
            each = lone_access(free, -(-requests // accesses), bundle)
        alone = min(accesses * each, int(units["wait_memory"][unit])) + MEMORY_TAIL
        if issuing > each - issuing:
            kind, used, peak, name = "hbm_port", requests, float(bundle * cycles), "requests"
        else:
            kind, used, peak, name = "hbm_latency", accesses, cycles / each, "accesses"
        if kind not in found or alone > found[kind].bound:
            found[kind] = Resource(
                kind, units["name"][unit], used, peak, name, used / peak, alone,
                units["source"][unit],
            )  # fmt: skip
    return list(found.values())


def _work(
    prepared: Prepared,
    bindings: Mapping[Any, Any] | None,
    units: Mapping[str, Any],
    limits: Limits | None,
) -> dict[str, NDArray[np.int64]]:
    """Cycles by unit: for compute alone, for on-chip traffic alone, and for neither.

    Never more than the unit worked: where the order of arrival decides what is computed, other
    times can mean another order.
    """
    busy = units["busy"]
    computing = {
        name: math.inf for name, flops in zip(units["name"], units["flops"], strict=True) if flops
    }
    roomy = load_machine(prepared.machine, _UNLIMITED_ONCHIP)

    def again(other: Prepared) -> NDArray[np.int64]:
        found = other.execute(bindings, limits=limits).tables().unit_columns
        return np.asarray(np.minimum(found["busy"], busy))

    wide = prepared.changed(machine=roomy)
    return {
        "compute": again(wide),
        "onchip": again(prepared.changed(compute=computing)) if computing else busy,
        "neither": again(wide.changed(compute=computing)) if computing else again(wide),
    }


def _operators(
    prepared: Prepared,
    units: Mapping[str, Any],
    work: Mapping[str, NDArray[np.int64]],
    cycles: int,
) -> list[Resource]:
    """The busiest operator of those that compute, of those that load and store, and of those that
    only pass tokens on."""
    names, sources, flops = units["name"], units["source"], units["flops"]
    rest = work["neither"]
    found = []
    computing = np.where(flops > 0, work["compute"], 0)
    if computing.any():
        unit = int(np.argmax(computing))
        bandwidth = bandwidth_of(prepared, unit)
        peak = bandwidth * cycles
        used = int(flops[unit])
        found.append(
            Resource(
                "compute", names[unit], used, peak, "FLOPs", used / peak, int(computing[unit]),
                sources[unit],
            )
        )  # fmt: skip
    moving = np.where(work["onchip"] > rest, work["onchip"], 0)
    passing = np.where((moving == 0) & (flops == 0), units["busy"], 0)
    for kind, busy in (("onchip_bandwidth", moving), ("token_rate", passing)):
        if busy.any():
            unit = int(np.argmax(busy))
            spent = int(busy[unit])
            found.append(
                Resource(
                    kind, names[unit], spent, cycles, "cycles", spent / cycles, spent, sources[unit]
                )
            )
    return found


def bandwidth_of(prepared: Prepared, unit: int) -> int:
    """FLOPs per cycle of a unit that computes, with the changes made to the program."""
    wired = prepared.wiring.units[unit]
    own = unit_bandwidth(wired, prepared.machine)
    return int(prepared.compute_bw.get(wired.name) or own or wired.params["bw"])
