"""Ensembles at the hardware level: the disturbances of members, and their runs.

Every entry is a value of the machine that is larger or smaller in a member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from stepsim.ensembles import Disturbance, Ending, Ensemble, disturbed_runs, draw_one
from stepsim.graph import Program
from stepsim.hardware.loading import load_machine
from stepsim.hardware.machine import Machine
from stepsim.hardware.network_run import run_network
from stepsim.hardware.simulation import STATUS, OnHardware, on_hardware
from stepsim.processes import in_threads


def ensemble(
    program: Program,
    machine: Machine | str | Path = "hdl",
    *,
    runs: int = 32,
    seed: int = 0,
    bounds: Mapping[str, int | tuple[int, int]] | None = None,
    max_cycles: int | None = None,
    threads: int | None = None,
) -> Ensemble:
    """Simulate a program and disturbed copies of it at the hardware level.

    Parameters are those of :func:`stepsim.ensemble` and of :func:`stepsim.hardware.simulate`; the
    disturbed values are those of the machine.

    Raises
    ------
    ArgError
        An argument is of the wrong type or out of range, a disturbance does not apply, or the
        nominal run is not ok.
    LoweringError, MachineError
        As :func:`stepsim.hardware.simulate`.
    """

    def end(member: OnHardware, stopped: Callable[[], bool]) -> Ending:
        done = run_network(member.network, member.machine, max_cycles=max_cycles, stopped=stopped)
        status = STATUS[done.status]
        return Ending(status, done.message, done.cycles if status == "ok" else None)

    def run(members: Sequence[OnHardware], count: int) -> list[Ending]:
        return in_threads([partial(end, member) for member in members], count)

    what = on_hardware(program, machine)
    return disturbed_runs(
        program.name, what.machine.name, what, DISTURBANCES, run,
        runs=runs, seed=seed, bounds=bounds, threads=threads,
    )  # fmt: skip


def _has_memory(what: OnHardware) -> bool:
    return what.network.ports > 0


def _changed(name: str) -> Callable[[OnHardware, int], OnHardware]:
    value = attrgetter(name)

    def apply(what: OnHardware, change: int) -> OnHardware:
        if change == 0:
            return what
        target = {name: max(0, value(what.machine) + change)}
        return what._replace(machine=load_machine(what.machine, target))

    return apply


def _with_pointer(what: OnHardware, change: int) -> OnHardware:
    """The first turn, moved on by a number of ports."""
    pointer = (what.machine.memory.pointer + change) % what.network.ports
    return what._replace(machine=load_machine(what.machine, {"memory.pointer": pointer}))


def _entry(name: str, about: str, bounds: tuple[int, int], applies: Any) -> Disturbance:
    return Disturbance(name, about, bounds, applies, draw_one, _changed(name))


DISTURBANCES: Final = (
    Disturbance(
        "memory.pointer",
        "ports by which the first turn of the arbiter moves on",
        (0, 254),
        _has_memory,
        draw_one,
        _with_pointer,
        most=lambda what: what.network.ports - 1,
    ),
    _entry(
        "memory.return_delay",
        "cycles by which every response of the DRAM is delayed",
        (0, 3),
        _has_memory,
    ),
    _entry(
        "dram.read_queue",
        "reads of a channel that wait for a command, at most",
        (-1, 0),
        lambda what: _has_memory(what) and what.machine.dram.read_queue > 1,
    ),
    _entry(
        "dram.write_queue",
        "writes of a channel that wait for a command, at most",
        (-1, 0),
        # It holds what the watermark waits for.
        lambda what: (
            _has_memory(what) and what.machine.dram.high_watermark < what.machine.dram.write_queue
        ),
    ),
    _entry(
        "fifo_depth",
        "additional messages in every FIFO without a stated depth",
        (0, 1),
        lambda what: True,
    ),
)
"""All entries, in the order in which they are applied."""
