"""The machine of the hardware level: rates, latencies, storage, and the path to the DRAM."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from stepsim.deferred import deferred
from stepsim.machine import Dram, Section, choice, integer, number, optional, setting, text

if TYPE_CHECKING:
    import yaml
else:
    yaml = deferred("yaml")

_DEPTH = integer(1, 1 << 16)
_CYCLES = integer(0, 1 << 20)
_SOME_CYCLES = integer(1, 1 << 20)


@dataclass(init=False, unsafe_hash=True)
class Rate(Section):
    """How often a unit fires, and when its output is available."""

    interval: int = setting(_SOME_CYCLES, "cycles between two firings", default=1)
    latency: int = setting(
        _SOME_CYCLES, "cycles from a firing until its output is available", default=1
    )


@dataclass(init=False, unsafe_hash=True)
class Buffer(Section):
    """Storage of a buffer unit, and when it starts to work."""

    sets: int = setting(
        integer(1, 1 << 12), "sets of frames, each allocated as a whole", default=32
    )
    frames: int = setting(integer(1, 1 << 12), "tiles of a set", default=8)
    references: int = setting(
        integer(1, 1 << 20), "number of distinct ids of stored groups", default=256
    )
    wake_cycle: int = setting(
        _CYCLES, "first cycle in which buffers work; their tables are cleared before", default=256
    )


@dataclass(init=False, unsafe_hash=True)
class Memory(Section):
    """Path from readers and writers to the DRAM."""

    request_bytes: int = setting(
        integer(1, 1 << 20), "bytes of a request, which is one access of the DRAM", default=512
    )
    arbiter: str = setting(
        choice("rotating", "on-grant", "fair"),
        "how the turn passes: 'rotating' in every cycle, even if the port could not be served; "
        "'on-grant' once the port was served; 'fair' skips ports that cannot be served",
        default="rotating",
    )
    pointer: int = setting(integer(0, 254), "port that has the first turn", default=0)
    first_depth: int = setting(_DEPTH, "responses in the first FIFO of a port", default=128)
    second_depth: int = setting(
        _DEPTH,
        "responses in the second FIFO of a port; while it is full, the port gets no grant",
        default=128,
    )
    in_flight: int = setting(integer(1, 4096), "reads in flight", default=64)
    table: int = setting(_DEPTH, "reads that wait for older ones to return", default=64)
    request_delay: int = setting(_CYCLES, "additional cycles from a grant to the DRAM", default=0)
    return_delay: int = setting(_CYCLES, "additional cycles from the DRAM to the ports", default=0)
    base_step: int = setting(
        integer(0, 1 << 32),
        "bytes from the first entry of a port to that of the next; with 0 all start at address 0",
        default=0,
    )


@dataclass(init=False, unsafe_hash=True)
class Machine(Section):
    """A machine at the hardware level; the defaults are the HDL of the paper's Figure 8.

    Raises
    ------
    MachineError : an unknown, mistyped or out-of-range value.
    """

    name: str = setting(text(), "short name, shown in results", default="hdl")
    description: str = setting(text(empty=True), "what the machine describes", default="")
    fifo_depth: int = setting(_DEPTH, "messages of a FIFO between two units", default=2)
    tile_bytes: int = setting(integer(1, 1 << 20), "bytes of a hardware tile", default=1024)
    stop_bytes: int = setting(
        integer(0, 1 << 10), "bytes of the stop word after a stored tile", default=4
    )
    product: Rate = setting(Rate, "units that multiply tiles", default_factory=Rate)
    elementwise: Rate = setting(Rate, "all other maps", default_factory=Rate)
    buffer: Buffer = setting(Buffer, "buffer units", default_factory=Buffer)
    memory: Memory = setting(Memory, "path to the DRAM", default_factory=Memory)
    dram: Dram = setting(Dram, "the DRAM", default_factory=Dram)
    clock_ghz: float | None = optional(
        number(0, above=True), "clock frequency; runs then report times in milliseconds"
    )

    @classmethod
    def contradictions(
        cls, given: Mapping[Any, Any], checked: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """A clock of the DRAM has an effect only together with that of the machine."""
        for sentence in checked["dram"].unused_clock(checked["clock_ghz"]):
            yield "dram.clock_ghz", sentence

    @property
    def entry_bytes(self) -> int:
        """Bytes from one stored tile to the next."""
        return self.tile_bytes + self.stop_bytes

    @property
    def dram_clocks_per_cycle(self) -> Fraction:
        """Clocks of the DRAM in a cycle, exactly; 1 where the machine states no clock."""
        if self.clock_ghz is None:
            return Fraction(1)
        return Fraction(repr(self.dram.clock_ghz)) / Fraction(repr(self.clock_ghz))

    @property
    def peak_bandwidth(self) -> float:
        """Off-chip bytes per cycle when the memory in use is busy.

        It counts the channels that the addresses of requests reach, such as one of eight for
        ``hdl``, with 256 bytes; but at most one request per cycle.
        """
        size = self.memory.request_bytes
        step = math.gcd(size, self.memory.base_step)
        bursts = self.dram.accesses_per_clock(step) * self.dram_clocks_per_cycle
        return float(size * min(Fraction(1), bursts))

    def summary(self) -> str:
        """One line of numbers: storage, rates, and the memory."""
        return (
            f"{self.name}: FIFOs of {self.fifo_depth}, buffers of "
            f"{self.buffer.sets * self.buffer.frames} tiles of {self.tile_bytes} B, "
            f"DRAM {self.dram.preset}, requests of {self.memory.request_bytes} B, "
            f"{self.peak_bandwidth:g} B/cycle peak, arbiter {self.memory.arbiter}"
        )

    def to_yaml(self) -> str:
        """The text of a machine file that `load_machine` reads back as an equal machine."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)
