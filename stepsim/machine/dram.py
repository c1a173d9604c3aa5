"""The DRAM of a machine with the memory model ``dram``: organization, timings and controller.

Every value defaults to that of the preset. Times are clocks of the DRAM and have the names of data
sheets; :meth:`Dram.distances` defines them between two commands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from stepsim.deferred import deferred
from stepsim.machine.dram_presets import DRAM_PRESETS
from stepsim.machine.section import Section, choice, integer, keys, number, section, setting
from stepsim.typed import typed

if TYPE_CHECKING:
    import fractions
else:
    fractions = deferred("fractions")

DRAM_MAPPERS = ("RoBaRaCoCh", "ChRaBaRoCo", "MOP4CLXOR")
"""Address mappers, in the order of the kernels' numbers."""

MOST_CHANNELS = 1 << 12
"""Channels that a DRAM may have."""

_SIZES = (
    "channels", "pseudo_channels", "bank_groups", "banks", "rows", "columns", "access_bytes",
)  # fmt: skip
_MOST_BANKS = 32  # of a pseudo-channel: a set of them is a word
_ADDRESS_BITS = 56
_QUEUE = integer(1, 60)
_CLOCKS = integer(1, 1 << 16)
_CLOCKS_OR_NONE = integer(0, 1 << 16)


@section
class Dram(Section):
    """A DRAM down to its banks; sizes are powers of two, times are clocks."""

    preset: str = setting(
        choice(*DRAM_PRESETS), "DRAM that supplies all values not given", default="hbm2-hdl"
    )
    clock_ghz: float = setting(
        number(0, above=True), "clock of the commands, relative to the machine's clock_ghz"
    )
    channels: int = setting(integer(1, MOST_CHANNELS), "independent channels")
    pseudo_channels: int = setting(
        integer(1, 16), "pseudo-channels of a channel, which share its commands; 1 for none"
    )
    bank_groups: int = setting(integer(1, 32), "bank groups of a pseudo-channel")
    banks: int = setting(integer(1, 32), "banks of a bank group")
    rows: int = setting(integer(1, 1 << 24), "rows of a bank")
    columns: int = setting(integer(1, 1 << 16), "accesses in a row")
    access_bytes: int = setting(integer(1, 1 << 12), "bytes of one access, a burst")
    mapper: str = setting(
        choice(*DRAM_MAPPERS),
        "assigns address bits to fields: 'RoBaRaCoCh' interleaves accesses over the channels, "
        "'ChRaBaRoCo' gives every channel a range, 'MOP4CLXOR' interleaves groups of four and "
        "XORs the fields with the column",
    )
    refresh: str = setting(
        choice("off", "all-bank"),
        "'all-bank': every nREFI clocks a channel serves requests to open rows, closes all "
        "banks and opens none for nRFC clocks",
    )
    read_queue: int = setting(_QUEUE, "reads of a channel that wait for a command")
    write_queue: int = setting(_QUEUE, "writes of a channel that wait for a command")
    high_watermark: int = setting(
        _QUEUE, "number of waiting writes at which the channel starts to serve writes"
    )
    low_watermark: int = setting(
        integer(0, 60), "number of waiting writes down to which it serves writes while reads wait"
    )
    nACT: int = setting(_CLOCKS, "clocks of an activation on the command bus")
    nBL: int = setting(_CLOCKS, "clocks of a burst")
    nCL: int = setting(_CLOCKS, "RD to its first data")
    nCWL: int = setting(_CLOCKS, "WR to its first data")
    nRCDRD: int = setting(_CLOCKS, "ACT to RD")
    nRCDWR: int = setting(_CLOCKS, "ACT to WR")
    nRP: int = setting(_CLOCKS, "PRE to ACT")
    nRAS: int = setting(_CLOCKS, "ACT to PRE")
    nRC: int = setting(_CLOCKS, "ACT to ACT of a bank; matters above nRAS + nRP")
    nWR: int = setting(_CLOCKS, "last data of WR to PRE")
    nRTPS: int = setting(_CLOCKS, "RD to PRE; the larger of nRTPS and nRTPL holds")
    nRTPL: int = setting(_CLOCKS, "RD to PRE; the larger of nRTPS and nRTPL holds")
    nCCDS: int = setting(_CLOCKS, "RD to RD, WR to WR, other bank group; matters above nBL")
    nCCDL: int = setting(_CLOCKS, "RD to RD, WR to WR, same bank group")
    nRRDS: int = setting(_CLOCKS, "ACT to ACT, other bank group")
    nRRDL: int = setting(_CLOCKS, "ACT to ACT, same bank group")
    nWTRS: int = setting(_CLOCKS_OR_NONE, "last data of WR to RD, other bank group")
    nWTRL: int = setting(_CLOCKS_OR_NONE, "last data of WR to RD, same bank group")
    nFAW: int = setting(_CLOCKS, "ACT to the fourth ACT after it")
    nRFC: int = setting(_CLOCKS, "clocks of a refresh")
    nREFI: int = setting(integer(1, 1 << 20), "clocks from one refresh to the next")

    @classmethod
    def completed(cls, values: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """What is not given has the value of the preset."""
        name = values.get("preset", "hbm2-hdl")
        known = isinstance(name, str) and name in DRAM_PRESETS
        # Of no preset, which is the only problem then.
        return {**DRAM_PRESETS[name if known else "hbm2-hdl"], **values}

    @classmethod
    def contradictions(
        cls, given: Mapping[Any, Any], checked: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Values that cannot be together, each with the rule."""
        for name in _SIZES:
            if checked[name] & (checked[name] - 1):
                yield (
                    name,
                    f"expected a power of two, since it is a field of the address, found "
                    f"{checked[name]}",
                )
        get = checked.__getitem__
        banks = get("bank_groups") * get("banks")
        if banks > _MOST_BANKS:
            yield "banks", f"expected at most {_MOST_BANKS} in a pseudo-channel, found {banks}"
        bits = sum(get(name).bit_length() - 1 for name in _SIZES)
        if bits > _ADDRESS_BITS:
            yield "rows", f"expected addresses of at most {_ADDRESS_BITS} bits in all, found {bits}"
        if get("mapper") == "MOP4CLXOR" and get("columns") < 4:
            yield (
                "mapper",
                "'MOP4CLXOR' does not cover the address: it interleaves groups of four accesses "
                f"of a row; expected columns of 4 or more, found {get('columns')}",
            )
        for low, high, most in (
            ("low_watermark", "high_watermark", False), ("high_watermark", "write_queue", True),
        ):  # fmt: skip
            if get(low) > get(high) or (get(low) == get(high) and not most):
                rule = "at most" if most else "less than"
                yield low, f"expected {rule} {high} ({get(high)}), found {get(low)}"
        for short, long in (
            ("nCCDS", "nCCDL"), ("nRRDS", "nRRDL"), ("nWTRS", "nWTRL"), ("nRRDS", "nFAW"),
            ("nRCDRD", "nRAS"), ("nRAS", "nRC"),
        ):  # fmt: skip
            if get(short) > get(long):
                yield short, f"expected at most {long} ({get(long)}), found {get(short)}"
        if get("nCWL") > get("nCL") + get("nBL") + 1:
            yield (
                "nCWL",
                f"expected at most nCL + nBL + 1 ({get('nCL') + get('nBL') + 1}), so that a WR "
                f"comes after a RD, found {get('nCWL')}",
            )
        if get("refresh") == "off":
            preset = DRAM_PRESETS[get("preset")]
            for name in ("nRFC", "nREFI"):
                if get(name) != preset[name]:
                    yield (
                        name,
                        "has an effect only with refresh 'all-bank'; set that, or remove this",
                    )
        elif get("nREFI") <= get("nRFC"):
            yield "nREFI", f"expected more than nRFC ({get('nRFC')}), found {get('nREFI')}"

    def unused_clock(self, clock_ghz: float | None) -> Iterator[str]:
        """The error where a machine with this clock leaves that of the DRAM without effect."""
        if clock_ghz is None and self.clock_ghz != DRAM_PRESETS[self.preset]["clock_ghz"]:
            yield (
                "has an effect only together with the machine's clock_ghz, which is not stated: a "
                "clock of the DRAM is then a cycle; state clock_ghz too, or remove this"
            )

    def to_dict(self) -> dict[str, Any]:
        """The preset and the values that differ from it."""
        preset = DRAM_PRESETS[self.preset]
        values = {name: getattr(self, name) for name in keys(Dram) if name != "preset"}
        changed = {name: value for name, value in values.items() if value != preset[name]}
        return {"preset": self.preset, **changed}

    @property
    def capacity_bytes(self) -> int:
        """Capacity in bytes."""
        banks = self.channels * self.pseudo_channels * self.bank_groups * self.banks
        return banks * self.rows * self.columns * self.access_bytes

    @typed
    def accesses_per_clock(self, step: int = 1) -> fractions.Fraction:
        """Accesses that the data buses take, where addresses are multiples of ``step`` bytes.

        Addresses of larger steps may leave channels out, as those of 512 bytes seven of eight in
        the HDL of the STeP paper.
        """
        aligned = (step & -step).bit_length() - 1 - (self.access_bytes.bit_length() - 1)
        channels, pseudo = self.channels, self.pseudo_channels
        if self.mapper == "RoBaRaCoCh" and aligned > 0:
            fields = (channels, self.columns, pseudo)
            left = []
            for size in fields:
                bits = size.bit_length() - 1
                fixed = min(bits, aligned)
                aligned -= fixed
                left.append(size >> fixed)
            channels, _, pseudo = left
        # No more than one command per channel and clock.
        return channels * min(
            fractions.Fraction(1), fractions.Fraction(pseudo, max(self.nBL, self.nCCDS))
        )

    @property
    def read_clocks(self) -> int:
        """From the acceptance of a read to its data, of an idle DRAM whose bank is closed."""
        return 1 + self.nRCDRD + self.nCL + self.nBL

    def distances(self) -> dict[str, int]:
        """Least clocks between two commands by ``scope_first_second``, and to the data of a RD."""
        after_write = self.nCWL + self.nBL
        return {
            "channel_act_act": self.nACT,
            "channel_act_pre": self.nACT,
            "pseudo_act_act": self.nRRDS,
            "pseudo_act_window": self.nFAW,
            "pseudo_rd_rd": max(self.nBL, self.nCCDS),
            "pseudo_rd_wr": self.nCL + self.nBL + 2 - self.nCWL,
            "pseudo_wr_rd": after_write + self.nWTRS,
            "pseudo_wr_wr": max(self.nBL, self.nCCDS),
            "group_act_act": self.nRRDL,
            "group_rd_rd": self.nCCDL,
            "group_wr_rd": after_write + self.nWTRL,
            "group_wr_wr": self.nCCDL,
            "bank_act_act": self.nRC,
            "bank_act_pre": self.nRAS,
            "bank_act_rd": self.nRCDRD,
            "bank_act_wr": self.nRCDWR,
            "bank_pre_act": self.nRP,
            "bank_rd_pre": max(self.nRTPS, self.nRTPL),
            "bank_wr_pre": after_write + self.nWR,
            "read_delay": self.nCL + self.nBL,
        }

    def numbers(self) -> dict[str, int]:
        """The fields of `stepsim.kernels.dram.table.DramSpec`."""
        refreshes = self.refresh != "off"
        return {
            **{name: getattr(self, name) for name in _SIZES},
            **self.distances(),
            "mapper": DRAM_MAPPERS.index(self.mapper),
            "read_entries": self.read_queue,
            "write_entries": self.write_queue,
            "high": self.high_watermark,
            "low": self.low_watermark,
            "refresh_interval": self.nREFI if refreshes else 0,
            "refresh_cycles": self.nRFC if refreshes else 0,
        }
