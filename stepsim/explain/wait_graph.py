"""The waits of a recorded run as a graph, whose longest chain can be recomputed with other times.

Every wait ended for one cause, and the unit worked between two waits. With less work, faster
accesses or without the waits for slots of some FIFOs, all times follow from those of the waits
before; the last one is the length of the run, on whichever chain of waits is then longest. What did
not delay anything in the run has left no wait: a change that makes it matter is underestimated.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepsim.explain.crossings import Crossings
from stepsim.explain.walk import Walk
from stepsim.kernels import TimedWaits, retime
from stepsim.lowering import TimingParams
from stepsim.simulation import MEMORY_TAIL, Cause, ImageRun, Record, access_parts, lone_access

WITHOUT_LIMIT: Final = "uncontended"
"""The memory model whose accesses never wait for each other."""


class WaitGraph:
    """All waits of a run with status "ok", in the order of time.

    Parameters
    ----------
    run : a run recorded with paces.
    timing : of the run.
    """

    def __init__(self, run: ImageRun, timing: TimingParams) -> None:
        record = run.record
        if record is None or not record.has_paces:
            raise ValueError("a graph of waits needs a run with record='paces'")
        self.timing = timing
        self._cycles = run.totals.cycles
        names = run.image.unit_names
        self._fifos = {name: fifo for fifo, name in enumerate(run.image.channel_names)}
        order = np.argsort(record.waits["end"], kind="stable")
        waits = record.waits[order]
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))

        ends = _Ends(record)
        self._unit = waits["unit"].astype(np.int64)
        self._fifo = np.where(waits["cause"] == Cause.SLOT, waits["fifo"], -1)
        before = ends.before(self._unit, np.full(len(order), -1), order)
        self._previous = _placed(before, place)
        self._work = waits["begin"] - ends.times(before)
        producer, time = _sources(run, record, waits, timing)
        found = ends.before(producer, time)
        self._peer = _placed(found, place)
        self._peer_unit = producer
        self._peer_work = time - ends.times(found)
        self._hop = waits["end"] - time
        self._accesses(run, record, waits)

        units = np.arange(len(names))
        clocks = run.execution.units["clk"]
        last = ends.before(units, clocks)
        self._last = _placed(last, place)
        self._rest = clocks - ends.times(last)
        self._tail = np.where(run.execution.units["port"] >= 0, MEMORY_TAIL, 0)

    def _accesses(self, run: ImageRun, record: Record, waits: NDArray[np.void]) -> None:
        """The requests of each access, and the cycles of transfer, queue and latency of its
        wait."""
        chosen = np.flatnonzero(waits["cause"] == Cause.MEMORY)
        columns = np.zeros((4, len(waits)))
        self._requests, self._transfer, self._queue, self._latency = columns
        if not len(chosen):
            return
        accesses = record.accesses[np.argsort(record.accesses["end"], kind="stable")]
        key = {
            (unit, end): requests
            for unit, end, requests in zip(
                *(accesses[name].tolist() for name in ("unit", "end", "requests")), strict=True
            )
        }
        bundles = run.image.ports["bundle"][run.execution.units["port"]].tolist()
        rows = []
        for unit, begin, end in zip(
            *(waits[name][chosen].tolist() for name in ("unit", "begin", "end")), strict=True
        ):
            requests = key[unit, end]
            rows.append(
                (requests, *access_parts(self.timing, requests, bundles[unit], end - begin))
            )
        columns[:, chosen] = np.array(rows).T

    def cycles(
        self, factors: NDArray[np.float64], freed: Iterable[str], after: TimingParams
    ) -> float:
        """Length of the run if parts of it take less time.

        Parameters
        ----------
        factors : work of every unit relative to that in the run.
        freed : FIFOs for whose slots no unit waits any more.
        after : timing of which only the times of memory accesses are used.
        """
        if not self.changes_rate(after):
            return self._length(factors, freed, after)
        # The order of requests in the memory changes with its rate: here it serves them in turn, a
        # coarse model, whose result is scaled so that the unchanged run keeps its length.
        return self._length(factors, freed, after) * self._cycles / self._served_in_turn

    def changes_rate(self, after: TimingParams) -> bool:
        """Whether the memory serves requests at another rate."""
        return _service(after) != _service(self.timing)

    @cached_property
    def _served_in_turn(self) -> float:
        return self._length(np.ones(len(self._last)), (), self.timing, in_turn=True)

    def _length(
        self,
        factors: NDArray[np.float64],
        freed: Iterable[str],
        after: TimingParams,
        *,
        in_turn: bool | None = None,
    ) -> float:
        if in_turn is None:
            in_turn = self.changes_rate(after)
        latency = lone_access(after, 1, 1) / lone_access(self.timing, 1, 1)
        gone = np.isin(self._fifo, [self._fifos[name] for name in freed])
        other = self._peer_work * factors[self._peer_unit] + self._hop
        timed = TimedWaits(
            previous=self._previous,
            work=self._work * factors[self._unit],
            access=self._transfer if in_turn else self._transfer + self._queue,
            service=self._requests * (_service(after) if in_turn else 0.0),
            after=self._latency * latency,
            peer=self._peer,
            other=np.where(gone | (self._peer_unit < 0), -1.0, other),
            end=np.zeros(len(self._unit)),
        )
        retime(TimedWaits(*map(np.ascontiguousarray, timed)))
        reached = np.where(self._last >= 0, timed.end[self._last] if len(timed.end) else 0.0, 0.0)
        return float(np.max(reached + self._rest * factors + self._tail, initial=0.0))


class _Ends:
    """End times of the waits of every unit, to find the last one that ended by a given time."""

    def __init__(self, record: Record) -> None:
        self._unit = record.waits["unit"].astype(np.int64)
        self._end = record.waits["end"]
        self._span = int(self._end.max(initial=0)) + 2
        self._keys = self._unit * self._span + self._end

    def before(
        self,
        unit: NDArray[np.int64],
        time: NDArray[np.int64],
        of: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """Number of the last wait of each unit that ended by a time, or of that before another
        wait ``of`` it; -1 for none."""
        if of is not None:
            found = of - 1
        else:
            keys = unit * self._span + np.minimum(time, self._span - 1)
            found = np.searchsorted(self._keys, keys, side="right") - 1
        own = (found >= 0) & (unit >= 0)
        if len(self._unit):
            own &= self._unit[found] == unit
        return np.where(own, found, -1)

    def times(self, waits: NDArray[np.int64]) -> NDArray[np.int64]:
        """End times of waits; 0 for -1."""
        if not len(self._end):
            return np.zeros(len(waits), np.int64)
        return np.where(waits >= 0, self._end[waits], 0)


def _placed(waits: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[np.int64]:
    if not len(place):
        return waits
    return np.where(waits >= 0, place[waits], -1)


def _sources(
    run: ImageRun, record: Record, waits: NDArray[np.void], timing: TimingParams
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The unit that ended each wait, -1 for none, and the time of the event that ended it."""
    cause, fifo, end = waits["cause"], waits["fifo"], waits["end"]
    unit = np.full(len(waits), -1, np.int64)
    time = end - 1
    token = cause == Cause.TOKEN
    by_clock = token | (cause == Cause.MARK)
    unit[by_clock] = record.producers[fifo[by_clock]]
    unit[cause == Cause.SLOT] = record.consumers[fifo[cause == Cause.SLOT]]
    _sent_late(record, waits, token, time)
    packets = np.flatnonzero(cause == Cause.PACKET).tolist()
    crossings = Crossings(run, record) if packets else None
    for i in packets:
        assert crossings is not None  # there is one
        found = crossings.of(int(waits["unit"][i]), int(end[i]))
        unit[i], time[i] = found.sender, found.begin
    walk = Walk(run, record, timing)
    for i in np.flatnonzero((cause == Cause.DECISION) | (cause == Cause.CLOSURE)).tolist():
        closed = cause[i] == Cause.CLOSURE
        pace = int(record.closed_at[fifo[i]]) if closed else int(time[i])
        unit[i], begin = walk.clock_of_pace(int(record.producers[fifo[i]]), pace)
        time[i] = min(begin, time[i])
    return unit, time


def _sent_late(
    record: Record, waits: NDArray[np.void], token: NDArray[np.bool_], time: NDArray[np.int64]
) -> None:
    """Set the time of tokens that were sent more than a cycle before their stamps."""
    late = record.late
    if not len(late):
        return
    span = int(late["stamp"].max()) + 2
    keys = late["fifo"].astype(np.int64) * span + late["stamp"]
    order = np.argsort(keys, kind="stable")
    chosen = np.flatnonzero(token & (waits["end"] < span))
    asked = waits["fifo"][chosen].astype(np.int64) * span + waits["end"][chosen]
    found = np.minimum(np.searchsorted(keys[order], asked), len(keys) - 1)
    same = keys[order][found] == asked
    time[chosen[same]] = late["clock"][order][found[same]]


def _service(timing: TimingParams) -> float:
    """Cycles for which a request keeps the memory busy."""
    if timing.memory_model == WITHOUT_LIMIT:
        return 0.0
    return timing.hbm_interval / timing.hbm_channels
