"""A DRAM in plain Python that ticks every channel in every cycle: what the kernels are to be.

Written from the description of the DRAM's rules alone, rule by rule, without anything of the
kernels. Slow, and easy to read beside the text.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

__all__ = ["Command", "Dram", "Request", "fields_of"]


@dataclass
class Request:
    """An accepted request: where it goes, when it was accepted, and its number in that order."""

    address: int
    write: bool
    tag: int
    cycle: int
    order: int
    bank: tuple[int, int, int]
    row: int


@dataclass(frozen=True)
class Command:
    """A command as it was issued."""

    clock: int
    channel: int
    kind: str
    tag: int


def _bits(size: int) -> int:
    return size.bit_length() - 1


def fields_of(spec: Any, address: int) -> dict[str, int]:
    """Channel, pseudo-channel, bank group, bank, row and column of an address."""
    sizes = {
        "channel": spec.channels, "pseudo": spec.pseudo_channels, "group": spec.bank_groups,
        "bank": spec.banks, "row": spec.rows, "column": spec.columns,
    }  # fmt: skip
    left = (address % (1 << 64)) >> _bits(spec.access_bytes)

    def take(bits: int) -> int:
        nonlocal left
        value = left & ((1 << bits) - 1)
        left >>= bits
        return value

    found: dict[str, int] = {}
    if spec.mapper in (0, 1):
        orders = {
            0: ("channel", "column", "pseudo", "group", "bank", "row"),
            1: ("column", "row", "bank", "group", "pseudo", "channel"),
        }
        for name in orders[spec.mapper]:
            found[name] = take(_bits(sizes[name]))
        return found
    low = take(2)
    for name in ("channel", "pseudo", "group", "bank"):
        found[name] = take(_bits(sizes[name]))
    found["column"] = low + 4 * take(_bits(sizes["column"]) - 2)
    found["row"] = left
    shift = 0
    for name in ("channel", "pseudo", "group", "bank", "row"):
        bits = _bits(sizes[name])
        found[name] ^= (found["column"] >> shift) & ((1 << bits) - 1)
        shift += bits
    return found


class _Channel:
    def __init__(self, spec: Any) -> None:
        self.spec = spec
        self.reads: list[Request] = []
        self.writes: list[Request] = []
        self.activated: list[Request] = []
        self.returns: deque[tuple[int, int]] = deque()
        self.mode = "read"
        self.open: dict[tuple[int, int, int], int] = {}
        self.history: list[tuple[int, str, tuple[int, int, int]]] = []
        self.due = spec.refresh_interval
        self.refreshed = -(1 << 40)

    def earliest(self, kind: str, bank: tuple[int, int, int]) -> int:
        """The first clock at which the commands issued so far allow one."""
        s = self.spec
        clock = 0
        if kind == "ACT":
            clock = self.refreshed + s.refresh_cycles
        acts = 0
        for at, before, other in reversed(self.history):
            gap = 1
            pair = before, kind
            if pair == ("ACT", "ACT"):
                gap = max(gap, s.channel_act_act)
            if pair == ("ACT", "PRE"):
                gap = max(gap, s.channel_act_pre)
            if other[0] == bank[0]:
                if pair == ("ACT", "ACT"):
                    acts += 1
                    gap = max(gap, s.pseudo_act_act)
                    if acts == 4:
                        gap = max(gap, s.pseudo_act_window)
                gap = max(gap, {
                    ("RD", "RD"): s.pseudo_rd_rd, ("RD", "WR"): s.pseudo_rd_wr,
                    ("WR", "RD"): s.pseudo_wr_rd, ("WR", "WR"): s.pseudo_wr_wr,
                }.get(pair, 0))  # fmt: skip
            if other[:2] == bank[:2]:
                gap = max(gap, {
                    ("ACT", "ACT"): s.group_act_act, ("RD", "RD"): s.group_rd_rd,
                    ("WR", "RD"): s.group_wr_rd, ("WR", "WR"): s.group_wr_wr,
                }.get(pair, 0))  # fmt: skip
            if other == bank:
                gap = max(gap, {
                    ("ACT", "ACT"): s.bank_act_act, ("ACT", "PRE"): s.bank_act_pre,
                    ("ACT", "RD"): s.bank_act_rd, ("ACT", "WR"): s.bank_act_wr,
                    ("PRE", "ACT"): s.bank_pre_act, ("RD", "PRE"): s.bank_rd_pre,
                    ("WR", "PRE"): s.bank_wr_pre,
                }.get(pair, 0))  # fmt: skip
            clock = max(clock, at + gap)
        return clock

    def needs(self, request: Request) -> str:
        """The command that a request needs now."""
        row = self.open.get(request.bank)
        if row is None:
            return "ACT"
        if row != request.row:
            return "PRE"
        return "WR" if request.write else "RD"

    def send(self, cycle: int, request: Request) -> bool:
        if not request.write:
            if any(one.address == request.address for one in self.writes):
                self.returns.append((cycle + 1, request.tag))
                return True
            if len(self.reads) >= self.spec.read_entries:
                return False
            self.reads.append(request)
            return True
        if len(self.writes) >= self.spec.write_entries:
            return False
        self.writes.append(request)
        return True

    def choose(self, clock: int) -> tuple[str, Request] | None:
        """The command of this tick, or None."""
        ready = [one for one in self.activated if self.earliest(self.needs(one), one.bank) <= clock]
        if ready:
            first = min(ready, key=lambda one: one.cycle)  # the one activated first of equal ones
            return self.needs(first), first
        if self.spec.refresh_interval and clock >= self.due:
            return None
        if self.mode == "read":
            if len(self.writes) >= self.spec.high or not self.reads:
                self.mode = "write"
        elif len(self.writes) <= self.spec.low and self.reads:
            self.mode = "read"
        queue = self.reads if self.mode == "read" else self.writes
        for one in queue:  # in the order of acceptance
            kind = self.needs(one)
            if self.earliest(kind, one.bank) <= clock:
                guarded = any(other.bank == one.bank for other in self.activated)
                return None if kind == "PRE" and guarded else (kind, one)
        return None

    def refresh(self, clock: int) -> bool:
        """Begin a refresh that is due, if it may begin."""
        if not self.spec.refresh_interval or clock < self.due or self.activated:
            return False
        s = self.spec
        banks = [
            (p, g, b)
            for p in range(s.pseudo_channels) for g in range(s.bank_groups) for b in range(s.banks)
        ]  # fmt: skip
        for bank in banks:
            # The precharge of an open bank waits for that bank and for the commands' bus.
            if bank in self.open:
                free = max(
                    [at + {"ACT": s.bank_act_pre, "RD": s.bank_rd_pre, "WR": s.bank_wr_pre}[kind]
                     for at, kind, other in self.history if other == bank and kind != "PRE"],
                    default=0,
                )  # fmt: skip
            else:
                free = max(
                    [at + (s.bank_pre_act if kind == "PRE" else s.bank_act_act)
                     for at, kind, other in self.history
                     if other == bank and kind in ("PRE", "ACT")],
                    default=0,
                )  # fmt: skip
                free = max(free, self.refreshed + s.refresh_cycles)
            if clock < free:
                return False
        acts = [at for at, kind, _ in self.history if kind == "ACT"]
        if acts and clock < max(acts) + s.channel_act_pre:
            return False
        self.history += [(clock, "PRE", bank) for bank in banks]
        self.open.clear()
        self.refreshed = clock
        self.due += s.refresh_interval
        return True

    def issue(self, clock: int, kind: str, request: Request) -> None:
        """What a command changes."""
        self.history.append((clock, kind, request.bank))
        # What is older than every distance no longer matters.
        self.history = [one for one in self.history if one[0] > clock - 400]
        queue = self.writes if request.write else self.reads
        if kind == "ACT":
            self.open[request.bank] = request.row
            queue.remove(request)
            self.activated.append(request)
        elif kind == "PRE":
            del self.open[request.bank]
        else:
            if request in self.activated:
                self.activated.remove(request)
            else:
                queue.remove(request)
            if kind == "RD":
                self.returns.append((clock + self.spec.read_delay, request.tag))


class Dram:
    """All channels of a DRAM.

    Attributes
    ----------
    commands : everything that was issued, in order.
    """

    def __init__(self, spec: Any) -> None:
        self.spec = spec
        self.channels = [_Channel(spec) for _ in range(spec.channels)]
        self.commands: list[Command] = []
        self._order = 0

    def send(self, cycle: int, address: int, write: bool | int, tag: int) -> bool:
        """Offer a request in a cycle; whether it was accepted."""
        where = fields_of(self.spec, address)
        bank = where["pseudo"], where["group"], where["bank"]
        request = Request(address, bool(write), tag, cycle, self._order, bank, where["row"])
        self._order += 1
        return self.channels[where["channel"]].send(cycle, request)

    def tick(self, clock: int) -> list[int]:
        """Tick all channels; the tags of the reads that return."""
        tags = []
        for number, channel in enumerate(self.channels):
            if channel.returns and channel.returns[0][0] <= clock:
                tags.append(channel.returns.popleft()[1])
            if channel.refresh(clock):
                self.commands.append(Command(clock, number, "REF", -1))
                continue
            chosen = channel.choose(clock)
            if chosen is not None:
                channel.issue(clock, *chosen)
                self.commands.append(Command(clock, number, chosen[0], chosen[1].tag))
        return tags
