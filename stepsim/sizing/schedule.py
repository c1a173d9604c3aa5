"""FIFO depths from one run with unbounded FIFOs: a linear program over when its units work.

With unbounded FIFOs every unit works as early as it can, so that tokens wait in front of whatever
joins them. The program delays and stretches the work of units, as long as no token is taken before
it is there and no unit ends later than the run may, so that tokens wait where they are small. The
times are those of a real run: intervals are effective ones, those of the slowest unit a stream
depends on (StreamTensor, section 4, with start times *and* intervals as variables). The depths that
the new times need follow token by token.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepsim.simulation import ImageRun
from stepsim.sizing.solver import Row, minimized

__all__ = ["Stamps", "delayed_depths", "peak_depths", "stamps_of"]


_ROUNDING = 1e-6
"""Times of the linear program may be this much less than what they stand for."""

_POINTS = 12
"""Tokens of a FIFO that the linear program looks at; the depths look at all."""

_Times = NDArray[np.float64]

_NONE: _Times = np.zeros(0)


@dataclass(frozen=True, slots=True)
class Stamps:
    """When the tokens of a run were sent, seen and freed, FIFO by FIFO; times in cycles.

    Attributes
    ----------
    sent : when a token took its slot, at the latest, by FIFO.
    seen : from when its consumer could take it.
    freed : when its slot was free again; only of tokens that were taken, the first of those sent.
    begun : when its consumer began to work on it, at the latest; of the same tokens.
    produced, consumed : how much of all its work the producer or consumer had done when the token
        was sent or taken, from 0 to 1.
    producers, consumers : unit of every FIFO.
    ends : final clock of every unit.
    memory : whether a unit is an off-chip operator.
    """

    sent: tuple[NDArray[np.int64], ...]
    seen: tuple[NDArray[np.int64], ...]
    freed: tuple[NDArray[np.int64], ...]
    begun: tuple[NDArray[np.int64], ...]
    produced: tuple[_Times, ...]
    consumed: tuple[_Times, ...]
    producers: NDArray[np.int64]
    consumers: NDArray[np.int64]
    ends: NDArray[np.int64]
    memory: NDArray[np.bool_]


def stamps_of(run: ImageRun) -> Stamps:
    """The stamps of a run that kept the tokens of all FIFOs."""
    units, channels = run.execution.units, run.execution.channels
    sent, seen, freed = [], [], []
    for fifo in range(len(channels)):
        tokens = run.tokens(fifo)
        stamps = tokens["stamp"].astype(np.int64)
        # A token with a later stamp than the next one has been sent before both.
        sent.append(np.minimum.accumulate((stamps - 1)[::-1])[::-1])
        seen.append(stamps)
        freed.append(tokens["rel"][: int(channels["removed"][fifo])].astype(np.int64))
    producers, consumers = (channels[end].astype(np.int64) for end in ("producer", "consumer"))
    begun, produced, consumed = _work(
        len(units), sent, seen, freed, producers.tolist(), consumers.tolist()
    )
    return Stamps(
        tuple(sent),
        tuple(seen),
        tuple(freed),
        tuple(begun),
        tuple(produced),
        tuple(consumed),
        producers,
        consumers,
        units["clk"].astype(np.int64),
        units["port"] >= 0,
    )


def _work(
    units: int,
    sent: list[NDArray[np.int64]],
    seen: list[NDArray[np.int64]],
    freed: list[NDArray[np.int64]],
    producers: list[int],
    consumers: list[int],
) -> tuple[list[NDArray[np.int64]], list[_Times], list[_Times]]:
    """When the consumers began with their tokens, and how far units were at each of theirs.

    A unit works on a token before it takes it. It began when all that it took at the same time
    could be seen, and what it did before was done. What it has done is what it has taken; of a
    source, what it has sent.
    """
    inputs: list[list[int]] = [[] for _ in range(units)]
    outputs: list[list[int]] = [[] for _ in range(units)]
    for fifo, (producer, consumer) in enumerate(zip(producers, consumers, strict=True)):
        outputs[producer].append(fifo)
        inputs[consumer].append(fifo)
    taken = [times - 1 for times in freed]
    begun, produced, consumed = list(taken), [_NONE] * len(sent), [_NONE] * len(sent)
    for own, out in zip(inputs, outputs, strict=True):
        takes = [taken[fifo] for fifo in own]
        sends = [sent[fifo] for fifo in out]
        steps = np.sort(np.concatenate(takes or sends))
        for fifo in out:
            produced[fifo] = _progress(steps, sent[fifo])
        if not own:
            continue
        events = np.unique(np.concatenate(takes + sends))
        ready = np.concatenate(([np.iinfo(np.int64).min], events[:-1]))
        for fifo, times in zip(own, takes, strict=True):
            np.maximum.at(ready, np.searchsorted(events, times), seen[fifo][: len(times)])
        for fifo, times in zip(own, takes, strict=True):
            begun[fifo] = np.minimum(ready[np.searchsorted(events, times)], times)
            consumed[fifo] = _progress(steps, times)
    return begun, produced, consumed


def _progress(steps: NDArray[np.int64], times: NDArray[np.int64]) -> _Times:
    """Share of the steps of a unit, from 0 for its first, that are done at some times."""
    done = np.searchsorted(steps, times, side="right") - 1
    return np.maximum(done, 0) / max(len(steps) - 1, 1)


def _depth(sent: NDArray[np.generic], freed: NDArray[np.generic]) -> int:
    """Slots with which no token has to wait; one can be taken in the cycle in which it is free."""
    if not len(sent):
        return 1
    left = np.searchsorted(freed, sent, side="right")
    return max(1, int((np.arange(1, len(sent) + 1) - left).max()))


def peak_depths(stamps: Stamps) -> NDArray[np.int64]:
    """Depth of every FIFO with which the run is the same."""
    return np.array(
        [_depth(*pair) for pair in zip(stamps.sent, stamps.freed, strict=True)], np.int64
    )


def delayed_depths(
    stamps: Stamps, depths: NDArray[np.int64], token_bytes: NDArray[np.int64], last: int, tail: int
) -> NDArray[np.int64]:
    """Depths of all FIFOs for the times of the linear program.

    Parameters
    ----------
    depths : of the FIFOs that have one; 0 for those that are to be sized.
    token_bytes : size of a token of every FIFO.
    last : cycle in which the run ends at the latest.
    tail : cycles from the last off-chip access to the end of the run.
    """
    program = _Program(stamps, depths, token_bytes, last, tail)
    times = program.solved()
    if times is None:
        return peak_depths(stamps)
    found = depths.copy()
    for fifo in np.flatnonzero(depths == 0).tolist():
        producer, consumer = int(stamps.producers[fifo]), int(stamps.consumers[fifo])
        sent = stamps.sent[fifo] + _delay(times[producer], stamps.produced[fifo])
        freed = stamps.freed[fifo] + _delay(times[consumer], stamps.consumed[fifo])
        found[fifo] = _depth(np.floor(sent + _ROUNDING), freed)
    return found


def _delay(delays: _Times, progress: _Times) -> _Times:
    first, last = delays.tolist()
    found: _Times = first + (last - first) * progress
    return found


class _Program:
    """The linear program. Unit ``v`` does what it did at ``t`` at ``t + a + (b - a) * x``, where
    ``x`` goes from 0 at its first token to 1 at its last; the delays ``0 <= a <= b`` are sought.
    """

    def __init__(
        self,
        stamps: Stamps,
        depths: NDArray[np.int64],
        token_bytes: NDArray[np.int64],
        last: int,
        tail: int,
    ) -> None:
        self._stamps = stamps
        self._units = len(stamps.ends)
        self._rows: list[Row] = []
        sized = np.flatnonzero(depths == 0)
        self._sized = len(sized)
        weights = np.zeros(self._sized)
        for fifo in range(len(depths)):
            self._in_time(fifo)
            if depths[fifo]:
                self._in_room(fifo, int(depths[fifo]))
        for column, fifo in enumerate(sized.tolist()):
            weights[column] = token_bytes[fifo] * self._stay(fifo, 2 * self._units + column)
        room = last - tail * stamps.memory - stamps.ends
        self._room = np.maximum(room, 0)
        self._weights = weights

    def solved(self) -> _Times | None:
        """The delays; None where the solver finds none."""
        units, rows = self._units, self._rows
        for unit in range(units):
            rows.append(([2 * unit, 2 * unit + 1], [1.0, -1.0], 0.0))
        # Of equally good times the earliest: what is shared, the memory, is then used as it was.
        early = 1e-6 * max(float(self._weights.max(initial=0.0)), 1e-9)
        cost = np.concatenate((np.full(2 * units, early), self._weights))
        top = np.concatenate((np.repeat(self._room, 2), np.full(self._sized, np.inf)))
        found = minimized(cost, rows, top)
        if found is None:
            return None
        delays: _Times = found[: 2 * units].reshape(units, 2)
        return delays

    def _in_time(self, fifo: int) -> None:
        """No token is taken before it can be seen."""
        stamps = self._stamps
        begun = stamps.begun[fifo]
        slack = begun - stamps.seen[fifo][: len(begun)]
        for k in _points(slack, smallest=True):
            self._add(self._sent(fifo, k), self._taken(fifo, k), float(slack[k]))

    def _in_room(self, fifo: int, depth: int) -> None:
        """A FIFO that is not to be sized has room for every token."""
        stamps = self._stamps
        freed = stamps.freed[fifo]
        sent = stamps.sent[fifo][depth:]
        count = min(len(sent), len(freed))
        slack = np.maximum(sent[:count] - freed[:count], 0)
        for k in _points(slack, smallest=True):
            self._add(self._taken(fifo, k), self._sent(fifo, k + depth), float(slack[k]))

    def _stay(self, fifo: int, column: int) -> float:
        """``column`` is how long tokens of a FIFO stay at most; tokens per cycle."""
        stamps = self._stamps
        freed = stamps.freed[fifo]
        sent = stamps.sent[fifo][: len(freed)]
        stay = freed - sent
        for k in _points(stay, smallest=False):
            self._add(self._taken(fifo, k), self._sent(fifo, k), -float(stay[k]), column)
        if len(sent) < 2:
            return 1e-3
        return (len(sent) - 1) / max(float(sent[-1] - sent[0]), len(sent) - 1.0)

    def _sent(self, fifo: int, k: int) -> tuple[int, float]:
        return int(self._stamps.producers[fifo]), float(self._stamps.produced[fifo][k])

    def _taken(self, fifo: int, k: int) -> tuple[int, float]:
        return int(self._stamps.consumers[fifo]), float(self._stamps.consumed[fifo][k])

    def _add(
        self, first: tuple[int, float], second: tuple[int, float], gap: float, column: int = -1
    ) -> None:
        """The delay of the first event is at most that of the second, plus a gap or a variable.

        An event is a unit and how far it was.
        """
        columns, values = [], []
        for (unit, x), sign in ((first, 1.0), (second, -1.0)):
            columns += [2 * unit, 2 * unit + 1]
            values += [sign * (1 - x), sign * x]
        if column >= 0:
            columns.append(column)
            values.append(-1.0)
        self._rows.append((columns, values, gap))


def _points(values: NDArray[np.int64], *, smallest: bool) -> list[int]:
    """Places of some tokens: the first, the last, the extreme one, and some between."""
    if not len(values):
        return []
    some = np.linspace(0, len(values) - 1, min(_POINTS, len(values))).astype(int)
    extreme = values.argmin() if smallest else values.argmax()
    return sorted({int(extreme), *some.tolist()})
