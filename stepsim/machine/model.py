"""The description of a target machine: off-chip memory, on-chip bandwidth and FIFO policy.

Times are cycles, sizes are bytes. A machine is frozen; a changed one is a new one
(``load_machine(machine, overrides=...)``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from stepsim.deferred import deferred
from stepsim.machine.chips import Chips as Chips
from stepsim.machine.compute import Compute as Compute
from stepsim.machine.costs import Costs as Costs
from stepsim.machine.device import Device as Device
from stepsim.machine.energy import Energy as Energy
from stepsim.machine.hbm import MOST, RHYTHM, Hbm as Hbm
from stepsim.machine.network import Network as Network, network_named
from stepsim.machine.section import (
    Section,
    choice,
    integer,
    json_schema,
    nullable,
    number,
    optional,
    section,
    setting,
    text,
)
from stepsim.typed import typed

if TYPE_CHECKING:
    import fractions

    import yaml
else:
    fractions = deferred("fractions")
    yaml = deferred("yaml")


DEFAULT_FIFO_DEPTH = 1024
"""Tokens that a FIFO holds when neither run nor machine nor program gives a depth."""

_ONCHIP_2026 = 512
"""On-chip bytes per cycle of the public simulator of 2026, a constant of its whole machine."""

_BYTES = _DEPTH = integer(1, MOST)


@section
class OnChip(Section):
    """On-chip memory, as each operand of an operator sees it separately."""

    bytes_per_cycle: int = setting(_BYTES, "bandwidth of one on-chip memory unit")
    capacity_bytes: int | None = optional(
        integer(1, 1 << 50), "total on-chip memory, which programs and compiled designs must fit"
    )


@section
class Fifo(Section):
    """The FIFOs between operators."""

    depth: int | None = setting(
        nullable(_DEPTH),
        "tokens a FIFO holds when a run gives no depth; null leaves it to the program, else "
        f"{DEFAULT_FIFO_DEPTH}",
        default=None,
    )


@section
class Machine(Section):
    """A validated target machine. Build one with `load_machine`.

    Raises
    ------
    MachineError : an unknown, missing, mistyped or out-of-range value.
    """

    name: str = setting(text(), "short name, shown in results")
    description: str = setting(text(empty=True), "what the machine describes", default="")
    model: str = setting(
        choice("step-2025", "step-2026"),
        "timing rules of the operators: those of the published artifact, or of the public "
        "simulator since, which leaves onchip.bytes_per_cycle at "
        f"{_ONCHIP_2026} where a file names none",
        default="step-2025",
    )
    hbm: Hbm = setting(Hbm, "off-chip memory")
    onchip: OnChip = setting(OnChip, "on-chip memory")
    fifo: Fifo = setting(Fifo, "FIFOs between operators", default_factory=Fifo)
    closure_slack: int = setting(
        # With more, an operator far behind a stream could act before what has happened already.
        integer(0, 2),
        "cycles by which the end of a stream is noticed earlier; 0 is canonical",
        default=0,
    )
    costs: Costs | None = optional(Costs, "prices of its resources")
    clock_ghz: float | None = optional(
        number(0, above=True), "clock frequency; runs then report times in milliseconds"
    )
    device: Device | None = optional(Device, "resources of an FPGA")
    compute: Compute | None = optional(Compute, "total compute bandwidth and regions")
    energy: Energy | None = optional(
        Energy, "energies of accesses and operations; runs then report joules"
    )
    chips: Chips | None = optional(Chips, "several chips, each like the rest says, and their links")
    noc: Network | None = optional(
        Network,
        "network on chip: the name of a preset, the path of a file, or a description",
        named=network_named,
    )

    @classmethod
    def completed(cls, values: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """Only the model of 2026 has a default on-chip bandwidth; others must state it."""
        model = values.get("model")
        # A value that is not text may not be comparable.
        if not (isinstance(model, str) and model == "step-2026"):
            return values
        onchip = values.get("onchip", {})
        if isinstance(onchip, Mapping) and "bytes_per_cycle" not in onchip:
            return {**values, "onchip": {**onchip, "bytes_per_cycle": _ONCHIP_2026}}
        return values

    @classmethod
    def contradictions(
        cls, given: Mapping[Any, Any], checked: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Static power needs times in seconds, hence a clock; a ratio of clocks needs one too."""
        energy = checked["energy"]
        if energy is not None and energy.static_watts > 0 and checked["clock_ghz"] is None:
            yield (
                "energy.static_watts",
                "static power needs the length of runs in seconds; state clock_ghz too, or leave "
                "it out",
            )
        if checked["hbm"].dram is not None:
            for sentence in checked["hbm"].dram.unused_clock(checked["clock_ghz"]):
                yield "hbm.dram.clock_ghz", sentence

    @property
    def peak_bandwidth(self) -> float:
        """Off-chip bytes per cycle when every channel is busy: channels x bytes / interval.

        For a DRAM these are the bytes of its bursts, by its clock; where a request is one access
        of several stacks in lock-step, those of the requests, on the channels that they reach.
        """
        dram = self.hbm.dram
        if dram is not None:
            port = self.hbm.port
            lock_step = port is not None and port.request == "lock-step"
            step = self.hbm.request_bytes if lock_step else dram.access_bytes
            return float(dram.accesses_per_clock(step) * step * self.dram_clocks_per_cycle)
        return self.hbm.channels * self.hbm.request_bytes / self.hbm.interval

    @property
    def dram_clocks_per_cycle(self) -> fractions.Fraction:
        """Clocks of the DRAM in a cycle, exactly; 1 where machine or DRAM state none."""
        if self.hbm.dram is None or self.clock_ghz is None:
            return fractions.Fraction(1)
        of_dram = fractions.Fraction(repr(self.hbm.dram.clock_ghz))
        return of_dram / fractions.Fraction(repr(self.clock_ghz))

    @property
    def fifo_depth(self) -> int:
        """Depth in tokens of FIFOs whose depth neither their stream nor the run states."""
        return DEFAULT_FIFO_DEPTH if self.fifo.depth is None else self.fifo.depth

    @property
    def regions(self) -> int:
        """Dies or regions that share compute bandwidth and on-chip memory evenly."""
        if self.compute is not None and self.compute.regions is not None:
            return self.compute.regions
        return 1 if self.device is None else self.device.dies

    @typed
    def milliseconds(self, cycles: float) -> float | None:
        """Duration of cycles by the clock, in ms; None where the machine states no clock."""
        return milliseconds(cycles, self.clock_ghz)

    def cost(self, *, onchip_bytes: float = 0, flops_per_cycle: float = 0) -> float | None:
        """Cost of the machine by its ``costs``, in ``costs.unit``; None without any.

        It sums off-chip channels, off-chip and on-chip bandwidth, and the amounts given here. A
        resource without a price adds nothing.

        Parameters
        ----------
        onchip_bytes : bytes of on-chip memory, FIFOs included.
        flops_per_cycle : compute bandwidth of all operators together.
        """
        costs = self.costs
        if costs is None:
            return None
        return (
            (costs.hbm_channel or 0) * self.hbm.channels
            + (costs.hbm_bytes_per_cycle or 0) * self.peak_bandwidth
            + (costs.onchip_bytes_per_cycle or 0) * self.onchip.bytes_per_cycle
            + (costs.onchip_byte or 0) * onchip_bytes
            + (costs.flops_per_cycle or 0) * flops_per_cycle
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on runs on this machine, one sentence each."""
        found = []
        channels = self.hbm.channels
        if self.hbm.model == "published" and channels & (channels - 1):
            found.append(
                "hbm.model 'published' loads its channels evenly only when their number is a power "
                f"of two; {channels} channels can take longer than fewer. hbm.model=interleaved is "
                "even for any number"
            )
        if self.chips is not None:
            found.append(self.chips.note)
        if self.noc is not None:
            found.append(self.noc.note)
        return tuple(found)

    def to_yaml(self) -> str:
        """The text of a machine file that `load_machine` reads back as an equal machine."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)

    @typed
    def summary(self, fifo_depth: str = "") -> str:
        """One line for the header of a run: the resolved numbers and the peak bandwidth.

        ``fifo_depth`` states in words which FIFO depth applies; by default that of the machine.
        """
        own = "left to the run" if self.fifo.depth is None else str(self.fifo.depth)
        depth = fifo_depth or own
        return (
            f"{self.name}: {self._memory()}; "
            f"on-chip {self.onchip.bytes_per_cycle} B/cycle; FIFO depth {depth}"
            + (f"; rules {self.model}" if self.model != "step-2025" else "")
            + (f"; closure slack {self.closure_slack}" if self.closure_slack else "")
            + (
                "; no clock stated (--set clock_ghz=N)"
                if self.clock_ghz is None
                else f"; clock {1000 * self.clock_ghz:g} MHz"
            )
            + ("" if self.costs is None else f"; costs {_amount(self.cost() or 0, self.costs)}")
        )

    def _bound(self) -> str:
        bound = self.hbm.outstanding
        return "" if bound is None else f", at most {bound} requests of a port under way"

    def _memory(self) -> str:
        hbm, dram = self.hbm, self.hbm.dram
        if dram is None:
            return (
                f"HBM {hbm.channels} channels x {hbm.request_bytes} B / {hbm.interval} cycles = "
                f"{self.peak_bandwidth:g} B/cycle peak, latency {hbm.latency} + start-up "
                f"{hbm.startup} cycles, model {hbm.model}{self._bound()}"
            )
        ratio = self.dram_clocks_per_cycle
        rate = f"{ratio} clock{'' if ratio == 1 else 's'} per cycle"
        banks = dram.bank_groups * dram.banks
        return (
            f"DRAM {dram.preset}{'' if len(dram.to_dict()) == 1 else ' (changed)'}: "
            f"{dram.channels} channels x {dram.pseudo_channels} pseudo-channels x {banks} banks, "
            f"{dram.access_bytes} B / {max(dram.nBL, dram.nCCDS)} clocks = "
            f"{self.peak_bandwidth:g} B/cycle peak, requests of {hbm.request_bytes} B, latency "
            f"{dram.read_clocks} clocks, {rate}, mapper {dram.mapper}, refresh {dram.refresh}"
        )


def milliseconds(cycles: float, clock_ghz: float | None) -> float | None:
    """Duration of cycles in ms; None without a clock."""
    return None if clock_ghz is None else cycles / (clock_ghz * 1e6)


def _amount(cost: float, costs: Costs) -> str:
    return f"{cost:,.6g} {costs.unit}".rstrip()


def machine_json_schema() -> dict[str, Any]:
    """JSON Schema of a machine file, for editors and other validators."""
    schema = json_schema(Machine)
    # Which values must be named depends on the model, which one list of keys cannot say.
    schema["required"].remove("onchip")
    del schema["$defs"]["OnChip"]["required"]
    del schema["$defs"]["Dram"]["required"]  # the preset has what is not given
    hbm = schema["$defs"]["Hbm"]
    hbm["required"] = [name for name in hbm["required"] if name not in RHYTHM]
    hbm["if"] = {"properties": {"model": {"const": "dram"}}, "required": ["model"]}
    hbm["then"] = {"properties": dict.fromkeys(RHYTHM, False)}
    hbm["else"] = {"properties": {"dram": {"type": "null"}}, "required": list(RHYTHM)}
    schema["if"] = {"properties": {"model": {"const": "step-2026"}}, "required": ["model"]}
    schema["else"] = {
        "required": ["onchip"],
        "properties": {"onchip": {"required": ["bytes_per_cycle"]}},
    }
    return schema
