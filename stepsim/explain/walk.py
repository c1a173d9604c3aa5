"""The walk of a critical path: from the last event of a run back to its beginning.

The walk goes back from the last event. At a unit and a time it looks up the last wait of the unit
that had ended by then: since that wait the unit has worked. The cause of the wait determines where
to continue: at the producer of the token that arrived, the consumer that freed the slot, the issue
of the access, or where the packet was sent.

The end of a stream and choices by arrival do not follow clocks, but the *pace* of units, which
leaves out their own work: a clock that waits for one of them waits for a chain of hops, which
begins at an access of the memory, at the time of a source, or where the pace caught up with a
clock. The walk follows that chain the same way.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepsim.deferred import deferred
from stepsim.explain.crossings import Crossings, PortName, by_number
from stepsim.results import field, schema
from stepsim.simulation import MEMORY_TAIL, Cause, Record, access_parts, last_unit

if TYPE_CHECKING:
    from stepsim.lowering import TimingParams
    from stepsim.simulation import ImageRun

pa: Any = deferred("pyarrow")

WORK: Final = "work"
FIFO_HOP: Final = "fifo hop"
SLOT_HOP: Final = "slot hop"
EMISSION: Final = "emission"
LATENCY: Final = "hbm latency"
TRANSFER: Final = "hbm transfer"
QUEUE: Final = "hbm queue"
NETWORK: Final = "network"
LINK_WAIT: Final = "link wait"
ORDER: Final = "order"
CLOSURE: Final = "closure"
SCHEDULE: Final = "schedule"
TAIL: Final = "memory tail"

CAUSES: Final[Mapping[str, str]] = {
    WORK: "the operator works: loads, compute and stores of its roofline, or its source's schedule",
    FIFO_HOP: "a token takes a cycle from the operator into the FIFO",
    SLOT_HOP: "the operator takes a token from a full FIFO; its slot is free a cycle later",
    EMISSION: "the operator has sent a token that can be seen only later",
    LATENCY: "off-chip access: what one request takes on an idle memory",
    TRANSFER: "off-chip access: what its other requests take on an idle memory",
    QUEUE: "off-chip access: requests of others are served before",
    NETWORK: "a packet or a message between chips crosses the network: what it takes alone",
    LINK_WAIT: "it waits for a link, or for a place to send or receive other packets",
    ORDER: "a choice by arrival waits until the token of the operator is published",
    CLOSURE: "the end of the operator's stream is noticed",
    SCHEDULE: "the time stated for a token of the source",
    TAIL: "from the last access to the end of the memory node",
}
"""Causes of segments."""

_TOKEN: Final = int(Cause.TOKEN)
_SLOT: Final = int(Cause.SLOT)


@dataclass(frozen=True, slots=True)
class _Events:
    """Waits of one unit, or steps of its pace, in order of time."""

    ends: list[int]
    begins: list[int]
    causes: list[int]
    fifos: list[int]


class _ByUnit:
    """Records sorted by unit; the list for a unit is made on demand."""

    def __init__(self, records: Any, units: int, end: str, begin: str | None) -> None:
        self._records = records
        self._bounds = np.searchsorted(records["unit"], np.arange(units + 1))
        self._end, self._begin = end, begin
        self._made: dict[int, _Events] = {}

    def of(self, unit: int) -> _Events:
        found = self._made.get(unit)
        if found is None:
            part = self._records[self._bounds[unit] : self._bounds[unit + 1]]
            found = self._made[unit] = _Events(
                part[self._end].tolist(),
                part[self._begin].tolist() if self._begin else [],
                part["cause"].tolist(),
                part["fifo"].tolist(),
            )
        return found


class Walk:
    """Segments from the last event back to the beginning."""

    def __init__(
        self,
        run: ImageRun,
        record: Record,
        timing: TimingParams,
        port_name: PortName = by_number,
    ) -> None:
        units = len(run.image.unit_names)
        self._run, self._record, self._timing = run, record, timing
        self._port_name, self._links = port_name, dict[tuple[int, int, int], int]()
        self._waits = _ByUnit(record.waits, units, "end", "begin")
        self._producers = record.producers.tolist()
        self._consumers = record.consumers.tolist()
        self._closed_at = record.closed_at.tolist()
        self._late: dict[int, tuple[list[int], list[int]]] = {}
        self._covered = run.totals.cycles
        self._rows: list[int] = []  # five numbers for each segment
        self._causes = list(CAUSES)
        self._code = {cause: code for code, cause in enumerate(self._causes)}

    @cached_property
    def _rises(self) -> _ByUnit:
        return _ByUnit(self._record.rises, len(self._run.image.unit_names), "pace", None)

    @cached_property
    def _crossings(self) -> Crossings:
        return Crossings(self._run, self._record)

    @cached_property
    def _requests(self) -> dict[tuple[int, int], int]:
        accesses = self._record.accesses
        keys = zip(accesses["unit"].tolist(), accesses["end"].tolist(), strict=True)
        return dict(zip(keys, accesses["requests"].tolist(), strict=True))

    @cached_property
    def _late_bounds(self) -> Any:
        return np.searchsorted(self._record.late["fifo"], np.arange(len(self._producers) + 1))

    def back(self) -> None:
        """Walk from the last event to time 0."""
        unit = last_unit(self._run.execution)
        if unit is None:
            return
        time = int(self._run.execution.units["clk"][unit])
        if self._run.execution.units["port"][unit] >= 0:
            self._add(time, time + MEMORY_TAIL, unit, TAIL)
        in_pace = False
        while self._covered > 0:
            step = self._step_of_pace if in_pace else self._step_of_clock
            unit, time, in_pace = step(unit, time)

    def clock_of_pace(self, unit: int, time: int) -> tuple[int, int]:
        """The unit and clock time from which the pace ``time`` of a unit follows.

        The walk itself does not move. At time 0 the pace follows from nothing.
        """
        covered, self._covered = self._covered, 0  # no segments
        in_pace = True
        while in_pace and time > 0:
            unit, time, in_pace = self._step_of_pace(unit, time)
        self._covered = covered
        return unit, time

    def _step_of_clock(self, unit: int, time: int) -> tuple[int, int, bool]:
        """Continue from a unit whose clock is at ``time``, over all hops that lead to clocks.

        Nearly all segments of long paths are made here: one loop, without a call for each.
        """
        rows, covered = self._rows, self._covered
        of, producers, consumers = self._waits.of, self._producers, self._consumers
        work, token, slot = self._code[WORK], self._code[FIFO_HOP], self._code[SLOT_HOP]
        while covered > 0:
            waits = of(unit)
            i = bisect_right(waits.ends, time) - 1
            end = waits.ends[i] if i >= 0 else 0
            if end < covered and end < time:
                rows += (end, time if time < covered else covered, unit, work, -1)
                covered = end
            if i < 0:
                self._covered = covered
                return unit, 0, False
            cause, fifo = waits.causes[i], waits.fifos[i]
            if cause == _TOKEN:
                unit, code, time = producers[fifo], token, end - 1
                sent = self._sent_late(fifo, end)
                if sent is not None:
                    code, time = self._code[EMISSION], sent
            elif cause == _SLOT:
                unit, code, time = consumers[fifo], slot, end - 1
            else:
                self._covered = covered
                return self._rare(unit, waits.begins[i], end, cause, fifo)
            if time < covered and time < end:
                rows += (time, end if end < covered else covered, unit, code, fifo)
                covered = time
        self._covered = covered
        return unit, time, False

    def _rare(
        self, unit: int, begin: int, end: int, cause: int, fifo: int
    ) -> tuple[int, int, bool]:
        """Continue from a wait of a unit for an access, a choice or the end of a stream."""
        if cause == Cause.MEMORY:
            self._add_access(begin, end, unit)
            return unit, begin, False
        if cause == Cause.PACKET:
            return self._crossed(unit, end)
        if cause == Cause.DECISION:
            self._add(end - 1, end, self._producers[fifo], ORDER, fifo)
            return self._producers[fifo], end - 1, True
        if cause == Cause.MARK:
            self._add(end - 1, end, self._producers[fifo], ORDER, fifo)
            return self._producers[fifo], end - 1, False
        return self._closed(fifo, end)

    def _crossed(self, unit: int, end: int) -> tuple[int, int, bool]:
        """Continue where the packet was sent that a unit waited for until it sent it on."""
        packet = self._crossings.of(unit, end)
        if self._rows[-5:-1] == [end, end + 1, unit, self._code[FIFO_HOP]]:
            # The last cycle of the packet, in which its token goes into the FIFO.
            del self._rows[-5:]
            end = self._covered = end + 1
        for route, hop, begin, until in reversed(packet.waits):
            link = self._link(route, hop, packet.fifo)
            self._add(until, end, unit, NETWORK, packet.fifo)
            self._add(begin, min(until, end), unit, LINK_WAIT, link)
            end = begin
        self._add(packet.begin, end, unit, NETWORK, packet.fifo)
        return packet.sender, packet.begin, False

    def _link(self, route: int, hop: int, fifo: int) -> int:
        """The number of a port that is waited for, behind those of all FIFOs."""
        return self._links.setdefault((route, hop, fifo), len(self._producers) + len(self._links))

    def _step_of_pace(self, unit: int, time: int) -> tuple[int, int, bool]:
        """Continue from a unit whose pace is ``time``."""
        rises = self._rises.of(unit)
        i = bisect_right(rises.ends, time) - 1
        cause, fifo = rises.causes[i], rises.fifos[i]
        if cause == Cause.PACE_TOKEN:
            self._add(time - 1, time, self._producers[fifo], FIFO_HOP, fifo)
            return self._producers[fifo], time - 1, True
        if cause == Cause.PACE_SLOT:
            self._add(time - 1, time, self._consumers[fifo], SLOT_HOP, fifo)
            return self._consumers[fifo], time - 1, True
        if cause == Cause.PACE_PARKED:
            return self._consumers[fifo], time, True
        if cause == Cause.PACE_MARK:
            self._add(time - 1, time, self._producers[fifo], ORDER, fifo)
            return self._producers[fifo], time - 1, False
        if cause == Cause.PACE_CLOSURE:
            return self._closed(fifo, time)
        if cause == Cause.PACE_SCHEDULE:
            self._add(0, time, unit, SCHEDULE)
            return unit, 0, True
        return unit, time, False  # an access, or the unit's own clock

    def _closed(self, fifo: int, time: int) -> tuple[int, int, bool]:
        """The end of a stream was noticed at ``time``, through its producer's pace."""
        producer, pace = self._producers[fifo], self._closed_at[fifo]
        self._add(pace, time, producer, CLOSURE, fifo)
        return producer, pace, True

    def _sent_late(self, fifo: int, stamp: int) -> int | None:
        """The clock at which the first token with this stamp was sent, unless the stamp implies
        it."""
        found = self._late.get(fifo)
        if found is None:
            begin, end = self._late_bounds[fifo], self._late_bounds[fifo + 1]
            late = self._record.late[begin:end]
            order = np.argsort(late["stamp"], kind="stable")
            found = self._late[fifo] = (
                late["stamp"][order].tolist(),
                late["clock"][order].tolist(),
            )
        stamps, clocks = found
        i = bisect_left(stamps, stamp)
        return clocks[i] if i < len(stamps) and stamps[i] == stamp else None

    def _add_access(self, begin: int, end: int, unit: int) -> None:
        """Split an access: time beyond what it takes alone is waiting for others."""
        image = self._run.image
        bundle = int(image.ports["bundle"][self._run.execution.units["port"][unit]])
        requests = self._requests[unit, end]
        _, queue, latency = access_parts(self._timing, requests, bundle, end - begin)
        self._add(end - latency, end, unit, LATENCY)
        self._add(end - latency - queue, end - latency, unit, QUEUE)
        self._add(begin, end - latency - queue, unit, TRANSFER)

    def _add(self, begin: int, end: int, unit: int, cause: str, fifo: int = -1) -> None:
        """Add a segment, except for the part that is covered already.

        A closure may be noticed before the pace that causes it; then the chain before it is
        ahead of the path for some cycles.
        """
        end = min(end, self._covered)
        if begin < end:
            self._rows += (begin, end, unit, self._code[cause], fifo)
            self._covered = begin

    def table(self) -> pa.Table:
        """The segments in order of time."""
        begin, end, unit, cause, fifo = np.array(self._rows, np.int64).reshape(-1, 5)[::-1].T
        image = self._run.image
        numbers = {"begin": begin, "end": end, "cycles": end - begin}
        columns = {name: pa.array(values, pa.int64()) for name, values in numbers.items()}
        columns["operator"] = _texts(unit, image.unit_names)
        columns["op"] = _texts(unit, image.unit_ops)
        columns["cause"] = _texts(cause, self._causes)
        link = np.maximum(fifo - len(self._producers), -1)
        of_link = np.array([*range(len(self._producers)), *(fifo for *_, fifo in self._links), -1])
        columns["fifo"] = _texts(of_link[fifo], image.channel_names)
        names = [self._port_name(route, hop) for route, hop, _ in self._links]
        columns["link"] = _texts(link, names)
        return pa.table(list(columns.values()), schema=_schema())


def _texts(codes: Any, texts: Sequence[str]) -> pa.Array:
    """The text of every code, null for -1."""
    indices = pa.array(codes, pa.int32(), mask=codes < 0)
    texts = pa.array(texts, pa.string())
    return pa.DictionaryArray.from_arrays(indices, texts).dictionary_decode()


def _schema() -> pa.Schema:
    text = pa.string()
    columns = [
        *("begin", "end", "cycles"),
        field("operator", text, "", "name of the unit whose cycles they are"),
        field("op", text, "", "kind of that unit"),
        "cause",
        field("fifo", text, "", "FIFO that the hop, or the wait, is about"),
        field("link", text, "", "link, on chip or between chips, that was waited for"),
    ]
    return schema("critical_path", columns, ("begin", "end", "cycles", "operator", "op", "cause"))
