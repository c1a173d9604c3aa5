"""Program + machine + bindings -> unit network."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from stepsim.errors import MachineError
from stepsim.graph import Program, Wiring, wire
from stepsim.graph.limits import FIFO_DEPTH
from stepsim.kernels.memory.dispatch import MEMORY_MODELS
from stepsim.lowering.network import ChannelSpec, Network, TimingParams, UnitSpec
from stepsim.machine import Machine

__all__ = ["default_depth", "lower", "network_of", "timing_of"]


def timing_of(machine: Machine) -> TimingParams:
    """The numbers of a machine that the timing rules use.

    Raises
    ------
    MachineError
        The engine has no such memory model.
    """
    model = machine.hbm.model
    if model not in MEMORY_MODELS:
        near = get_close_matches(model, MEMORY_MODELS, 1)
        hint = f"; did you mean '{near[0]}'?" if near else "."
        if model == "channel":
            hint = "; 'channel' is named 'published' now."
        raise MachineError(
            f"machine '{machine.name}': hbm.model is '{model}', expected one of "
            f"{', '.join(MEMORY_MODELS)}{hint} A package adds models under the entry points "
            "'stepsim.memory_models'"
        )
    return TimingParams(
        onchip_bytes_per_cycle=machine.onchip.bytes_per_cycle,
        request_bytes=machine.hbm.request_bytes,
        hbm_channels=machine.hbm.channels,
        hbm_interval=machine.hbm.interval,
        hbm_latency=machine.hbm.latency,
        hbm_startup=machine.hbm.startup,
        closure_slack=machine.closure_slack,
        memory_model=model,
        model=machine.model,
    )


def default_depth(
    program: Program, machine: Machine, fifo_depth: int | None = None
) -> tuple[int, str]:
    """Tokens that FIFOs without a depth of their own hold, and who says so.

    The first that states one decides: the call (``fifo_depth``), the machine (``fifo.depth``), the
    program, else the default of machines.

    Raises
    ------
    ArgError
        ``fifo_depth`` is no int from 1.
    """
    if fifo_depth is not None:
        return FIFO_DEPTH.checked("fifo_depth", fifo_depth), "call"
    if machine.fifo.depth is not None:
        return machine.fifo.depth, "machine"
    if program.fifo_depth is not None:
        return program.fifo_depth, "program"
    return machine.fifo_depth, "default"


def network_of(wiring: Wiring, machine: Machine, fifo_depth: int | None = None) -> Network:
    """Units and channels with their depths: the stream's own, else that of `default_depth`."""
    default, _ = default_depth(wiring.program, machine, fifo_depth)
    return Network(
        units=tuple(UnitSpec(u.name, u.kind, u.inputs, u.outputs, u.params) for u in wiring.units),
        channels=tuple(ChannelSpec(c.name, c.depth or default) for c in wiring.fifos),
        timing=timing_of(machine),
    )


def lower(
    program: Program,
    machine: Machine,
    bindings: Mapping[Any, Any] | None = None,
    fifo_depth: int | None = None,
) -> tuple[Wiring, Network]:
    """Broadcast insertion, construction order and channel depths of a finished program."""
    wiring = wire(program, bindings)
    return wiring, network_of(wiring, machine, fifo_depth)
