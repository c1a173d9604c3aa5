"""``simulate`` at the hardware level: a network of units, or a program by its network.

A run of a network gives a `HardwareResult`; a run of a program the same kind of result as at other
levels.
"""

from __future__ import annotations

import time
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

from stepsim.arguments import shown
from stepsim.errors import ArgError, LoweringError
from stepsim.graph import LinearLoad, Program, Tile
from stepsim.hardware.from_program import network_of
from stepsim.hardware.loading import load_machine
from stepsim.hardware.machine import Machine
from stepsim.hardware.network import Network
from stepsim.hardware.network_run import run_network
from stepsim.hardware.result import HardwareResult
from stepsim.hardware.units import SIDE
from stepsim.kernels import run_hardware
from stepsim.lowering import software
from stepsim.results import Diagnosis, Failure, Result, Tables, utilization

if TYPE_CHECKING:
    import pyarrow as pa

STATUS: Final = {"ok": "ok", "stall": "deadlock", "mismatch": "failed", "limit": "limit"}
"""The status of a run, in the terms of results at all levels."""

_OFF_CHIP = ("reader", "writer")


@overload
def simulate(
    program: Program,
    machine: Machine | str | Path = "hdl",
    *,
    trace: bool = False,
    max_cycles: int | None = None,
    every_cycle: bool = False,
) -> Result: ...
@overload
def simulate(
    program: Network,
    machine: Machine | str | Path = "hdl",
    *,
    trace: bool = False,
    max_cycles: int | None = None,
    every_cycle: bool = False,
) -> HardwareResult: ...
def simulate(
    program: Program | Network,
    machine: Machine | str | Path = "hdl",
    *,
    trace: bool = False,
    max_cycles: int | None = None,
    every_cycle: bool = False,
) -> Result | HardwareResult:
    """Simulate the hardware units of a program, or a network of units, cycle by cycle.

    Parameters
    ----------
    program : a program whose operators have units (see :func:`network_of`), or a network made by
        :func:`stepsim.hardware.swiglu` or by hand.
    machine : a machine of the hardware level, or the name or file of one; by default the HDL of the
        paper's Figure 8.
    trace : record every event of every FIFO.
    max_cycles : cycles after which the run is cut off, with status ``limit``; None: no limit. A run
        in which nothing can act any more ends by itself.
    every_cycle : visit every unit in every cycle instead of only those that can act: the same
        result, several times slower.

    Returns
    -------
    Result
        For a program; its ``hardware`` is the :class:`~stepsim.hardware.HardwareResult`, with
        counts of DRAM commands; ``units`` and ``fifos`` are its tables. A stall is a ``deadlock``,
        a map that meets unequal stops has ``failed``. FLOPs are those of the program or, if the run
        is not ok, of the products that were made. The peak bandwidth is that of the
        memory in use (:attr:`Machine.peak_bandwidth <stepsim.hardware.Machine.peak_bandwidth>`).
    HardwareResult
        For a network.

    Raises
    ------
    GraphError : a FIFO that nothing takes from; ports with gaps; a pointer beyond the ports; a
        stream that addresses do not reach, or whose last entry would never be released.
    LoweringError : operators without a unit, or tiles of another size than the machine's.
    ArgError : an argument of the wrong type or range.
    MachineError : the machine is unknown or invalid.
    """
    if isinstance(program, Network):
        target = load_machine(machine)
        return run_network(
            program, target, trace=trace, max_cycles=max_cycles, every_cycle=every_cycle
        )
    if not isinstance(program, Program):
        raise ArgError(
            f"simulate: expected a Program or a stepsim.hardware.Network, found {shown(program)}"
        )
    network, target = on_hardware(program, machine)
    run_hardware.make_ready()  # Time the simulation alone.
    begin = time.perf_counter()
    run = run_network(network, target, trace=trace, max_cycles=max_cycles, every_cycle=every_cycle)
    return _result(program, network, run, time.perf_counter() - begin)


class OnHardware(NamedTuple):
    """A network of hardware units, and the machine that it runs on."""

    network: Network
    machine: Machine


def on_hardware(program: Program, machine: Machine | str | Path = "hdl") -> OnHardware:
    """The network of a program for a machine.

    Raises
    ------
    LoweringError : operators without a unit, or tiles of another size than the machine's.
    ArgError, MachineError : there is no such program or machine.
    """
    target = load_machine(machine)
    network = network_of(program)
    _check_tiles(program, target)
    return OnHardware(network, target)


def measures(result: Result, flops: int | None) -> dict[str, Any]:
    """Columns of a run of a program that the hardware determines: time, compute, utilization.

    ``flops`` are those counted in the run; None where they are not known.
    """
    run: HardwareResult = result.hardware
    units = sum(unit.function == "product" for unit in run.units.values())
    allocated = units * 2 * SIDE**3 // run.machine.product.interval
    return {
        "milliseconds": run.milliseconds,
        "allocated_flops_per_cycle": allocated,
        "compute_utilization": utilization(result.status, flops, allocated * result.cycles),
    }


class _HardwareTables(Tables):
    """Rows of the hardware's units and FIFOs, which have tables of their own."""

    def __init__(self, run: HardwareResult) -> None:
        super().__init__(dict, dict)
        self._run = run

    @property
    def units(self) -> pa.Table:
        """Kind, function and firings of every unit; first and last."""
        return self._run.unit_table()

    @property
    def fifos(self) -> pa.Table:
        """Depth, messages, peak and mean occupancy of every FIFO."""
        return self._run.fifo_table()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_units": dict, "_fifos": dict, "_run": self._run}


def _result(program: Program, network: Network, run: HardwareResult, seconds: float) -> Result:
    """A run of the network of a program, as a result like those at all levels."""
    machine = run.machine
    moved = sum(unit.firings for unit in run.units.values() if unit.kind in _OFF_CHIP)
    products = sum(unit.firings for unit in run.units.values() if unit.function == "product")
    flops = int(program.metrics().flops) if run.status == "ok" else 2 * SIDE**3 * products
    sent = sum(fifo.sent for fifo in run.fifos.values())
    peak = machine.peak_bandwidth
    return Result(
        program=program.name,
        status=STATUS[run.status],
        cycles=run.cycles,
        offchip_bytes=moved * machine.tile_bytes,
        bus_bytes=run.offchip_bytes,
        memory_requests=run.requests,
        flops=flops,
        tokens=sent,
        undelivered_tokens=sent - sum(fifo.received for fifo in run.fifos.values()),
        engine_steps=sum(run.firings.values()),
        wall_seconds=seconds,
        tables=_HardwareTables(run),
        peak_bandwidth=peak,
        peak_bytes=int(peak * run.cycles),
        provenance={
            "level": "hardware",
            "program_hash": program.fingerprint(),
            "image_hash": _digest(network, machine),
            "machine": machine.to_dict(),
            "seed": None,
            **software(),
        },
        diagnosis=_diagnosis(run),
        hardware=run,
    )


def _check_tiles(program: Program, machine: Machine) -> None:
    """Check that all tiles have the size of the machine's tiles."""
    for op in program.operators:
        for out in op.outputs:
            tile = out.type
            if not isinstance(tile, Tile):
                continue  # Buffers of downtiled programs hold tiles that were checked before.
            size = SIDE * SIDE * tile.dtype.bits // 8
            if size == machine.tile_bytes:
                continue
            what = "loads" if isinstance(op, LinearLoad) else "makes"
            where = f" ({op.source})" if op.source else ""
            raise LoweringError(
                f"{op.title()} {what} tiles of {SIDE}x{SIDE} {tile.dtype}, {size} bytes, "
                f"and machine '{machine.name}' has tiles of {machine.tile_bytes} bytes; use f32 "
                f"alone, or set tile_bytes={size} where all tiles are of that size{where}"
            )


def _digest(network: Network, machine: Machine) -> str:
    text = repr((network.units, network.fifos, sorted(machine.to_dict().items(), key=str)))
    return sha256(text.encode()).hexdigest()


def _diagnosis(run: HardwareResult) -> Diagnosis | None:
    if run.status == "ok":
        return None
    status = STATUS[run.status]
    failures: tuple[Failure, ...] = ()
    if run.status == "mismatch":
        kind = run.units[run.place].kind if run.place in run.units else ""
        failures = (Failure(run.place, kind, run.cycles, run.message),)
    return Diagnosis(status, run.message, failures)
