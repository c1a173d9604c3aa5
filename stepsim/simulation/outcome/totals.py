"""The totals of a run: what the engine counted, without tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import reduce
from typing import TYPE_CHECKING

from stepsim.frozen import frozen
from stepsim.kernels import INFINITY, MEMORY_MODELS, Execution, RunState, Status
from stepsim.lowering import Image, TimingParams
from stepsim.simulation.outcome.tables import run_length

if TYPE_CHECKING:
    from stepsim.simulation.outcome.energy import EnergyTotals, UnitEnergy

_LIMITS = {
    RunState.CYCLE_LIMIT: "max_cycles",
    RunState.STEP_LIMIT: "max_steps",
}

_ADDED = (
    "cycles", "offchip_bytes", "bus_bytes", "memory_requests", "flops", "tokens", "engine_steps",
    "wall_seconds",
)  # fmt: skip
"""Totals of programs that run one after another add up in these."""


@frozen
class Totals:
    """Totals of one run, as in :class:`~stepsim.results.Result`.

    Attributes
    ----------
    status : "ok", "infeasible" (it succeeded, but the program does not fit the machine),
        "deadlock", "failed" or "limit".
    limit : name of the limit that ended the run, else empty.
    peak_bandwidth : off-chip bytes per cycle of the machine.
    peak_bytes : off-chip bytes that the machine can move in a run of this length; None where every
        operator has a memory of its own.
    reason : for a run that is not ok, one sentence.
    image_of : lays out what ran; many totals are kept, and few are asked for their image.
    energy : joules, where the machine has a table of energies.
    unit_energy : the same by unit, of single runs.
    """

    status: str
    limit: str
    cycles: int
    offchip_bytes: int
    bus_bytes: int
    memory_requests: int
    flops: int
    tokens: int
    engine_steps: int
    wall_seconds: float
    peak_bandwidth: float
    peak_bytes: int | None
    reason: str
    image_of: Callable[[], Image] = field(repr=False, compare=False)
    energy: EnergyTotals | None = None
    unit_energy: UnitEnergy | None = field(default=None, repr=False, compare=False)

    @property
    def image(self) -> Image:
        """The image that ran."""
        return self.image_of()

    @property
    def image_hash(self) -> str:
        """Digest of the image that ran."""
        return self.image.digest()


def totals_of(execution: Execution, timing: TimingParams, image: Image) -> Totals:
    """Add up the engine's records."""
    status, limit = ending_of(execution)
    units = execution.units
    requests = int(units["requests"].sum())
    cycles = run_length(execution)
    return Totals(
        status=status,
        limit=limit,
        cycles=cycles,
        offchip_bytes=int(units["traffic"].sum()),
        bus_bytes=requests * timing.request_bytes,
        memory_requests=requests,
        flops=int(units["flops"].sum()),
        tokens=int(execution.globals.tokens),
        engine_steps=int(execution.globals.steps),
        wall_seconds=execution.wall_seconds,
        peak_bandwidth=peak_bandwidth(timing),
        peak_bytes=peak_bytes(cycles, timing),
        reason="",
        image_of=lambda: image,
    )


def peak_bandwidth(timing: TimingParams) -> float:
    """Off-chip bytes per cycle of the machine, on all chips in use."""
    return timing.chips * timing.hbm_channels * timing.request_bytes / timing.hbm_interval


def peak_bytes(cycles: int, timing: TimingParams) -> int | None:
    """Off-chip bytes that the machine can move in a run.

    None where every operator has a memory of its own. A channel starts a request at once, then one
    in every interval, also in one that is cut off by the end of the run: rounding up, no run can
    use more. With a DRAM, that of its queues counts too, which take writes that are made later.
    """
    if not MEMORY_MODELS[timing.memory_model].shared:
        return None
    starts = -(-cycles // timing.hbm_interval)
    return timing.chips * (timing.hbm_channels * starts + timing.ahead) * timing.request_bytes


def ending_of(execution: Execution) -> tuple[str, str]:
    """Status of the run, and the limit that ended it."""
    if not execution.finished:
        if execution.timed_out:
            return "limit", "max_wall_seconds"
        if execution.state is RunState.CYCLE_LIMIT and execution.globals.max_cycles >= INFINITY:
            return "limit", "of 64-bit time, 2**62 cycles"
        if execution.state in _LIMITS:
            return "limit", _LIMITS[execution.state]
    if (execution.units["state"] == Status.FAILED).any():
        return "failed", ""
    return ("ok", "") if execution.finished else ("deadlock", "")


def added(runs: Sequence[Totals]) -> Totals:
    """Totals of programs that completed one after another."""
    last = runs[-1]
    sums = {name: sum(getattr(one, name) for one in runs) for name in _ADDED}
    peaks = [one.peak_bytes for one in runs]
    known = [one for one in peaks if one is not None]
    whole = sum(known) if len(known) == len(peaks) else None
    unfit = next((one for one in runs if one.status != "ok"), last)
    energies = [one.energy for one in runs if one.energy is not None]
    return replace(
        last,
        **sums,
        peak_bytes=whole,
        status=unfit.status,
        reason=unfit.reason,
        energy=reduce(lambda one, other: one.and_also(other), energies) if energies else None,
    )
