"""Every wait of every unit of a run, from the journal of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.kernels import (
    CAUSE_BITS,
    LENGTH_SHIFT,
    MOST_PLACES,
    PORT_BITS,
    Cause as Cause,
    Execution,
    route_of_message,
)
from stepsim.results import ACCESS, WAIT, records_by

if TYPE_CHECKING:
    from stepsim.kernels import Journal


ISSUED = np.dtype(
    [(name, ACCESS[name]) for name in ("unit", "begin", "end", "requests")], align=True
)
"""One access of the off-chip memory: issued at ``begin``, complete at ``end``."""

LATE = np.dtype(
    [("unit", np.int32), ("fifo", np.int32), ("clock", np.int64), ("stamp", np.int64)], align=True
)
"""One token that was sent at ``clock`` and can be seen at ``stamp``, later than a cycle after."""

RISE = np.dtype(
    [("unit", np.int32), ("cause", np.int8), ("fifo", np.int32), ("pace", np.int64)], align=True
)
"""The pace of a unit rises; ``cause`` is one of those of the pace."""

CROSSING = np.dtype(
    [("route", np.int32), ("begin", np.int64), ("end", np.int64), ("waited", np.int64)], align=True
)
"""One packet over a route of the network on chip, or one message over a route between chips:
created at ``begin``, it arrived in the cycle before ``end``, with its last flit. Its last segment
``waited`` for ports so many cycles in all, a message for links."""

AT_PORT = np.dtype(
    [("crossing", np.int32), ("route", np.int32), ("hop", np.int32), ("begin", np.int64),
     ("end", np.int64)], align=True,
)  # fmt: skip
"""What passed or waited at a port, or at a link between chips, which is number ``hop`` on its
route; of waits, the number of the ``crossing`` that they are part of, else -1."""

_PLACED = {
    cause: side
    for side, causes in (
        ("consumer", (Cause.TOKEN, Cause.CLOSURE, Cause.DECISION, Cause.MARK, Cause.PACE_TOKEN,
                      Cause.PACE_CLOSURE, Cause.PACE_CLOCK, Cause.PACE_MARK)),
        ("producer", (Cause.SLOT, Cause.EMISSION, Cause.PACE_SLOT, Cause.PACE_SCHEDULE,
                      Cause.PACE_PARKED, Cause.PACE_WORK)),
    )
    for cause in causes
}  # fmt: skip
"""The end of a FIFO that an entry refers to."""

_NUMBERED: Final = (Cause.MEMORY, Cause.DELIVERY, Cause.LINK, Cause.SENDING)
"""Causes of entries with a number besides: requests, or which message it is."""

WAITS: Final = (
    Cause.TOKEN, Cause.SLOT, Cause.CLOSURE, Cause.MEMORY, Cause.DECISION, Cause.PACKET, Cause.MARK
)  # fmt: skip
"""Causes of waits, by number."""


@dataclass(frozen=True)
class Record:
    """Every wait of every unit of a run; between two waits a unit works.

    The waits of cause SLOT of a FIFO add up to its ``producer_wait``. Those for tokens need not add
    up to ``consumer_wait``: that has only what is after the first firing of a unit; and a choice by
    arrival books what it waited on the FIFO that it takes from, while the record names the one
    that ended the wait, whose publication or closure let the choice be made.

    Tables are made on request, since the record of a long run is large.

    Attributes
    ----------
    journal : of the engine.
    producers, consumers : unit numbers of every FIFO.
    closed_at : pace at which the producer of every FIFO ended, in cycles.
    """

    journal: Journal
    producers: NDArray[np.int32]
    consumers: NDArray[np.int32]
    closed_at: NDArray[np.int64]

    @property
    def has_paces(self) -> bool:
        """Whether the record also has the times and causes of rises of the pace of units."""
        return self.journal.has_paces

    @cached_property
    def entries(self) -> NDArray[np.int64]:
        """The journal ``[entries, 2]``, see :mod:`stepsim.kernels.recording.journal`."""
        return self.journal.entries()

    @cached_property
    def waits(self) -> NDArray[np.void]:
        """All waits as records of `WAIT`, by unit, and in the order of time for each unit."""
        of = _columns(self, WAITS)
        return records_by(
            "unit", WAIT,
            unit=of.unit, cause=of.cause, fifo=of.fifo, begin=of.end - of.length, end=of.end,
        )  # fmt: skip

    @cached_property
    def accesses(self) -> NDArray[np.void]:
        """All complete accesses of the memory as records of `ISSUED`, by unit, then by time."""
        of = _columns(self, (Cause.MEMORY,))
        return records_by(
            "unit", ISSUED,
            unit=of.unit, begin=of.end - of.length, end=of.end, requests=of.number,
        )  # fmt: skip

    @cached_property
    def crossings(self) -> NDArray[np.void]:
        """All packets or messages that arrived, as records of `CROSSING`, by route, then by
        time."""
        return self._network[0]

    @cached_property
    def port_waits(self) -> NDArray[np.void]:
        """All waits of last segments, or of messages, as records of `AT_PORT`, by crossing, then
        by hop."""
        return self._network[1]

    @cached_property
    def _network(self) -> tuple[NDArray[np.void], NDArray[np.void]]:
        if len((sent := _columns(self, (Cause.SENDING,))).row):
            return self._between_chips(sent)
        packets = _columns(self, (Cause.ARRIVAL,))
        at_ports = _columns(self, (Cause.PORT,))
        # The waits of a packet are written in front of it.
        owner = np.searchsorted(packets.row, at_ports.row)
        waited = np.bincount(owner, at_ports.length, len(packets.row)).astype(np.int64)
        order = np.argsort(packets.place, kind="stable")
        number = np.empty(len(order), np.int64)
        number[order] = np.arange(len(order))
        crossings = records_by(
            "route", CROSSING,
            route=packets.place, begin=packets.end - packets.length, end=packets.end, waited=waited,
        )  # fmt: skip
        waits = records_by("crossing", AT_PORT, crossing=number[owner], **_at_ports(at_ports))
        # Those of the readers of a tree are written from their ends back.
        return crossings, waits[np.lexsort((waits["hop"], waits["crossing"]))]

    def _between_chips(self, sent: _Columns) -> tuple[NDArray[np.void], NDArray[np.void]]:
        """Messages that arrived, and their waits, by what they did at every link."""
        arrived, waited = (_columns(self, (cause,)) for cause in (Cause.DELIVERY, Cause.LINK))
        # A message is the next one that arrives of its number.
        order = np.lexsort((arrived.end, arrived.place))
        number = np.empty(len(order), np.int64)
        number[order] = np.arange(len(order))
        of_sent, of_waited = (_next(arrived, one, number) for one in (sent, waited))
        there = of_waited >= 0
        total = np.zeros(len(order), np.int64)
        np.add.at(total, of_waited[there], waited.length[there] - 1)
        # It was created when it came to its first link.
        begin = np.zeros(len(order), np.int64)
        first = (sent.place == 0) & (of_sent >= 0)
        begin[of_sent[first]] = (sent.end - sent.length)[first]
        first = (waited.place == 0) & there
        begin[of_waited[first]] -= waited.length[first] - 1
        crossings = records_by(
            "route", CROSSING,
            route=arrived.place[order], begin=begin, end=arrived.end[order], waited=total,
        )  # fmt: skip
        columns = {name: column[there] for name, column in _at_links(waited).items()}
        waits = records_by("crossing", AT_PORT, crossing=of_waited[there], **columns)
        return crossings, waits[np.lexsort((waits["hop"], waits["crossing"]))]

    @cached_property
    def flits(self) -> NDArray[np.void]:
        """When flits passed ports, one a cycle, or when links sent messages, as records of
        `AT_PORT`, by route, then by time."""
        sent = _columns(self, (Cause.SENDING,))
        of = _at_links(sent) if len(sent.row) else _at_ports(_columns(self, (Cause.FLITS,)))
        return records_by("route", AT_PORT, crossing=np.full(len(of["route"]), -1), **of)

    @cached_property
    def late(self) -> NDArray[np.void]:
        """Tokens with stamps in the future as records of `LATE`, by FIFO, in the order sent."""
        of = _columns(self, (Cause.EMISSION,))
        return records_by(
            "fifo", LATE, unit=of.unit, fifo=of.fifo, clock=of.end, stamp=of.end + of.length
        )

    @cached_property
    def rises(self) -> NDArray[np.void]:
        """Rises of the pace as records of `RISE`, by unit, then by time; none unless noted."""
        of = _columns(self, tuple(cause for cause in Cause if cause >= Cause.PACE_TOKEN))
        return records_by("unit", RISE, unit=of.unit, cause=of.cause, fifo=of.fifo, pace=of.end)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Some entries of a journal, column by column.

    ``number`` has the requests of accesses, and which message it is.
    """

    row: NDArray[np.int64]
    cause: NDArray[np.int8]
    place: NDArray[np.int32]
    unit: NDArray[np.int32]
    fifo: NDArray[np.int32]
    end: NDArray[np.int64]
    length: NDArray[np.int64]
    number: NDArray[np.int64]


def _columns(record: Record, causes: tuple[Cause, ...]) -> _Columns:
    word = record.entries[:, 1]
    every = (word & ((1 << CAUSE_BITS) - 1)).astype(np.int8)
    wanted = np.zeros(1 << CAUSE_BITS, np.bool_)
    wanted[list(causes)] = True
    rows = np.flatnonzero(wanted[every])
    cause, word = every[rows], word[rows]
    place = ((word >> CAUSE_BITS) & (MOST_PLACES - 1)).astype(np.int32)
    length = word >> LENGTH_SHIFT
    # A long wait has its length in the entry before it; an access its requests before that, and a
    # message which one it is.
    long = length == 0
    length[long] = record.entries[rows[long] - 1, 0]
    number = np.zeros(len(rows), np.int64)
    numbered = np.isin(cause, _NUMBERED)
    number[numbered] = record.entries[(rows - 1 - long)[numbered], 0]
    unit, fifo = place.copy(), place.copy()
    for ends, side in ((record.consumers, "consumer"), (record.producers, "producer")):
        there = np.isin(cause, [each for each, placed in _PLACED.items() if placed == side])
        unit[there] = ends[place[there]]
    fifo[np.isin(cause, (Cause.MEMORY, Cause.PACKET, Cause.PACE_MEMORY))] = -1
    return _Columns(rows, cause, place, unit, fifo, record.entries[rows, 0], length, number)


def _at_ports(of: _Columns) -> dict[str, NDArray[np.int64]]:
    """Columns of `AT_PORT` of entries on ports."""
    return {
        "route": of.place >> PORT_BITS,
        "hop": of.place & ((1 << PORT_BITS) - 1),
        "begin": of.end - of.length,
        "end": of.end,
    }


def _at_links(of: _Columns) -> dict[str, NDArray[np.int64]]:
    """Columns of `AT_PORT` of entries of messages, which are a cycle longer than what they say."""
    return {
        "route": route_of_message(of.number),
        "hop": of.place.astype(np.int64),
        "begin": of.end - of.length,
        "end": of.end - 1,
    }


def _next(arrived: _Columns, of: _Columns, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The ``numbers`` of the messages that entries belong to; -1 for one that has not arrived."""
    count = len(arrived.row)
    row, number = (
        np.concatenate((getattr(arrived, name), getattr(of, name))) for name in ("row", "number")
    )
    order = np.lexsort((row, number))
    arrives = order < count
    behind = np.flatnonzero(arrives)
    # Of every entry in this order, the place of the next arrival.
    following = np.searchsorted(behind, np.arange(len(order)))
    found = np.full(len(order), -1)
    some = following < len(behind)
    found[order[some]] = order[behind[following[some]]]
    found = found[count:]
    same = found >= 0
    same[same] = number[found[same]] == of.number[same]
    return np.where(same, numbers[found], -1) if count else found


def record_of(execution: Execution) -> Record | None:
    """The record of a run, None when it was not recorded."""
    if execution.journal is None:
        return None
    channels = execution.channels
    ends = (channels[name].copy() for name in ("producer", "consumer", "hclose"))
    return Record(execution.journal, *ends)
