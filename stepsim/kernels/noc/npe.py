"""Transfers in time steps, in the float32 arithmetic of tt-npe.

In every step the transfers under way ask their ports for bytes; where a port is asked for more than
it has, each gets less by the same factor, once. Every operation on a rate is rounded to float32, in
the order of the transfers under way, since sums depend on it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stepsim.kernels.build.by_reference import by_reference
from stepsim.kernels.build.entry_point import cached_entry
from stepsim.kernels.build.jit import apart, inlined

NEVER: Final = -(1 << 60)
"""End of what a transfer waits for, where it waits for nothing."""

LATE: Final = 1 << 60
"""The same while it waits."""


class SteppedTraffic(NamedTuple):
    """Transfers on a network, and what became of them. Times are cycles.

    Attributes
    ----------
    words : cycles of a step, whether transfers slow each other down, number of transfers, of ports.
    transfers : records of `TRANSFER`.
    queue : records of `QUEUED`, by falling offset and number.
    numbers : ports of all paths, source, links and sinks of each; then transfers that wait for each
        transfer.
    rate, demand : bytes per cycle of every port, and those that it is asked for.
    """

    words: Any
    transfers: Any
    queue: Any
    numbers: Any
    rate: Any
    demand: Any

    @property
    def start(self) -> Any:
        """First cycle of every transfer."""
        return np.asarray(self.transfers["start"])

    @property
    def end(self) -> Any:
        """End of every transfer."""
        return np.asarray(self.transfers["end"])


_STEP: Final = 0
_CONGESTION: Final = 1
_COUNT: Final = 2
_PORTS: Final = 3

_SPARSE: Final = 256
"""Ports for each transfer under way, from which on all ports are not set to 0 at once."""

_PATIENCE: Final = 8  # steps without a byte, after which none will ever move

_INT: Final = np.dtype(np.int64)
_SINGLE: Final = np.dtype(np.float32)

TRANSFER: Final = np.dtype(
    [
        ("start", np.int64),  # first cycle
        ("total", np.int64),  # bytes
        ("moved", np.int64),  # those that are there
        ("after", np.int64),  # end of what it waits for, NEVER for nothing
        ("end", np.int64),
        ("first", np.int32),  # place of its path: source and links
        ("sinks", np.int32),
        ("behind", np.int32),  # end of its path
        ("nominal", np.float32),  # bytes per cycle by its packets and its source
        ("limited", np.int32),  # whether the sink limits it; it is then one
        ("waiting", np.int32),  # transfers that it waits for
        ("delay", np.int64),  # cycles after them
        ("children", np.int32),  # place of those that wait for it
        ("others", np.int32),  # end of these
        ("place", np.int32),  # in the queue
        ("live", np.int32),  # of the first records: transfers under way
    ],
    align=True,
)
"""A transfer."""

QUEUED: Final = np.dtype(
    [
        ("offset", np.int64),  # first cycle of the transfer
        ("ready", np.int64),  # end of what it waits for, LATE while it does
        ("transfer", np.int64),
    ]
)
"""A transfer that has not started."""


def _records(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype((np.record, dtype))


_LAYOUT: Final = SteppedTraffic(
    words=_INT, transfers=_records(TRANSFER), queue=_records(QUEUED),
    numbers=np.dtype(np.int32), rate=_SINGLE, demand=_SINGLE,
)  # fmt: skip


def new_stepped_traffic(
    offset: Any, total: Any, nominal: Any, begin: Any, sinks: Any, path: Any, limited: Any,
    rate: Any, waiting: Any, delay: Any, child_begin: Any, child: Any, *, step: int,
    congestion: bool,
) -> SteppedTraffic:  # fmt: skip
    """Transfers before the first step.

    Parameters
    ----------
    offset, total : first cycle and bytes. [transfers]
    nominal : bytes per cycle by packets and source. [transfers] float32
    begin, sinks, path : first place of each path in ``path``, and first of its sinks.
    limited : whether the sink limits a transfer; it is then one. [transfers]
    rate : bytes per cycle of every port, of which all links have one. [ports] float32
    waiting, delay, child_begin, child : others that a transfer waits for, cycles after them, and
        those that wait for it.
    """
    count = len(offset)
    order = np.lexsort((np.arange(count), offset))[::-1]
    transfers = np.zeros(count, _LAYOUT.transfers)
    ready = np.where(waiting > 0, 0, NEVER)
    for name, values in (
        ("start", offset), ("total", total), ("after", ready), ("end", -1), ("first", begin[:-1]),
        ("sinks", sinks), ("behind", begin[1:]), ("nominal", nominal), ("limited", limited),
        ("waiting", waiting), ("delay", delay), ("children", child_begin[:-1] + len(path)),
        ("others", child_begin[1:] + len(path)),
    ):  # fmt: skip
        transfers[name] = values
    transfers["place"][order] = np.arange(count)
    queue = np.zeros(count, _LAYOUT.queue)
    queue["offset"] = offset[order]
    queue["ready"] = np.where(waiting > 0, LATE, NEVER)[order]
    queue["transfer"] = order
    return SteppedTraffic(
        np.array([step, congestion, count, len(rate)], np.int64),
        transfers, queue, np.concatenate([path, child]).astype(np.int32), rate,
        np.zeros(len(rate), np.float32),
    )  # fmt: skip


@inlined
def _activate(state, now, last, count):
    # Transfers that may start by the end of the step. Taking one moves another to its place, so
    # that later ones are taken in another order than that of their offsets.
    taken = last
    i = last
    while i >= 0 and state.queue[i].offset <= now:
        one = state.queue[i]
        if one.ready <= now:
            t = one.transfer
            state.transfers[count].live = t
            count += 1
            its = state.transfers[t]
            its.start = max(its.start, its.after)
            other = state.queue[taken]
            state.transfers[other.transfer].place = i
            one.offset = other.offset
            one.ready = other.ready
            one.transfer = other.transfer
            taken -= 1
        i -= 1
    return taken, count


@inlined
def _ask(state, now, begun, step, count):
    # What every port is asked for in the step.
    ports = state.words[_PORTS]
    if _SPARSE * count > ports:
        for port in range(ports):
            state.demand[port] = np.float32(0)
    else:
        for k in range(count):
            its = state.transfers[state.transfers[k].live]
            for at in range(its.first, its.behind):
                state.demand[state.numbers[at]] = np.float32(0)
    for k in range(count):
        its = state.transfers[state.transfers[k].live]
        active = np.float32(now - max(begun, its.start))
        asked = active / np.float32(step) * its.nominal
        for at in range(its.first, its.behind):
            state.demand[state.numbers[at]] += asked


@inlined
def _slowed_down(state, its):
    # The rate of a transfer under what its ports are asked for. All links have one rate, so that
    # the one that is asked for most says how much less there is of it. Most conditions here come
    # out one way as often as the other: they are those of a minimum, for which nothing is guessed.
    port = state.numbers[its.first]
    factor = min(np.float32(1), _part(state, port, state.demand[port]))
    link = its.first + 1
    last = its.sinks - 1
    if link <= last:
        rate_of = state.numbers[link]
        most = state.demand[rate_of]
        second = third = fourth = most
        while link <= last:
            # Past the last link, that one again.
            most = max(most, _demand(state, link))
            second = max(second, _demand(state, min(link + 1, last)))
            third = max(third, _demand(state, min(link + 2, last)))
            fourth = max(fourth, _demand(state, min(link + 3, last)))
            link += 4
        most = max(max(most, second), max(third, fourth))
        factor = min(factor, _part(state, rate_of, most))
    if its.limited != 0:
        port = state.numbers[its.sinks]
        factor = min(factor, _part(state, port, state.demand[port]))
    less = np.float32(1) - factor
    return np.float32(np.float64(its.nominal) * (np.float64(1) - np.float64(less)))


@inlined
def _demand(state, at):
    return state.demand[state.numbers[at]]


@inlined
def _part(state, port, asked):
    # The part of what a port is asked for that it has, 1 where it is asked for nothing.
    return state.rate[port] / asked if asked > 0 else np.float32(1)


@inlined
def _release(state, its):
    for at in range(its.children, its.others):
        other = state.transfers[state.numbers[at]]
        other.after = max(other.after, its.end + other.delay)
        other.waiting -= 1
        if other.waiting == 0:
            state.queue[other.place].ready = other.after


@apart
def _run(state):
    step = state.words[_STEP]
    congestion = state.words[_CONGESTION] != 0
    last = state.words[_COUNT] - 1
    now = step
    count = 0
    idle = 0
    while True:
        begun = now - step
        there = count
        last, count = _activate(state, now, last, count)
        bytes_moved = count - there
        if congestion:
            _ask(state, now, begun, step, count)
        kept = 0
        for k in range(count):
            t = state.transfers[k].live
            its = state.transfers[t]
            start = its.start
            active = min(step, now - start)
            after = its.after
            if start < begun and begun - step <= after and after < begun:
                # It could have started in the step in which the other ended.
                active = now - max(start, after)
            speed = _slowed_down(state, its) if congestion else its.nominal
            left = its.total - its.moved
            moved = min(left, np.int64(np.float32(active) * speed))
            its.moved += moved
            bytes_moved += moved
            if moved == left:
                cycles = np.float32(moved) / speed
                whole = np.int64(cycles)
                if np.float32(whole) < cycles:
                    whole += 1
                its.end = np.int64(np.float32(max(start, begun)) + np.float32(whole))
                _release(state, its)
            else:
                state.transfers[kept].live = t
                kept += 1
        count = kept
        if count == 0 and last < 0:
            return 0
        idle = 0 if bytes_moved > 0 or count == 0 else idle + 1
        coming = state.queue[last].offset if last >= 0 else now
        if idle > _PATIENCE and coming <= now:
            return -1
        now += step
        if (count == 0 or idle > _PATIENCE) and coming > now:
            # Nothing happens before the step in which the next transfer may start.
            now += (coming - now + step - 1) // step * step


def _entry(traffic):
    """Run until every transfer has ended, 0, or until none can move another byte, -1."""
    return _run(by_reference(traffic))


run_steps: Any = cached_entry(_entry, _LAYOUT, what="engine of networks, model npe")
