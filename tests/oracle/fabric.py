"""Channels and units: the five primitives EMIT, HEAD, TAKE, RESERVE and PROBE, and the two clocks.

Every unit body is a generator. A primitive that has to wait yields a predicate; the scheduler
resumes the generator once the predicate is true. Nothing else is ever yielded, so the result of a
unit depends only on what its channels deliver, not on when the scheduler looks at it.

Two clocks per unit: ``clk`` (simulated time) and ``h`` (pace, the clock the unit would have if its
own work took no time). A token carries its stamp and ``pub``, the pace at which it is published.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stepsim.lowering.network import TimingParams

__all__ = [
    "CLOSED",
    "Abort",
    "Account",
    "Channel",
    "Payload",
    "Steps",
    "Token",
    "TooLong",
    "Unit",
]

Payload = dict[str, Any]
Predicate = Callable[[], bool]
Steps = Generator[Predicate, None, Any]


class Abort(Exception):
    """A unit stops with an error; the message says which unit and why."""


class TooLong(RuntimeError):
    """A network that runs for longer than the interpreter is to follow it."""


class Token(NamedTuple):
    """One element of a stream."""

    stamp: int
    level: int
    payload: Payload
    pub: int


class _Closed:
    """What HEAD and TAKE return once the producer has returned and the FIFO is drained."""

    def __repr__(self) -> str:
        return "CLOSED"


CLOSED = _Closed()


@dataclass
class Channel:
    """A FIFO with one producer and one consumer; the whole history is kept."""

    name: str
    capacity: int | None
    tokens: list[Token] = field(default_factory=list)
    removed: int = 0
    rel: list[int] = field(default_factory=list)
    hrel: list[int] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    closed_at_pace: int | None = None
    consumer_gone: bool = False
    consumer: Unit | None = None
    # By number of the token: the clock at which its producer parked, where a PROBE looks at it.
    marks: dict[int, int] = field(default_factory=dict)
    # The clock at which an EagerMerge first waited for this token, the FIFO being empty.
    looked: dict[int, int] = field(default_factory=dict)

    @property
    def mark(self) -> int:
        """The mark of the head; 0 without one."""
        return self.marks.get(self.removed, 0)

    @property
    def found_from(self) -> int:
        """The pace from which a unit that spins finds the head."""
        return max(self.first.pub, self.mark + 1) if self.mark else self.first.pub

    @property
    def probed(self) -> bool:
        """Whether the consumer looks at this channel with PROBE."""
        user = self.consumer
        if user is None:
            return False
        return user.op == "EagerMerge" or (user.op == "Reassemble" and self is not user.ins[-1])

    @property
    def sent(self) -> int:
        return len(self.tokens)

    @property
    def empty(self) -> bool:
        return self.removed == self.sent

    @property
    def drained(self) -> bool:
        """Empty for good: what makes a consumer see CLOSED."""
        return self.empty and self.closed_at_pace is not None

    @property
    def first(self) -> Token:
        return self.tokens[self.removed]

    def slot_needed(self) -> int | None:
        """Number of the token whose removal frees the slot of the next one; None if free."""
        if self.capacity is None or self.sent < self.capacity:
            return None
        return self.sent - self.capacity


@dataclass
class Account:
    """Where a unit's time went; ``total`` equals the length of the run."""

    busy: int = 0
    before: int = 0
    after: int = 0
    memory: int = 0
    wait_in: dict[str, int] = field(default_factory=dict)
    wait_out: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        waits = sum(self.wait_in.values()) + sum(self.wait_out.values())
        return self.busy + self.before + self.after + self.memory + waits


@dataclass
class Unit:
    """A sequential process: clocks, ports and the primitives its body is written with."""

    name: str
    op: str
    ins: list[Channel]
    outs: list[Channel]
    p: dict[str, Any]
    timing: TimingParams
    clk: int = 0
    h: int = 0
    status: str = "running"
    message: str = ""
    account: Account = field(default_factory=Account)
    # Inputs that the first firing still waits for; see the account rules in interpreter.py.
    awaited: set[str] = field(default_factory=set)
    pending_close: list[tuple[str, int]] = field(default_factory=list)
    # EagerMerge only: the unit waits for a decision of the scheduler.
    deciding: bool = False
    chosen: int | None = None
    # Memory operators only: the port at the memory node.
    port: Any = None
    # Carriers only: the network on chip.
    carries: Any = None
    # Both clocks after each primitive; both only grow.
    pairs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    # The channel whose head the unit waits for, in HEAD, TAKE or PROBE.
    stands_at: list[Channel] = field(default_factory=list)
    # While the unit is parked: the pace at which it goes on at the latest; then that it has come.
    parked_until: int | None = None
    released: bool = False

    # -- clocks ---------------------------------------------------------------------------

    def _up(self, t: int) -> int:
        """Move the clock to ``t`` if that is later; return by how much it moved."""
        moved = max(0, t - self.clk)
        self.clk += moved
        return moved

    def _pace(self, t: int) -> None:
        self.h = max(self.h, t)

    def note(self) -> None:
        """Write both clocks down: a primitive has ended."""
        if self.pairs[-1] != (self.clk, self.h):
            self.pairs.append((self.clk, self.h))

    def reach(self, clock: int) -> int | None:
        """The pace at which the clock of this unit reaches ``clock``; None: not yet."""
        at = bisect_left(self.pairs, clock, key=lambda pair: pair[0])
        if at == len(self.pairs):
            return None
        if at == 0:
            return self.pairs[0][1]
        return min(self.pairs[at][1], max(self.pairs[at - 1][1], clock))

    def _flush_close(self) -> None:
        """The unit goes on after a CLOSED: that wait was not the end of the unit."""
        for channel, moved in self.pending_close:
            self._charge_input(channel, moved)
        self.pending_close.clear()

    def _charge_input(self, channel: str, moved: int) -> None:
        if moved == 0:
            return
        if self.awaited:
            self.account.before += moved
        else:
            self.account.wait_in[channel] = self.account.wait_in.get(channel, 0) + moved

    def add(self, n: int) -> None:
        """``n`` cycles of work."""
        self._flush_close()
        self.clk += n
        self.account.busy += n

    def up_busy(self, t: int) -> None:
        """``up(t)`` that counts as the unit's own work and leaves the pace alone."""
        self._flush_close()
        self.account.busy += self._up(t)

    def up_input(self, t: int, channel: Channel, pace: int | None = None) -> None:
        """``up(t)`` of a PROBE user: both clocks reach the pace at which the spin ends.

        ``pace`` is where the pace goes if that is earlier.
        """
        self._flush_close()
        self._charge_input(channel.name, self._up(t))
        self._pace(t if pace is None else pace)
        self.note()

    def arrive(self, t: int) -> None:
        """The wait for a packet or for the memory: both clocks come to where it ends."""
        self._flush_close()
        self.account.memory += self._up(t)
        self._pace(self.clk)
        self.note()

    # -- EMIT, RESERVE ----------------------------------------------------------------------

    def reserve(self, channel: Channel) -> Steps:
        """RESERVE: wait until the next token would find a free slot."""
        self._flush_close()
        needed = channel.slot_needed()
        if needed is None:
            self.note()
            return
        while channel.removed <= needed:
            if channel.consumer_gone:
                raise Abort(
                    f"unit {self.name}: channel {channel.name} is full and its consumer has "
                    "returned; make the stream shapes of producer and consumer agree"
                )
            yield lambda: channel.removed > needed or channel.consumer_gone
        resumed = yield from self._park(channel, needed)
        moved = self._up(channel.rel[needed])
        if moved:
            out = self.account.wait_out
            out[channel.name] = out.get(channel.name, 0) + moved
        self._pace(max(channel.hrel[needed], resumed))
        self.note()

    def _park(self, channel: Channel, needed: int) -> Generator[Predicate, None, int]:
        """Wait as a producer does that has found no slot at its pace; the pace at which it goes on.

        The first of: the clock of the consumer reaches that of this unit; the consumer waits for
        this empty FIFO; the pace reaches the clock; the consumer has returned.
        """
        freed, consumer, clock = channel.hrel[needed], channel.consumer, self.clk
        if freed <= self.h + 1 or consumer is None:
            return 0

        def events() -> list[int]:
            stood = channel.looked.get(channel.sent, clock)
            if stood < clock:
                return [max(clock, freed)]  # a merge spins up to the clock that it heard of
            reached = consumer.reach(clock)
            found = [] if reached is None else [reached]
            if channel in consumer.stands_at and channel.empty:
                merges = consumer.op == "EagerMerge"
                found.append(max(consumer.h, clock) if merges else consumer.h)
            if channel.consumer_gone and reached is None:  # it returned before its clock was there
                found.append(freed)
            if self.released:
                found.append(max(clock, freed))
            return found

        self.parked_until, self.released = max(clock, freed), False
        while not events():
            yield lambda: bool(events())
        resumed = min(*events(), self.parked_until)
        self.parked_until = None
        return resumed

    def emit(self, channel: Channel, payload: Payload, level: int, t: int | None = None) -> Steps:
        """EMIT with requested time ``t`` (default: the clock before any wait for a slot)."""
        requested = self.clk if t is None else t
        came, needed, pace = self.clk, channel.slot_needed(), self.h
        yield from self.reserve(channel)
        stamp = max(requested, self.clk + 1)
        if needed is not None and channel.hrel[needed] > pace + 1 and channel.probed:
            channel.marks[channel.sent] = came
        channel.tokens.append(Token(stamp, level, payload, self.h + 1))

    # -- HEAD, TAKE, PROBE -------------------------------------------------------------------

    def head(self, channel: Channel) -> Generator[Predicate, None, Token | _Closed]:
        """HEAD: wait for a token or the closure of the channel and move both clocks."""
        while channel.empty and not channel.drained:
            self.stands_at = [channel]
            yield lambda: not channel.empty or channel.drained
        self.stands_at = []
        if channel.empty:
            self._see_closed(channel)
            self.note()
            return CLOSED
        self._flush_close()
        token = channel.first
        self._charge_input(channel.name, self._up(token.stamp))
        self._pace(token.pub)
        self.note()
        self.awaited.discard(channel.name)
        return token

    def take(self, channel: Channel) -> Generator[Predicate, None, Token | _Closed]:
        """TAKE: HEAD, then free the slot one cycle after the clock reached."""
        token = yield from self.head(channel)
        if isinstance(token, Token):
            channel.rel.append(self.clk + 1)
            channel.hrel.append(self.h + 1)
            channel.taken.append(self.clk)
            channel.removed += 1
            if not (self.op == "Reassemble" and channel is self.ins[-1]):
                self.awaited.discard("first data token")
        return token

    def closure_pace(self, channel: Channel) -> int:
        """The pace at which the consumer notices the end of a closed channel."""
        assert channel.closed_at_pace is not None
        return channel.closed_at_pace + 1 - self.timing.closure_slack

    def _see_closed(self, channel: Channel) -> None:
        t = self.closure_pace(channel)
        self.pending_close.append((channel.name, self._up(t)))
        self._pace(t)

    def see_all_closed(self, t: int) -> None:
        """EagerMerge: every input has ended, the last one noticed at pace ``t``."""
        self.pending_close.append((self.ins[0].name, self._up(t)))
        self._pace(t)

    def probe(self, channel: Channel) -> Token | _Closed | None:
        """PROBE: the head, CLOSED, or None for nothing yet. Moves no clock."""
        if not channel.empty:
            return channel.first
        return CLOSED if channel.drained else None

    # -- end ---------------------------------------------------------------------------------

    def finish(self, status: str, message: str = "") -> None:
        """Return or abort: close the outputs at this pace, let go of the inputs."""
        self.status, self.message = status, message
        self._end_with_closed()
        for channel in self.outs:
            channel.closed_at_pace = self.h
        for channel in self.ins:
            channel.consumer_gone = True

    def leave_blocked(self) -> None:
        """The run is over and the unit still waits."""
        self.status = "blocked"
        self._end_with_closed()

    def _end_with_closed(self) -> None:
        self.account.after += sum(moved for _, moved in self.pending_close)
        self.pending_close.clear()
