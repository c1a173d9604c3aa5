"""Programs at the hardware level, with results in the form that runs of all levels have."""

from __future__ import annotations

import time
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from stepsim.arguments import shown
from stepsim.errors import ArgError, LoweringError
from stepsim.graph import LinearLoad, Program, Tile
from stepsim.hardware import SIDE, HardwareResult, Machine, Network, network_of, simulate
from stepsim.kernels import run_hardware
from stepsim.results import Diagnosis, Failure, Result, Tables
from stepsim.simulation.running.prepared import SEED
from stepsim.simulation.running.provenance import software

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STATUS", "OnHardware", "allocated", "on_hardware", "simulate_hardware"]

STATUS = {"ok": "ok", "stall": "deadlock", "mismatch": "failed", "limit": "limit"}
"""What a run ended with, in the words of results of all levels."""


class OnHardware(NamedTuple):
    """A network of hardware units, and the machine that it runs on."""

    network: Network
    machine: Machine


_OFF_CHIP = ("reader", "writer")


class _HardwareTables(Tables):
    """Units and FIFOs of the hardware, whose columns are those of their own tables."""

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


def simulate_hardware(
    program: Program,
    machine: Machine | None = None,
    *,
    max_cycles: int | None = None,
    seed: int | None = None,
) -> Result:
    """Simulate the network of hardware units of a program, cycle by cycle.

    Parameters
    ----------
    machine : of the hardware level; None: the HDL of the paper's Figure 8.
    max_cycles : cycles after which the run is cut off, with status ``limit``.
    seed : recorded in the provenance.

    Returns
    -------
    Result
        ``hardware`` of it is the :class:`~stepsim.hardware.HardwareResult`, with counts of DRAM
        commands; ``units`` and ``fifos`` are its tables. A stall is a ``deadlock``, a map that
        meets unequal stops has ``failed``. FLOPs are those of the program, of a run that did not
        end well those of the products that were made. The peak bandwidth is that of the memory in
        use (:attr:`Machine.peak_bandwidth <stepsim.hardware.Machine.peak_bandwidth>`).

    Raises
    ------
    ArgError : ``machine`` is none of the hardware level, or ``seed`` is out of range.
    LoweringError : operators without a unit, or tiles of another size than the machine's.
    """
    if seed is not None:
        seed = SEED.checked(f"program '{program.name}': seed", seed)
    network, machine = on_hardware(program, machine)
    run_hardware.make_ready()  # The time is that of the simulation alone.
    begin = time.perf_counter()
    run = simulate(network, machine, max_cycles=max_cycles)
    seconds = time.perf_counter() - begin
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
            "seed": seed,
            **software(),
        },
        diagnosis=_diagnosis(run),
        hardware=run,
    )


def on_hardware(program: Program, machine: Machine | None = None) -> OnHardware:
    """The network of a program for a machine; None: the HDL of the paper's Figure 8.

    Raises
    ------
    ArgError : ``machine`` is none of the hardware level.
    LoweringError : operators without a unit, or tiles of another size than the machine's.
    """
    if machine is None:
        machine = Machine()
    if not isinstance(machine, Machine):
        raise ArgError(
            f"program '{program.name}': hardware must be a stepsim.hardware.Machine, found "
            f"{shown(machine)}"
        )
    network = network_of(program)
    _check_tiles(program, machine)
    return OnHardware(network, machine)


def allocated(result: Result) -> int:
    """FLOPs per cycle of all units that multiply tiles."""
    run: HardwareResult = result.hardware
    units = sum(unit.function == "product" for unit in run.units.values())
    return units * 2 * SIDE**3 // run.machine.product.interval


def _check_tiles(program: Program, machine: Machine) -> None:
    """All tiles have the bytes that the machine's have."""
    for op in program.operators:
        for out in op.outputs:
            tile = out.type
            if not isinstance(tile, Tile):
                continue  # Buffers of downtiled programs hold tiles that are looked at before.
            size = SIDE * SIDE * tile.dtype.bits // 8
            if size == machine.tile_bytes:
                continue
            what = "loads" if isinstance(op, LinearLoad) else "makes"
            raise LoweringError(
                f"{op.title()} {what} tiles of {SIDE}x{SIDE} {tile.dtype}, {size} bytes, "
                f"and machine '{machine.name}' has tiles of {machine.tile_bytes} bytes; use f32 "
                f"alone, or set tile_bytes={size} where all tiles are of that size ({op.source})"
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
