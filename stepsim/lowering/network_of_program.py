"""Program + machine + bindings -> unit network."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from math import ceil
from typing import TYPE_CHECKING, Any

from stepsim.deferred import deferred
from stepsim.errors import MachineError
from stepsim.graph import FIFO_DEPTH, Compute, Program, WiredUnit, Wiring, wire
from stepsim.kernels import (
    ARBITERS,
    CAN_BE_BOUNDED,
    MEMORY_MODELS,
    DramSpec,
    DramTiming,
    FrontEnd,
    dram_words,
    locate,
)
from stepsim.lowering.addresses import Place, address_map
from stepsim.lowering.network import ChannelSpec, Network, TimingParams, UnitOrigin, UnitSpec
from stepsim.machine import Machine, Port

if TYPE_CHECKING:
    import fractions
else:
    fractions = deferred("fractions")


def timing_of(machine: Machine) -> TimingParams:
    """The numbers of a machine that the timing rules use.

    Raises
    ------
    MachineError
        The engine has no such memory model, or the requests of its ports cannot be bounded.
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
    hbm, dram = machine.hbm, None
    rate = {
        "hbm_channels": hbm.channels, "hbm_interval": hbm.interval,
        "hbm_latency": hbm.latency, "hbm_startup": hbm.startup,
    }  # fmt: skip
    if MEMORY_MODELS[model].addressed:
        dram = dram_timing(machine)
        rate = _rate_of(dram)
    elif (
        hbm.outstanding is not None
        and model not in CAN_BE_BOUNDED
        and not MEMORY_MODELS[model].bounded_tables
    ):
        raise MachineError(
            f"machine '{machine.name}': hbm.port.outstanding is {hbm.outstanding}, but hbm.model "
            f"'{model}' takes no bound; {', '.join(CAN_BE_BOUNDED)} and dram do. Remove it, or set "
            "one of these models"
        )
    return TimingParams(
        onchip_bytes_per_cycle=machine.onchip.bytes_per_cycle,
        request_bytes=hbm.request_bytes,
        closure_slack=machine.closure_slack,
        memory_model=model,
        model=machine.model,
        dram=dram,
        outstanding=None if dram is not None else hbm.outstanding,
        **rate,
    )


def _rate_of(dram: DramTiming) -> dict[str, int]:
    """The peak rate of a DRAM, expressed as channels with a fixed interval."""
    spec, front = dram.spec, dram.front
    words, size = dram_words(spec, 1), front.request_bytes
    reached = {
        int(locate(words, request * size + part * spec.access_bytes))
        for request in range(spec.channels * spec.columns)
        for part in range(front.parts)
    }
    ratio = fractions.Fraction(front.clocks, front.cycles)
    busy = max(spec.pseudo_rd_rd, spec.group_rd_rd if spec.bank_groups == 1 else 0)
    accesses = fractions.Fraction(len(reached) * spec.pseudo_channels, busy)
    # A channel takes one command per clock.
    accesses = min(accesses, fractions.Fraction(len(reached))) * ratio
    rate = min(accesses / front.parts, fractions.Fraction(front.width))
    idle = ceil((1 + spec.bank_act_rd + spec.read_delay) / ratio)
    return {
        "hbm_channels": rate.numerator, "hbm_interval": rate.denominator,
        "hbm_latency": front.request_latency + idle + front.response_latency, "hbm_startup": 0,
    }  # fmt: skip


def dram_timing(machine: Machine) -> DramTiming:
    """The DRAM of a machine and the path to it.

    Raises
    ------
    MachineError
        The size of a request is not a multiple of an access of the DRAM.
    """
    hbm, port = machine.hbm, machine.hbm.port or Port()
    assert hbm.dram is not None
    spec = DramSpec(**hbm.dram.numbers())
    parts = hbm.request_bytes // spec.access_bytes if port.request == "split" else 1
    if hbm.request_bytes % spec.access_bytes or parts < 1:
        raise MachineError(
            f"machine '{machine.name}': hbm.request_bytes is {hbm.request_bytes}; expected a "
            f"multiple of {spec.access_bytes}, the bytes of an access of the DRAM"
        )
    outstanding = hbm.outstanding
    assert outstanding is not None  # of a DRAM it never is
    clocks = machine.dram_clocks_per_cycle
    front = FrontEnd(
        request_bytes=hbm.request_bytes,
        parts=parts,
        outstanding=outstanding,
        request_latency=port.request_latency,
        response_latency=port.response_latency,
        arbiter=ARBITERS.index(hbm.arbiter or "fair"),
        first=port.first,
        width=port.requests_per_cycle,
        head_of_line=port.when_refused == "wait",
        clocks=clocks.numerator,
        cycles=clocks.denominator,
    )
    return DramTiming(spec, front)


def default_depth(
    program: Program, machine: Machine, fifo_depth: int | None = None
) -> tuple[int, str]:
    """The depth of FIFOs that do not state one, in tokens, and where it comes from.

    The first source that states one decides: the call (``fifo_depth``), the machine
    (``fifo.depth``), the program, otherwise the default of machines.

    Raises
    ------
    ArgError
        ``fifo_depth`` is not an int from 1.
    """
    if fifo_depth is not None:
        return FIFO_DEPTH.checked("fifo_depth", fifo_depth), "call"
    if machine.fifo.depth is not None:
        return machine.fifo.depth, "machine"
    if program.fifo_depth is not None:
        return program.fifo_depth, "program"
    return machine.fifo_depth, "default"


def network_of(
    wiring: Wiring,
    machine: Machine,
    fifo_depth: int | None = None,
    places: Mapping[str, Place] | None = None,
) -> Network:
    """Units and channels with their depths: the stream's own, else that of `default_depth`.

    ``places`` are the places of tensors, for a machine whose memory has addresses.
    """
    default, _ = default_depth(wiring.program, machine, fifo_depth)
    timing = timing_of(machine)
    placed = None
    if timing.dram is not None:
        placed = address_map(wiring, machine, timing.dram, places)
    return Network(
        units=tuple(
            UnitSpec(u.name, u.kind, u.inputs, u.outputs, _params(u, machine), _origin(u))
            for u in wiring.units
        ),
        channels=tuple(ChannelSpec(c.name, c.depth or default) for c in wiring.fifos),
        timing=timing,
        accesses={} if placed is None else placed.accesses,
    )


def unit_bandwidth(unit: WiredUnit, machine: Machine) -> int | None:
    """FLOPs per cycle of a unit that has any, by the machine or, failing that, by its program."""
    operator = unit.operator
    if not isinstance(operator, Compute) or "bw" not in unit.params:
        return None
    stated = None if machine.compute is None else machine.compute.unit_flops_per_cycle
    own = unit.params["bw"]
    if stated is not None and operator.has_flops():
        return stated
    if own is None:
        raise operator.without_bandwidth()
    return int(own)


def _origin(unit: WiredUnit) -> UnitOrigin:
    """The place of a unit in the user's program; that of a broadcast is its stream's producer."""
    operator, source = unit.operator, unit.source or None
    if operator is None:
        return UnitOrigin(source=source)
    return UnitOrigin(operator.label or None, operator.function_name or None, source)


def _params(unit: WiredUnit, machine: Machine) -> Mapping[str, Any]:
    """Parameters of a unit on a machine, which may override compute bandwidths."""
    bandwidth = unit_bandwidth(unit, machine)
    if bandwidth is None or bandwidth == unit.params["bw"]:
        return unit.params
    return {**unit.params, "bw": bandwidth}


def lower(
    program: Program,
    machine: Machine,
    bindings: Mapping[Any, Any] | None = None,
    fifo_depth: int | None = None,
) -> tuple[Wiring, Network]:
    """Broadcast insertion, construction order and channel depths of a finished program."""
    wiring = wire(program, bindings)
    return wiring, network_of(wiring, machine, fifo_depth)
