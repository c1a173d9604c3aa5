"""The numbers of one run, gathered from its program and its result, for JSON and for tables."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from stepsim.results import Result

__all__ = ["BusyUnit", "ProgramNumbers", "RunSummary", "busiest_units", "summarize"]


@dataclass(frozen=True, slots=True)
class ProgramNumbers:
    """What a program needs, whatever the time it takes.

    Attributes
    ----------
    offchip_bytes, onchip_bytes : traffic and memory, in bytes, as the memory model counts them.
    flops : FLOPs as the memory model counts them, those on padding rows included.
    padded_flops : the part of ``flops`` that is spent on padding rows.
    allocated_flops_per_cycle : compute bandwidth of all operators that are counted as compute.
    """

    offchip_bytes: int
    onchip_bytes: int
    flops: int
    padded_flops: int
    allocated_flops_per_cycle: int


@dataclass(frozen=True, slots=True)
class BusyUnit:
    """One unit's account: cycles that add up to the run, and the peer it waited for longest."""

    name: str
    operator: str
    busy: int
    wait_memory: int
    wait_input: int
    wait_output: int
    before: int
    after: int
    longest_wait: str | None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Everything that is said about one run.

    Attributes
    ----------
    status : ``ok``, ``deadlock``, ``failed`` or ``limit``.
    cycles : length of the run; of the part that was simulated unless the status is ``ok``.
    program : what the program needs.
    peak_bandwidth : off-chip bytes per cycle of the machine at best.
    executed_flops : FLOPs that the operators executed in the run.
    traffic_bytes : payload that was moved off chip in the run.
    memory_requests, bus_bytes : off-chip requests, and bytes on the memory bus.
    engine_steps, wall_seconds : cost of the simulation alone.
    busiest : the units that worked longest, busiest first.
    """

    status: str
    cycles: int
    program: ProgramNumbers
    peak_bandwidth: float
    executed_flops: int
    traffic_bytes: int
    memory_requests: int
    bus_bytes: int
    engine_steps: int
    wall_seconds: float
    busiest: tuple[BusyUnit, ...] = ()

    @property
    def compute_utilization(self) -> float | None:
        """Counted FLOPs per cycle over those allocated; see `_counted_share`."""
        return self._counted_share(self.program.flops, self.executed_flops, self._allocated)

    @property
    def executed_compute_utilization(self) -> float | None:
        """Executed FLOPs per cycle over those allocated."""
        return self._share(self.executed_flops, self._allocated)

    @property
    def bandwidth_utilization(self) -> float | None:
        """Counted off-chip bytes per cycle over the machine's peak; see `_counted_share`."""
        return self._counted_share(
            self.program.offchip_bytes, self.traffic_bytes, self.peak_bandwidth
        )

    @property
    def executed_bandwidth_utilization(self) -> float | None:
        """Moved off-chip bytes per cycle over the machine's peak."""
        return self._share(self.traffic_bytes, self.peak_bandwidth)

    @property
    def steps_per_second(self) -> float | None:
        """Speed of the engine; None if the run was too short to time."""
        return _ratio(self.engine_steps, self.wall_seconds)

    @property
    def _allocated(self) -> int:
        return self.program.allocated_flops_per_cycle

    def _counted_share(self, counted: int, executed: int, per_cycle: float) -> float | None:
        # The published counting charges bytes and FLOPs that no operator spends. Where they would
        # not fit into the run they say nothing about it, and what was spent stands in.
        share = self._share(counted, per_cycle)
        return self._share(executed, per_cycle) if share is None else share

    def _share(self, amount: int, per_cycle: float) -> float | None:
        """Part of what the run had room for; None if there is no such part.

        That is so for a part of a run, since the program's numbers belong to a whole one, and for
        memories that are not shared, which together exceed the peak of one.
        """
        share = _ratio(amount, self.cycles * per_cycle) if self.status == "ok" else None
        return None if share is None or share > 1 else share

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
            "peak_bandwidth": self.peak_bandwidth,
            "executed_flops": self.executed_flops,
            "executed_compute_utilization": self.executed_compute_utilization,
            "executed_bandwidth_utilization": self.executed_bandwidth_utilization,
            "traffic_bytes": self.traffic_bytes,
            "memory_requests": self.memory_requests,
            "bus_bytes": self.bus_bytes,
            "engine_steps": self.engine_steps,
            "wall_seconds": self.wall_seconds,
        }


def summarize(result: Result, program: ProgramNumbers, count: int = 5) -> RunSummary:
    """The summary of a result, with its ``count`` busiest units."""
    return RunSummary(
        status=result.status,
        cycles=result.cycles,
        program=program,
        peak_bandwidth=result.peak_bandwidth,
        executed_flops=result.flops,
        traffic_bytes=result.traffic_bytes,
        memory_requests=result.memory_requests,
        bus_bytes=result.bus_bytes,
        engine_steps=result.engine_steps,
        wall_seconds=result.wall_seconds,
        busiest=busiest_units(result.units, count),
    )


def busiest_units(units: pa.Table, count: int = 5) -> tuple[BusyUnit, ...]:
    """The ``count`` units of a result that worked longest; ties go by position."""
    rows = units.select([field.name for field in fields(BusyUnit)]).to_pylist()
    rows.sort(key=lambda row: -row["busy"])
    return tuple(BusyUnit(**row) for row in rows[:count])


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
