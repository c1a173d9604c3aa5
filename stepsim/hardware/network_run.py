"""Run a network of hardware units cycle by cycle, and collect its results."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import Range, flag
from stepsim.deferred import deferred
from stepsim.hardware.image import Image, build_image
from stepsim.hardware.machine import Machine
from stepsim.hardware.network import Network
from stepsim.hardware.result import COMMANDS, FifoCounts, HardwareResult, Status, UnitCounts
from stepsim.kernels import Kind, Outcome, commands, run_hardware

if TYPE_CHECKING:
    from stepsim.hardware import tables
else:
    tables = deferred("stepsim.hardware.tables")

_PAUSE: Final = 500_000
"""Cycles between two returns to the interpreter, which notices Ctrl-C."""

_CYCLES = Range(1 << 50, "cycles of a run")


def run_network(
    network: Network,
    machine: Machine,
    *,
    trace: bool = False,
    max_cycles: int | None = None,
    every_cycle: bool = False,
    stopped: Callable[[], bool] = lambda: False,
) -> HardwareResult:
    """Simulate a network; the other parameters are those of `simulate`.

    Parameters
    ----------
    stopped : asked a few times per second whether to end the run, as at a limit.

    Raises
    ------
    GraphError, ArgError : as `simulate`.
    """
    flag("trace", trace)
    flag("every_cycle", every_cycle)
    image = build_image(network, machine, every=every_cycle, trace=trace)
    state = image.state
    g = state.globals[0]
    if max_cycles is not None:
        g.limit = _CYCLES.checked("max_cycles", max_cycles)
    run_hardware.make_ready()
    words: list[NDArray[np.int64]] = []
    while True:
        g.pause = g.cycle + _PAUSE
        outcome = Outcome(run_hardware(state))
        if trace:
            words.append(state.events[: g.events].copy())
            g.events = 0
        if outcome not in (Outcome.PAUSED, Outcome.FULL):
            break
        if stopped():
            g.limit = g.cycle
    events = None
    if trace:
        events = tables.events_table(words, image.fifos)
    return _result(network, machine, image, outcome, events)


_STATUS: Final[dict[Outcome, Status]] = {
    Outcome.DONE: "ok", Outcome.IDLE: "ok", Outcome.STALL: "stall", Outcome.MISMATCH: "mismatch",
    Outcome.LIMIT: "limit",
}  # fmt: skip


def _result(
    network: Network, machine: Machine, image: Image, outcome: Outcome, events: Any
) -> HardwareResult:
    state = image.state
    g = state.globals[0]
    last = int(g.cycle if outcome is Outcome.DONE else g.progress)
    place, message = _found(image, outcome, last)
    units = {
        name: UnitCounts(name, kind, function, int(un.fired), _cycle(un.first), _cycle(un.latest))
        for name, kind, function, un in zip(
            image.names, image.kinds, image.functions, state.units, strict=True
        )
    }
    fifos = {}
    for placed, fifo in zip(image.fifos, state.fifos, strict=True):
        if placed.shown:
            area = fifo.area + fifo.held * max(0, last + 1 - fifo.since)
            fifos[placed.name] = FifoCounts(
                placed.name, placed.depth, int(fifo.puts), int(fifo.gets), _cycle(fifo.first),
                int(fifo.most), float(area / (last + 1)),
            )  # fmt: skip
    tiles = [cycle for f in image.readers if (cycle := _cycle(state.fifos[f].first)) is not None]
    counts = dict.fromkeys(COMMANDS, 0) if g.channels else {}
    for channel in range(int(g.channels)):
        for number, name in enumerate(COMMANDS, 1):
            counts[name] += int(commands(state.dram, channel, number))
    return HardwareResult(
        network.name, machine, _STATUS[outcome], last, int(g.reads), int(g.writes), counts, units,
        fifos, _cycle(state.fifos[image.grants].first) if image.grants >= 0 else None,
        min(tiles, default=None), place, message, events,
    )  # fmt: skip


def _cycle(cycle: Any) -> int | None:
    return int(cycle) if cycle >= 0 else None


def _found(image: Image, outcome: Outcome, last: int) -> tuple[str, str]:
    """The place where a run failed, and a sentence about it."""
    g = image.state.globals[0]
    if outcome is Outcome.MISMATCH:
        name = image.names[g.unit]
        return name, (
            f"the inputs of {name} have unequal stops {_heads(image, g.unit)} in cycle {last}; "
            "stored groups of 8 j + 1 tiles overwrite each other (see the limits of buffers)"
        )
    if outcome is Outcome.LIMIT:
        return "", f"the run was cut off after {g.limit} cycles"
    if outcome is Outcome.STALL:
        return _stall(image, last)
    return "", ""


def _heads(image: Image, unit: int) -> str:
    """The stops at the heads of a unit's inputs."""
    state, un = image.state, image.state.units[unit]
    fifos = [state.fifos[f] for f in state.lists[un.in0 : un.in0 + un.inputs]]
    return " and ".join(str(state.rings[fifo.ring + fifo.head]) for fifo in fifos)


def _stall(image: Image, last: int) -> tuple[str, str]:
    """The full buffer, or else the full FIFOs and the sink that waits."""
    state = image.state
    lists, fifos = state.lists, state.fifos
    for name, un in zip(image.names, state.units, strict=True):
        if un.kind != Kind.BUFFER or un.spare >= 0 or un.current >= 0:
            continue
        free = state.words[un.table : un.table + un.block]
        if fifos[lists[un.in0]].held and not free.any():
            return name, (
                f"nothing can act after cycle {last}: buffer {name} has no free set left for the "
                f"tiles that wait; it holds {un.block} x {un.length} tiles, and its sets become "
                "free only once a whole group is stored and has been played for the last time"
            )
    waiting = [name for name, un in zip(image.names, state.units, strict=True) if un.final >= 0]
    full = [
        placed.name
        for placed, fifo in zip(image.fifos, fifos, strict=True)
        if placed.shown and fifo.held == placed.depth
    ]
    return waiting[0], (
        f"nothing can act after cycle {last}, and {waiting[0]} waits for its last tile; full "
        f"FIFOs: {', '.join(full) or 'none'}"
    )
