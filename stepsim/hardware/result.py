"""The result of a hardware-level run: cycles, counts of units, FIFOs and DRAM, and events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from stepsim.deferred import deferred
from stepsim.hardware.machine import Machine
from stepsim.machine import milliseconds

if TYPE_CHECKING:
    from stepsim.hardware import tables
else:
    tables = deferred("stepsim.hardware.tables")

pa: Any = deferred("pyarrow")

Status = Literal["ok", "stall", "mismatch", "limit"]


@dataclass(frozen=True, slots=True)
class UnitCounts:
    """The activity of a unit.

    Attributes
    ----------
    firings : tiles that a buffer played, entries that a reader emitted, tiles that a sink took,
        requests that the arbiter granted; for other units the cycles in which they acted.
        first, last : cycles of the first and last firing; None without any.
    """

    name: str
    kind: str
    function: str
    firings: int
    first: int | None
    last: int | None


@dataclass(frozen=True, slots=True)
class FifoCounts:
    """The traffic of a FIFO.

    Attributes
    ----------
    depth : messages that it holds.
    sent, received : messages put and taken.
    first : cycle of the first put; None without any.
    peak, mean : messages in it, most and on average over the run, at the start of a cycle.
    """

    name: str
    depth: int
    sent: int
    received: int
    first: int | None
    peak: int
    mean: float


@dataclass(frozen=True)
class HardwareResult:
    """A run at the hardware level.

    Attributes
    ----------
    network : name of the network.
    machine : the machine that it ran on.
    status : ``ok``; ``stall``: nothing can act any more, and a sink waits for its last tile;
        ``mismatch``: a map with several inputs met unequal stops; ``limit``: the cycle limit.
    cycles : index, from 0, of the cycle in which the last sink took its last tile; if the run is
        not ok, of the last cycle in which anything happened.
    place : the unit or FIFO where a stall or mismatch was found; empty otherwise.
    message : a sentence about the failure; empty for ``ok``.
    reads, writes : requests that the DRAM has accepted up to and including the last cycle.
    dram_commands : ``act``, ``pre``, ``rd``, ``wr`` (and ``ref``) up to and including it.
    units, fifos : counts by name, those of the memory path included.
    first_grant : cycle in which the first request was granted; None without memory.
    first_tile : cycle in which the first reader emitted its first tile.
    events : table of all events if the run was traced, else None: ``cycle``, ``event`` (put, get,
        send, return, refused), ``place`` (FIFO, ``dram`` or ``arbiter``) and ``value``: a stop,
        ``id:release:stop`` of a reference, ``port:address:write`` of a request, ``port:address`` of
        a response, the address behind the FIFOs of a port, the port that was refused.
    """

    network: str
    machine: Machine
    status: Status
    cycles: int
    reads: int
    writes: int
    dram_commands: Mapping[str, int]
    units: Mapping[str, UnitCounts]
    fifos: Mapping[str, FifoCounts]
    first_grant: int | None
    first_tile: int | None
    place: str = ""
    message: str = ""
    events: pa.Table | None = field(default=None, repr=False)

    @property
    def requests(self) -> int:
        """Requests that the DRAM has accepted."""
        return self.reads + self.writes

    @property
    def offchip_bytes(self) -> int:
        """Bytes of these requests."""
        return self.requests * self.machine.memory.request_bytes

    @property
    def milliseconds(self) -> float | None:
        """Length of the run by the clock; None where the machine states none."""
        return milliseconds(self.cycles, self.machine.clock_ghz)

    @property
    def firings(self) -> dict[str, int]:
        """Number of firings of every unit, by name."""
        return {name: unit.firings for name, unit in self.units.items()}

    def unit_table(self) -> pa.Table:
        """Units, one per row."""
        return tables.units_table(self)

    def fifo_table(self) -> pa.Table:
        """FIFOs, one per row."""
        return tables.fifos_table(self)

    def summary(self) -> str:
        """One line: the length of the run, or why it failed, and the traffic."""
        end = f"{self.cycles:,} cycles"
        if self.status != "ok":
            end = f"{self.status} at cycle {self.cycles:,}: {self.message}"
        commands = ", ".join(f"{n:,} {name.upper()}" for name, n in self.dram_commands.items() if n)
        return (
            f"{self.network} on {self.machine.name}: {end}; {self.reads:,} reads and "
            f"{self.writes:,} writes of {self.machine.memory.request_bytes} B"
            + (f" ({commands})" if commands else "")
        )


COMMANDS: Final = ("act", "pre", "rd", "wr", "ref")
"""Commands of the DRAM, in the order of their numbers, from 1."""
