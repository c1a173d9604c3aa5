"""FIFO depths from the times of one run with unbounded FIFOs.

With unbounded FIFOs every unit works as early as it can, so tokens wait in front of the unit that
joins them. A timetable delays and stretches the work of units so that tokens wait where they are
small. The times come from a real run: intervals are effective ones, those of the slowest unit a
stream depends on. The depths that the new times require follow token by token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stepsim.simulation import ImageRun
from stepsim.sizing.timetable import Timetable, Work

_ROUNDING = 1e-6
"""Tolerance of the times of the linear program, downward."""

_POINTS = 12
"""Tokens of a FIFO that the linear program considers; the depths consider all."""

_Times = NDArray[np.float64]

_NONE: _Times = np.zeros(0)


@dataclass(frozen=True)
class Stamps:
    """When the tokens of a run were sent, seen and freed, FIFO by FIFO; times in cycles.

    Attributes
    ----------
    sent : when a token took its slot, at the latest, by FIFO.
    seen : from when its consumer could take it.
    freed : when its slot was free again; only of tokens that were taken, the first of those sent.
    producers, consumers : unit of every FIFO.
    ends : final clock of every unit.
    memory : whether a unit is an off-chip operator.
    """

    sent: tuple[NDArray[np.int64], ...]
    seen: tuple[NDArray[np.int64], ...]
    freed: tuple[NDArray[np.int64], ...]
    producers: NDArray[np.int64]
    consumers: NDArray[np.int64]
    ends: NDArray[np.int64]
    memory: NDArray[np.bool_]

    @property
    def started(self) -> Sequence[NDArray[np.int64]]:
        """When its consumer started to work on a token, at the latest; of those in ``freed``."""
        return self._work[0]

    @property
    def produced(self) -> Sequence[_Times]:
        """How much of all its work the producer had done when a token was sent, from 0 to 1."""
        return self._work[1]

    @property
    def consumed(self) -> Sequence[_Times]:
        """How much of all its work the consumer had done when a token was taken, from 0 to 1."""
        return self._work[2]

    @cached_property
    def _work(self) -> tuple[list[NDArray[np.int64]], list[_Times], list[_Times]]:
        # Sorts all tokens of every unit, which peaks alone do not need.
        return _work(self)


def times_of(run: ImageRun, fifo: int) -> tuple[NDArray[np.int64], ...]:
    """When the tokens of a FIFO were sent, seen and freed, as in `Stamps`; the run kept them."""
    tokens = run.tokens(fifo)
    stamps = tokens["stamp"].astype(np.int64)
    # A token with a later stamp than the next one has been sent before both.
    sent = np.minimum.accumulate((stamps - 1)[::-1])[::-1]
    removed = int(run.execution.channels[fifo]["removed"])
    return sent, stamps, tokens["rel"][:removed].astype(np.int64)


def stamps_of(run: ImageRun) -> Stamps:
    """The stamps of a run that kept the tokens of all FIFOs."""
    units, channels = run.execution.units, run.execution.channels
    every = [times_of(run, fifo) for fifo in range(len(channels))]
    sent, seen, freed = ([times[which] for times in every] for which in range(3))
    producers, consumers = (channels[end].astype(np.int64) for end in ("producer", "consumer"))
    return Stamps(
        tuple(sent),
        tuple(seen),
        tuple(freed),
        producers,
        consumers,
        units["clk"].astype(np.int64),
        units["port"] >= 0,
    )


def _work(stamps: Stamps) -> tuple[list[NDArray[np.int64]], list[_Times], list[_Times]]:
    """When consumers started on their tokens, and the progress of units at each of their tokens.

    A unit works on a token before it takes it. It started when all tokens that it took at the same
    time were visible and its earlier work was done. Its progress is the tokens it has taken; for a
    source, the tokens it has sent.
    """
    sent, seen, freed = stamps.sent, stamps.seen, stamps.freed
    inputs: list[list[int]] = [[] for _ in stamps.ends]
    outputs: list[list[int]] = [[] for _ in stamps.ends]
    ends = zip(stamps.producers.tolist(), stamps.consumers.tolist(), strict=True)
    for fifo, (producer, consumer) in enumerate(ends):
        outputs[producer].append(fifo)
        inputs[consumer].append(fifo)
    taken = [times - 1 for times in freed]
    started, produced, consumed = list(taken), [_NONE] * len(sent), [_NONE] * len(sent)
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
            started[fifo] = np.minimum(ready[np.searchsorted(events, times)], times)
            consumed[fifo] = _progress(steps, times)
    return started, produced, consumed


def _progress(steps: NDArray[np.int64], times: NDArray[np.int64]) -> _Times:
    """Share of the steps of a unit, from 0 for its first, that are done at some times."""
    done = np.searchsorted(steps, times, side="right") - 1
    return np.maximum(done, 0) / max(len(steps) - 1, 1)


def slots_needed(sent: NDArray[np.generic], freed: NDArray[np.generic]) -> int:
    """Slots with which no token has to wait; one can be taken in the cycle in which it is free."""
    if not len(sent):
        return 1
    left = np.searchsorted(freed, sent, side="right")
    return max(1, int((np.arange(1, len(sent) + 1) - left).max()))


def peak_depths(stamps: Stamps) -> NDArray[np.int64]:
    """Depth of every FIFO that reproduces the run exactly."""
    return np.array(
        [slots_needed(*pair) for pair in zip(stamps.sent, stamps.freed, strict=True)], np.int64
    )


def delayed_depths(
    stamps: Stamps, depths: NDArray[np.int64], token_bytes: NDArray[np.int64], last: int, tail: int
) -> NDArray[np.int64]:
    """Depths of all FIFOs for the times of the linear program.

    Parameters
    ----------
    depths : of the FIFOs that keep theirs; 0 for those to be sized.
    token_bytes : size of a token of every FIFO.
    last : latest cycle in which the run may end.
    tail : cycles from the last off-chip access to the end of the run.
    """
    room = np.maximum(last - tail * stamps.memory - stamps.ends, 0)
    timetable = Timetable(room.astype(float), stretched=True)
    for fifo in range(len(depths)):
        _in_time(timetable, stamps, fifo)
        if depths[fifo]:
            _in_room(timetable, stamps, fifo, int(depths[fifo]))
    sized = np.flatnonzero(depths == 0).tolist()
    for fifo in sized:
        freed = stamps.freed[fifo]
        sent = stamps.sent[fifo][: len(freed)]
        stay = freed - sent
        timetable.add_wait(
            int(token_bytes[fifo]) * _tokens_per_cycle(sent),
            [
                (_taken(stamps, fifo, k), _sent(stamps, fifo, k), float(stay[k]))
                for k in _points(stay, smallest=False)
            ],
        )
    times = timetable.solved()
    if times is None:
        return peak_depths(stamps)
    found = depths.copy()
    for fifo in sized:
        producer, consumer = int(stamps.producers[fifo]), int(stamps.consumers[fifo])
        sends = stamps.sent[fifo] + _delay(times[producer], stamps.produced[fifo])
        frees = stamps.freed[fifo] + _delay(times[consumer], stamps.consumed[fifo])
        found[fifo] = slots_needed(np.floor(sends + _ROUNDING), frees)
    return found


def _delay(delays: _Times, progress: _Times) -> _Times:
    first, last = delays.tolist()
    found: _Times = first + (last - first) * progress
    return found


def _in_time(timetable: Timetable, stamps: Stamps, fifo: int) -> None:
    """No token is taken before it can be seen."""
    started = stamps.started[fifo]
    slack = started - stamps.seen[fifo][: len(started)]
    for k in _points(slack, smallest=True):
        timetable.add_order(_sent(stamps, fifo, k), _taken(stamps, fifo, k), float(slack[k]))


def _in_room(timetable: Timetable, stamps: Stamps, fifo: int, depth: int) -> None:
    """A FIFO that is not to be sized has room for every token."""
    freed = stamps.freed[fifo]
    sent = stamps.sent[fifo][depth:]
    count = min(len(sent), len(freed))
    slack = np.maximum(sent[:count] - freed[:count], 0)
    for k in _points(slack, smallest=True):
        later = _sent(stamps, fifo, k + depth)
        timetable.add_order(_taken(stamps, fifo, k), later, float(slack[k]))


def _tokens_per_cycle(sent: NDArray[np.int64]) -> float:
    if len(sent) < 2:
        return 1e-3
    return (len(sent) - 1) / max(float(sent[-1] - sent[0]), len(sent) - 1.0)


def _sent(stamps: Stamps, fifo: int, k: int) -> Work:
    return int(stamps.producers[fifo]), float(stamps.produced[fifo][k])


def _taken(stamps: Stamps, fifo: int, k: int) -> Work:
    return int(stamps.consumers[fifo]), float(stamps.consumed[fifo][k])


def _points(values: NDArray[np.int64], *, smallest: bool) -> list[int]:
    """Indices of some tokens: the first, the last, the extreme one, and some between."""
    if not len(values):
        return []
    some = np.linspace(0, len(values) - 1, min(_POINTS, len(values))).astype(int)
    extreme = values.argmin() if smallest else values.argmax()
    return sorted({int(extreme), *some.tolist()})
