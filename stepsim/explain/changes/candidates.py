"""Candidate changes: each resource of a run relaxed in turn."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.deferred import deferred
from stepsim.explain.queues import DeeperQueues, deeper_queues
from stepsim.graph import PAR_DISPATCH, Compute, Routing
from stepsim.lowering import compute_bandwidths, dispatch_widths
from stepsim.machine import MOST_CHANNELS, Hbm, Machine, Port, load_machine
from stepsim.results import flow_of, flows_text, place_of
from stepsim.simulation import ImageRun, Limits, Prepared, Variant

if TYPE_CHECKING:
    from stepsim.explain.changes import chip_links, places
    from stepsim.noc import Placement
else:
    chip_links = deferred("stepsim.explain.changes.chip_links")
    places = deferred("stepsim.explain.changes.places")

_FACTOR: Final = 2
_MOST_ONCHIP: Final = 1 << 20
"""Largest on-chip bandwidth of a machine, in bytes per cycle."""

_BUSY: Final = 0.5
"""Fraction of a run that a memory port must spend issuing to be a candidate for widening."""

_READ_AHEAD: Final = 128
"""Requests that loads issue ahead, when they issue none now."""

_MOST_GRANTS: Final = 1 << 10
"""Most requests per cycle of the path to a DRAM."""

_MOST_OUTSTANDING: Final = 1 << 12
"""Most outstanding requests of a port."""

_MOST_LANES: Final = 3
"""Most operators that a text names; more are only counted."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a program, its machine or its routing, and how to make it outside of stepsim.

    Attributes
    ----------
    name : in tables; unique within a what-if.
    kind : ``hbm_bandwidth``, ``hbm_latency``, ``onchip_bandwidth``, ``hbm_port``,
        ``compute``, ``fifo_depth``, ``balance``, ``link``, ``network_latency``, ``place``,
        ``combined`` or ``custom``.
    target : what it changes, with ``*`` for lanes; empty for the machine.
    targets : names of operators or FIFOs.
    apply : how to make it: an option of the command line, or a change of the program.
    overrides : values of the machine by dotted key; None removes a section.
    machine : the machine with these values, if it is not a variant of the program's own.
    fifo_depths, compute, par_dispatch, bindings : as in :class:`~stepsim.simulation.Variant`.
    fifo_depth : tokens in FIFOs that do not state a depth.
    place : where operators are, of a placed program.
    parts : names of the changes that it combines.
    buildable : whether it can be built; a resource without limit only gives a bound on the gain.
    """

    name: str
    kind: str
    target: str = ""
    targets: tuple[str, ...] = ()
    apply: str = ""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    machine: Machine | None = None
    fifo_depth: int | None = None
    fifo_depths: Mapping[str, int | None] = field(default_factory=dict)
    compute: Mapping[str, float] = field(default_factory=dict)
    par_dispatch: Mapping[str, int] = field(default_factory=dict)
    bindings: Mapping[Any, Any] | None = None
    parts: tuple[str, ...] = ()
    buildable: bool = True
    place: Placement | None = None

    def variant(self, machine: Machine) -> Variant:
        """The change as a variant of a program on a machine."""
        target = self.machine
        if target is None and self.overrides:
            target = load_machine(machine, dict(self.overrides))
        return Variant(
            self.name,
            self.fifo_depth,
            self.fifo_depths,
            self.compute,
            target,
            self.bindings,
            self.par_dispatch,
            self.place,
        )


def relaxations(
    prepared: Prepared,
    bindings: Mapping[Any, Any] | None,
    done: ImageRun,
    *,
    most: int,
    limits: Limits | None = None,
    ran: Callable[[], object] = lambda: None,
) -> list[Change]:
    """Each resource that the run uses, relaxed: doubled and, where that is informative, unlimited.

    Parameters
    ----------
    done : the run.
    most : number of groups of operators, of stages, and of FIFOs that are changed one by one: those
        that work longest, and those that stall their producers longest.
    limits : limits of the runs that search for the FIFOs that must be deeper.
    ran : called after each of these runs.
    """
    return [
        *_memory(prepared.machine, done),
        *_ports(done),
        *_onchip(prepared.machine),
        *_compute(prepared, done, most),
        *_queues(prepared, done, most),
        *_enough(prepared, deeper_queues(prepared, bindings, done, limits=limits, ran=ran)),
        *_balance(prepared),
        *(
            places.network_changes(prepared, bindings, done, ran=ran)
            if prepared.placement is not None
            else ()
        ),
        *(chip_links.chip_changes(prepared, done) if prepared.crossing is not None else ()),
    ]


def balanced(table: Routing) -> NDArray[np.int64]:
    """Indices ``[rows, k]`` that give all experts equally many rows, to within one, round robin."""
    even = np.arange(table.rows * table.k, dtype=np.int64) % table.experts
    return np.sort(even.reshape(table.rows, table.k), axis=1)


def _memory(machine: Machine, done: ImageRun) -> Iterator[Change]:
    """Nothing for a run that does not use the memory."""
    if not done.totals.memory_requests:
        return
    hbm = machine.hbm
    if hbm.dram is not None:
        yield from _dram(machine)
        return
    if done.totals.peak_bytes is not None:
        if hbm.interval % _FACTOR == 0:
            # The speed of a channel can be chosen only if it has a price.
            priced = machine.costs is not None and machine.costs.hbm_bytes_per_cycle is not None
            faster = {"hbm.interval": hbm.interval // _FACTOR}
            yield _of_machine("twice the HBM bandwidth", "hbm_bandwidth", faster, buildable=priced)
        free = {"hbm.model": "uncontended"}
        yield _of_machine("HBM bandwidth without limit", "hbm_bandwidth", free, buildable=False)
        if hbm.channels * _FACTOR <= 1 << 16:
            channels = {"hbm.channels": hbm.channels * _FACTOR}
            yield _of_machine("twice the HBM channels", "hbm_bandwidth", channels)
    if hbm.latency + hbm.startup > 1:
        half = {"hbm.latency": hbm.latency // _FACTOR, "hbm.startup": hbm.startup // _FACTOR}
        yield _of_machine("half the HBM latency", "hbm_latency", half)
        at_once = {"hbm.latency": 0, "hbm.startup": 0}
        yield _of_machine("no HBM latency", "hbm_latency", at_once, buildable=False)
    yield from _twice_outstanding(hbm, "requests")


def _dram(machine: Machine) -> Iterator[Change]:
    """Resources of a DRAM that can be increased. The speed of its banks is fixed by the chosen
    part."""
    port = machine.hbm.port or Port()
    channels = machine.hbm.channels
    if machine.hbm.dram is not None and channels * _FACTOR <= MOST_CHANNELS:
        twice = {"hbm.dram.channels": channels * _FACTOR}
        yield _of_machine("twice the HBM channels", "hbm_bandwidth", twice)
    if port.requests_per_cycle * _FACTOR <= _MOST_GRANTS:
        wider = {"hbm.port.requests_per_cycle": port.requests_per_cycle * _FACTOR}
        yield _of_machine("twice the requests per cycle", "hbm_bandwidth", wider)
    yield from _twice_outstanding(machine.hbm, "reads")
    further = {"hbm.port.read_ahead": min(4096, max(_READ_AHEAD, port.read_ahead * _FACTOR))}
    yield _of_machine("loads that read further ahead", "hbm_latency", further)
    at_once = {"hbm.port.request_latency": 1, "hbm.port.response_latency": 0}
    if port.request_latency + port.response_latency > 1:
        yield _of_machine("no latency to the DRAM", "hbm_latency", at_once, buildable=False)


def _twice_outstanding(hbm: Hbm, what: str) -> Iterator[Change]:
    """Nothing where any number may be under way."""
    if hbm.outstanding is not None and hbm.outstanding * _FACTOR <= _MOST_OUTSTANDING:
        more = {"hbm.port.outstanding": hbm.outstanding * _FACTOR}
        yield _of_machine(f"twice the outstanding {what} of a port", "hbm_latency", more)


def _ports(done: ImageRun) -> list[Change]:
    """The memory port that issues longest, twice as wide, alone and with its lanes."""
    names, requests = done.image.unit_names, done.execution.units["requests"]
    widths = dispatch_widths(done.image)
    issuing = {unit: -(-int(requests[unit]) // width) for unit, width in widths.items()}
    longest = max(issuing, key=lambda unit: issuing[unit], default=None)
    if longest is None or issuing[longest] < _BUSY * done.totals.cycles:
        return []
    title = _groups(names[longest])[0]
    lanes = [unit for unit in widths if _groups(names[unit])[0] == title]
    found = {tuple(lanes): title, (longest,): names[longest]}
    return [
        _wider(title, {names[unit]: widths[unit] for unit in who})
        for who, title in found.items()
        if _FACTOR * max(widths[unit] for unit in who) <= PAR_DISPATCH.high
    ]


def _wider(title: str, widths: Mapping[str, int]) -> Change:
    width = _FACTOR * max(widths.values())
    count = f" ({len(widths)} operators)" if len(widths) > 1 else ""
    return Change(
        f"par_dispatch {width} of {title}", "hbm_port", title, tuple(widths),
        f"par_dispatch={width} of {title}{count}", par_dispatch=dict.fromkeys(widths, width),
    )  # fmt: skip


def _onchip(machine: Machine) -> Iterator[Change]:
    present = machine.onchip.bytes_per_cycle
    if present * _FACTOR <= _MOST_ONCHIP:
        twice = {"onchip.bytes_per_cycle": present * _FACTOR}
        yield _of_machine("twice the on-chip bandwidth", "onchip_bandwidth", twice)
    free = {"onchip.bytes_per_cycle": _MOST_ONCHIP}
    if present < _MOST_ONCHIP:
        yield _of_machine(
            "on-chip bandwidth without limit", "onchip_bandwidth", free, buildable=False
        )


def _compute(prepared: Prepared, done: ImageRun, most: int) -> list[Change]:
    """The operators that work longest: alone, with their lanes, all lanes of a stage, and all."""
    names, units = done.image.unit_names, done.execution.units
    present = compute_bandwidths(done.image)
    can = [unit for unit in present if _has_flops(prepared, unit)]
    ran = sorted(
        (unit for unit in can if units["flops"][unit] > 0),
        key=lambda unit: (-int(units["busy"][unit]), unit),
    )
    if not ran:
        return []
    operators: dict[str, None] = {}
    stages: dict[str, None] = {}
    for unit in ran:
        operator, stage = _groups(names[unit])
        operators.setdefault(operator)
        if stage:
            stages.setdefault(stage)
    wanted = [names[ran[0]], *list(operators)[:most], *list(stages)[:most], "every operator"]
    chosen: dict[tuple[int, ...], str] = {}
    for title in wanted:
        members = tuple(
            unit
            for unit in can
            if title in (names[unit], *_groups(names[unit])) or title == "every operator"
        )
        chosen.setdefault(members, title)
    return [
        _faster(title, [names[unit] for unit in members], {present[unit] for unit in members}, how)
        for members, title in chosen.items()
        for how in (float(_FACTOR), math.inf)
    ]


def _has_flops(prepared: Prepared, unit: int) -> bool:
    operator = prepared.wiring.units[unit].operator
    return isinstance(operator, Compute) and operator.has_flops()


def _groups(name: str) -> tuple[str, str]:
    """The operator of which a unit is a lane, or else its name, and the pattern of its lanes."""
    place = place_of(name)
    return (place.operator, place.stage or "every lane") if place.lane else (name, "")


def _faster(title: str, targets: Sequence[str], rates: set[int], factor: float) -> Change:
    limited = factor != math.inf
    rate = f"{_FACTOR * min(rates)}" if len(rates) == 1 else f"{_FACTOR} x what it is"
    count = f" ({len(targets)} operators)" if len(targets) > 1 else ""
    return Change(
        name=f"twice the compute of {title}" if limited else f"compute without limit of {title}",
        kind="compute",
        target=title,
        targets=tuple(targets),
        apply=f"compute_bw={rate if limited else 'as large as can be'} of {title}{count}",
        compute=dict.fromkeys(targets, factor),
        buildable=limited,
    )


def _queues(prepared: Prepared, done: ImageRun, most: int) -> Iterator[Change]:
    """All FIFOs unbounded, and those that stall their producers longest, one by one."""
    # Those of carriers follow those of the program.
    count = len(prepared.wiring.fifos)
    records, names = done.execution.channels[:count], done.image.channel_names[:count]
    if not count:
        return
    yield Change(
        "every FIFO unbounded", "fifo_depth", "every FIFO", tuple(names),
        "--fifo-depth auto finds depths that are as fast",
        fifo_depths=dict.fromkeys(names), buildable=False,
    )  # fmt: skip
    flows = Counter(map(flow_of, names, _consumers(prepared, names)))
    groups: dict[str, list[int]] = {}
    waits = records["wait_out"].tolist()
    for fifo in sorted(range(len(names)), key=lambda c: (-waits[c], c)):
        if waits[fifo] > 0:
            place = place_of(names[fifo])
            groups.setdefault(place.operator if place.lane else names[fifo], []).append(fifo)
    for members in list(groups.values())[:most]:
        targets = [names[fifo] for fifo in sorted(members)]
        title = flows_text(zip(targets, _consumers(prepared, targets), strict=True))
        if flows[title] > 1:
            title += f" (FIFO {targets[0]})"  # of several between the same two
        twice = {names[fifo]: _FACTOR * int(records["cap"][fifo]) for fifo in sorted(members)}
        depths = set(twice.values())
        how = (
            deepen_text(title, depths.pop()) if len(depths) == 1 else f"twice the depth of {title}"
        )
        yield Change(f"twice the depth of {title}", "fifo_depth", title, tuple(targets), how,
                     fifo_depths=twice)  # fmt: skip
        yield Change(f"{title} unbounded", "fifo_depth", title, tuple(targets),
                     deepen_text(title, None), fifo_depths=dict.fromkeys(targets),
                     buildable=False)  # fmt: skip


def _consumers(prepared: Prepared, fifos: Iterable[str]) -> list[str]:
    """The unit that receives from each of these FIFOs."""
    readers = {fifo: unit.name for unit in prepared.wiring.units for fifo in unit.inputs}
    return [readers[prepared.fifo_numbers[name]] for name in fifos]


def _enough(prepared: Prepared, queues: DeeperQueues | None) -> list[Change]:
    """The fewest FIFOs that must be deeper, all at once."""
    if queues is None:
        return []
    consumers = _consumers(prepared, queues.depths)
    title = flows_text(zip(queues.depths, consumers, strict=True), _MOST_LANES)
    depth = max(queues.depths.values())
    return [
        Change(f"depth {depth:,} of {title}", "fifo_depth", title, tuple(queues.depths),
               deepen_text(title, depth), fifo_depths=queues.depths)
    ]  # fmt: skip


def _balance(prepared: Prepared) -> list[Change]:
    """Equally many rows for every expert, with the given tokens and experts per token."""
    tables = [table for table in prepared.program.routings if table.experts > 1]
    if not tables:
        return []
    even = {table: balanced(table) for table in tables}
    title = ", ".join(table.name for table in tables)
    how = "a router that balances its load"
    return [Change("a balanced routing", "balance", title, apply=how, bindings=even)]


def _of_machine(
    name: str, kind: str, overrides: Mapping[str, Any], *, buildable: bool = True
) -> Change:
    return Change(
        name, kind, apply=option_text(overrides), overrides=overrides, buildable=buildable
    )


def option_text(overrides: Mapping[str, Any]) -> str:
    """The options that set values of a machine on the command line."""
    texts = {key: str(value).replace(" ", "") for key, value in overrides.items()}
    return " ".join(f"--set {key}={text}" for key, text in texts.items())


def deepen_text(fifos: str, depth: int | None) -> str:
    """How to give FIFOs, listed in words, this depth, or make them unbounded."""
    if depth is None:
        return f"--fifo-depth auto finds a depth of {fifos} that is as fast"
    return f"with_depth({depth}) of {fifos}, or --fifo-depth FILE"


def short_list(names: Sequence[str]) -> str:
    """The names if they are few, otherwise their common group or their number."""
    if len(names) <= _MOST_LANES:
        return ", ".join(names)
    groups = list(dict.fromkeys(place_of(name).operator for name in names))
    return groups[0] if len(groups) == 1 else f"{len(names)} of them"
