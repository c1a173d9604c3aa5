"""What members of an ensemble are disturbed in at the hardware level: hdl.md section 13.

Every entry is a value of the machine, which a member has by so much more, or less.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

from stepsim.hardware import load_machine
from stepsim.simulation.ensembles.disturbances import Disturbance, draw_one
from stepsim.simulation.hardware_level.programs import OnHardware

__all__ = ["HARDWARE"]


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
    """A turn that begins so many ports further on."""
    pointer = (what.machine.memory.pointer + change) % what.network.ports
    return what._replace(machine=load_machine(what.machine, {"memory.pointer": pointer}))


def _entry(name: str, about: str, bounds: tuple[int, int], applies: Any) -> Disturbance:
    return Disturbance(name, about, bounds, applies, draw_one, _changed(name))


HARDWARE: Final = (
    Disturbance(
        "memory.pointer",
        "ports by which the one whose turn is the first is moved on",
        (0, 254),
        _has_memory,
        draw_one,
        _with_pointer,
        most=lambda what: what.network.ports - 1,
    ),
    _entry(
        "memory.return_delay",
        "cycles that every response of the DRAM comes later",
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
        "messages that every FIFO without a depth of its own holds more",
        (0, 1),
        lambda what: True,
    ),
)
"""All entries, in the order in which they are applied."""
