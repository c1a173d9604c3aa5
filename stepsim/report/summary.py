"""The numbers of one run, gathered from its program and its result, for JSON and for tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BusyUnit", "ProgramNumbers", "RunSummary", "busiest_units"]


@dataclass(frozen=True, slots=True)
class ProgramNumbers:
    """What a program needs, whatever the time it takes.

    Attributes
    ----------
    offchip_bytes, onchip_bytes : traffic and memory, in bytes.
    flops : FLOPs on rows that carry tokens.
    padded_flops : FLOPs with the rows that fill up tiles.
    allocated_flops_per_cycle : compute bandwidth of all operators that are counted as compute.
    """

    offchip_bytes: int
    onchip_bytes: int
    flops: int
    padded_flops: int
    allocated_flops_per_cycle: int


@dataclass(frozen=True, slots=True)
class BusyUnit:
    """One unit's account, in cycles."""

    name: str
    operator: str
    busy: int
    wait_memory: int
    wait_input: int
    wait_output: int
    top_wait: str | None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Everything that is said about one run.

    Attributes
    ----------
    status : ``ok``, ``deadlock``, ``failed`` or ``limit``.
    cycles : length of the run; of the part that was simulated unless the status is ``ok``.
    program : what the program needs.
    peak_bandwidth : off-chip bytes per cycle of the machine at best.
    memory_requests, traffic_bytes : requests served, and bytes they moved.
    engine_steps, wall_seconds : cost of the simulation alone.
    busiest : the units that worked longest, busiest first.
    """

    status: str
    cycles: int
    program: ProgramNumbers
    peak_bandwidth: float
    memory_requests: int
    traffic_bytes: int
    engine_steps: int
    wall_seconds: float
    busiest: tuple[BusyUnit, ...] = ()

    @property
    def compute_utilization(self) -> float | None:
        """Useful FLOPs per cycle over those allocated; None if nothing is allocated or ran."""
        return _ratio(self.program.flops, self.cycles * self.program.allocated_flops_per_cycle)

    @property
    def bandwidth_utilization(self) -> float | None:
        """Off-chip bytes per cycle over the machine's peak; None if no cycle passed."""
        return _ratio(self.program.offchip_bytes, self.cycles * self.peak_bandwidth)

    @property
    def steps_per_second(self) -> float | None:
        """Speed of the engine; None if the run was too short to time."""
        return _ratio(self.engine_steps, self.wall_seconds)

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain values, without the units."""
        return {
            "status": self.status,
            "cycles": self.cycles,
            "offchip_bytes": self.program.offchip_bytes,
            "onchip_bytes": self.program.onchip_bytes,
            "flops": self.program.flops,
            "padded_flops": self.program.padded_flops,
            "allocated_flops_per_cycle": self.program.allocated_flops_per_cycle,
            "compute_utilization": self.compute_utilization,
            "bandwidth_utilization": self.bandwidth_utilization,
            "memory_requests": self.memory_requests,
            "traffic_bytes": self.traffic_bytes,
            "engine_steps": self.engine_steps,
            "wall_seconds": self.wall_seconds,
        }


def busiest_units(units: pa.Table, count: int = 5) -> tuple[BusyUnit, ...]:
    """The ``count`` units of a result that worked longest; ties go by position."""
    columns = ("name", "operator", "busy", "wait_memory", "wait_input", "wait_output", "top_wait")
    rows = units.select(columns).to_pylist()
    rows.sort(key=lambda row: -row["busy"])
    return tuple(BusyUnit(**row) for row in rows[:count])


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
