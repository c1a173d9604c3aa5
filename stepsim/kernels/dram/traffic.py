"""Streams of requests in front of a DRAM: who sends when, and what became of every request.

The driver of the recorded cases of the STeP paper's DRAM. Requests of a stream go in order. In
every cycle the streams send as the policy says, then all channels tick.

* ``STREAMS``: in every ``every``-th cycle up to ``rounds`` rounds (0: without end). In a
  round the streams are visited from number ``cycle mod streams`` on, and each sends one request. A
  stream that is done, refused or at its limit sits out the rest of the cycle; a round without
  progress is the last.
* ``PICKED``: in every ``every``-th cycle one request. The first unfinished stream at or after a
  pointer is picked, the pointer moves behind it, and its request is held until it is accepted.

Cycles in which nothing can happen are left out.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stepsim.kernels.build.by_reference import by_reference
from stepsim.kernels.build.entry_point import cached_entry
from stepsim.kernels.build.jit import apart, inlined
from stepsim.kernels.dram.address import locate
from stepsim.kernels.dram.channel import (
    NOTHING,
    PRE,
    RD,
    REFUSED,
    WR,
    channel_at,
    is_full,
    issued_tag,
    next_clock,
    returned,
    send,
    tick,
)
from stepsim.kernels.dram.table import CHANNELS, INFINITY, ISSUED_BANK, ISSUED_ROW

STREAMS: Final = 0
PICKED: Final = 1

LOG_WORDS: Final = 6
"""Of a command: clock, channel, kind, tag of its request (-1: a refresh), bank and row."""

_TAG_BITS: Final = 40  # of the request; those above have the stream


class Traffic(NamedTuple):
    """A DRAM, streams of requests, and what became of them. All stamps are cycles.

    Attributes
    ----------
    words : the table of the DRAM.
    options : policy, rounds, every, most reads of a stream, most reads in all (0: without limit),
        cycles without requests after a return, rows of the log.
    begin : first request of every stream, and the end of the last. [streams + 1]
    address, write, earliest : of every request: bytes, 0 or 1, first cycle of an attempt.
    tried, accepted, command, done : of every request: first attempt, acceptance, RD or WR, and
        return of the data; -1 where it has none. Written.
    position, channel, waiting, blocked, outstanding : of every stream, for the driver.
    next_at, writes : of every channel, for the driver.
    list : of streams, for the driver.
    log : commands in the order of issue, as far as there is room. Written.
    """

    words: Any
    options: Any
    begin: Any
    address: Any
    write: Any
    earliest: Any
    tried: Any
    accepted: Any
    command: Any
    done: Any
    position: Any
    channel: Any
    waiting: Any
    blocked: Any
    outstanding: Any
    next_at: Any
    writes: Any
    list: Any
    log: Any


_POLICY: Final = 0
_ROUNDS: Final = 1
_EVERY: Final = 2
_LIMIT: Final = 3
_LIMIT_IN_ALL: Final = 4
_GAP: Final = 5
_LOG_ROWS: Final = 6
_LOGGED: Final = 7
_IN_ALL: Final = 8  # reads that are outstanding
_LEFT: Final = 9  # requests that are not complete
_SENT: Final = 10
_NEW_WRITE: Final = 11  # one was accepted in this cycle
_WAKE: Final = 12  # earliest cycle of a request that is too early
_STREAMS: Final = 13
_OPTIONS: Final = 16

# What became of an attempt.
_ACCEPTED: Final = 0
_WAITS: Final = 1  # for an event
_FINISHED: Final = 2

_LAYOUT = Traffic(*[np.dtype(np.int64)] * len(Traffic._fields))


def new_traffic(
    words: Any, begin: Any, address: Any, write: Any, earliest: Any, *, channels: int,
    policy: int = STREAMS, rounds: int = 0, every: int = 1, limit: int = 0, limit_in_all: int = 0,
    gap: int = 0, log_rows: int = 0,
) -> Traffic:  # fmt: skip
    """Traffic before its first cycle; arrays are of int64."""
    streams, requests = len(begin) - 1, len(address)
    options = np.zeros(_OPTIONS, np.int64)
    options[:_LOGGED] = policy, rounds, every, limit, limit_in_all, gap, log_rows
    options[_LEFT] = requests
    options[_STREAMS] = streams
    options[_WAKE] = INFINITY
    log = np.zeros(max(1, log_rows * LOG_WORDS), np.int64)

    def stamps() -> Any:
        return np.full(requests, -1, np.int64)

    def of_stream() -> Any:
        return np.zeros(streams, np.int64)

    return Traffic(
        words, options, begin, address, write, earliest,
        tried=stamps(), accepted=stamps(), command=stamps(), done=stamps(),
        position=np.array(begin[:-1], np.int64), channel=of_stream(), waiting=of_stream(),
        blocked=of_stream(), outstanding=of_stream(),
        next_at=np.full(channels, INFINITY, np.int64), writes=np.zeros(channels, np.int64),
        list=of_stream(), log=log,
    )  # fmt: skip


@inlined
def _attempt(traffic, s, cycle):
    # The head of a stream is sent, if it may be.
    i = traffic.position[s]
    if i == traffic.begin[s + 1]:
        return _FINISHED
    words = traffic.words
    options = traffic.options
    write = traffic.write[i]
    if traffic.earliest[i] > cycle:
        options[_WAKE] = min(options[_WAKE], traffic.earliest[i])
        return _WAITS
    if traffic.waiting[s] == 0:
        traffic.channel[s] = locate(words, traffic.address[i])
    channel = traffic.channel[s]
    if write == 0:
        if options[_LIMIT] > 0 and traffic.outstanding[s] >= options[_LIMIT]:
            return _WAITS
        if options[_LIMIT_IN_ALL] > 0 and options[_IN_ALL] >= options[_LIMIT_IN_ALL]:
            return _WAITS
    if traffic.waiting[s] != 0 and is_full(words, channel, write):
        # Only a write that was accepted since could answer it.
        if write != 0 or traffic.blocked[s] == traffic.writes[channel]:
            return _WAITS
    if traffic.tried[i] < 0:
        traffic.tried[i] = cycle
    result = send(words, channel, cycle, traffic.address[i], write, (s << _TAG_BITS) | i)
    if result == REFUSED:
        traffic.waiting[s] = 1
        traffic.blocked[s] = traffic.writes[channel]
        return _WAITS
    traffic.waiting[s] = 0
    traffic.accepted[i] = cycle
    traffic.position[s] = i + 1
    options[_SENT] += 1
    if write == 0:
        traffic.outstanding[s] += 1
        options[_IN_ALL] += 1
    else:
        traffic.writes[channel] += 1
        options[_NEW_WRITE] = 1
    traffic.next_at[channel] = next_clock(words, channel)
    return _ACCEPTED


@inlined
def _send_of_streams(traffic, cycle):
    # All rounds of a cycle; whether there is anything to send in the next cycle, come what may.
    streams = traffic.options[_STREAMS]
    first = cycle % streams
    rounds = traffic.options[_ROUNDS]
    there = 0
    for j in range(streams):
        s = first + j
        if s >= streams:
            s -= streams
        if _attempt(traffic, s, cycle) == _ACCEPTED:
            traffic.list[there] = s
            there += 1
    done = 1
    while there > 0 and done != rounds:
        kept = 0
        for k in range(there):
            s = traffic.list[k]
            if _attempt(traffic, s, cycle) == _ACCEPTED:
                traffic.list[kept] = s
                kept += 1
        there = kept
        done += 1
    return there > 0


@inlined
def _log(traffic, clock, channel, command):
    options = traffic.options
    if options[_LOGGED] < options[_LOG_ROWS]:
        at = options[_LOGGED] * LOG_WORDS
        tag = issued_tag(traffic.words, channel)
        of = channel_at(traffic.words, channel)
        traffic.log[at] = clock
        traffic.log[at + 1] = channel
        traffic.log[at + 2] = command
        traffic.log[at + 3] = tag if tag < 0 else tag & ((1 << _TAG_BITS) - 1)
        traffic.log[at + 4] = traffic.words[of + ISSUED_BANK]
        traffic.log[at + 5] = traffic.words[of + ISSUED_ROW]
        options[_LOGGED] += 1


@apart
def _run(traffic):
    words = traffic.words
    options = traffic.options
    channels = words[CHANNELS]
    streams = traffic.options[_STREAMS]
    requests = (1 << _TAG_BITS) - 1
    every = options[_EVERY]
    cycle = 0
    quiet_until = 0
    may_send = True  # an attempt may succeed that did not before
    pointer = 0
    held = -1
    while options[_LEFT] > 0:
        options[_NEW_WRITE] = 0
        if may_send and cycle % every == 0 and cycle >= quiet_until:
            options[_WAKE] = INFINITY
            if options[_POLICY] == STREAMS:
                may_send = _send_of_streams(traffic, cycle)
            else:
                if held < 0:
                    for _ in range(streams):
                        s = pointer
                        pointer = 0 if s + 1 == streams else s + 1
                        if traffic.position[s] < traffic.begin[s + 1]:
                            held = s
                            break
                may_send = False
                if held >= 0 and _attempt(traffic, held, cycle) == _ACCEPTED:
                    held = -1
                    may_send = True
            may_send = may_send or options[_NEW_WRITE] != 0
        clock = cycle + 1
        after = INFINITY
        for channel in range(channels):
            if traffic.next_at[channel] <= clock:
                tag = returned(words, channel, clock)
                if tag >= 0:
                    traffic.done[tag & requests] = clock
                    traffic.outstanding[tag >> _TAG_BITS] -= 1
                    options[_IN_ALL] -= 1
                    options[_LEFT] -= 1
                    may_send = True
                    if options[_GAP] > 0:
                        quiet_until = clock + options[_GAP]
                command = tick(words, channel, clock)
                if command != NOTHING:
                    may_send = may_send or command != PRE
                    if command == RD or command == WR:
                        request = issued_tag(words, channel) & requests
                        traffic.command[request] = clock
                        if command == WR:
                            options[_LEFT] -= 1
                    if options[_LOG_ROWS] > 0:
                        _log(traffic, clock, channel, command)
                traffic.next_at[channel] = next_clock(words, channel)
            after = min(after, traffic.next_at[channel])
        # The next cycle in which something can happen.
        wake = max(clock, quiet_until) if may_send else max(clock, options[_WAKE])
        if wake < INFINITY:
            wake = (wake + every - 1) // every * every
        if wake == INFINITY and after == INFINITY and options[_LEFT] > 0:
            return -1
        cycle = max(clock, min(wake, after - 1))
        if cycle >= options[_WAKE]:
            may_send = True
    return options[_LOGGED]


def _entry(traffic):
    """Run until every request is complete; the rows of the log, or -1 if that cannot be."""
    return _run(by_reference(traffic))


run_traffic: Any = cached_entry(_entry, _LAYOUT, what="engine of requests to DRAM alone")
