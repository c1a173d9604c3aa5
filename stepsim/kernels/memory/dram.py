"""A memory of DRAM channels with banks, rows and queues, behind ports that share a request path.

A cycle of the machine, in this order (the rules of the hardware that the STeP paper was validated
with):

1. the first stage of requests at the DRAM is offered to it, and what a queue refuses is offered
   again in the next cycle;
2. requests move on through the stages in front of it, and the arbiter grants the next one; all of
   this looks at the stages as they were at the beginning of the cycle, so that a full stage that
   gives one away still takes none;
3. the DRAM ticks, as often as its clock says, and what returned comes to the ports.

The state of the DRAM, the ports and the path between them is in ``memory_table``; see
:mod:`stepsim.kernels.memory.dram_table`. Cycles in which nothing can happen are not visited. While
no read is under way and no port has anything to request, the DRAM is left behind: what it does by
itself is made up for when the next request comes.
"""

from __future__ import annotations

from typing import Final

from stepsim.kernels.build.bits import lowest
from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.dram.address import locate
from stepsim.kernels.dram.channel import REFUSED, next_clock, returned, send, tick
from stepsim.kernels.layout import INFINITY
from stepsim.kernels.memory.accesses import enter, next_to_begin, one_begins
from stepsim.kernels.memory.declaration import MemoryModel
from stepsim.kernels.memory.dram_ports import (
    arrive,
    ask,
    complete_write,
    header_of,
    port_at,
    take_request,
    update_set,
)
from stepsim.kernels.memory.dram_table import (
    ACCESS_BYTES,
    ACTIVE,
    ACTIVE_AT,
    ADDRESS,
    ARBITER,
    BITS,
    CLOCKS,
    FAIR,
    GRANTED,
    GRANTS,
    HEAD_OF_LINE,
    IS_WRITE,
    MARK,
    NEXT_AT,
    PARTS,
    PER_CYCLES,
    POINTER,
    PORT_BITS,
    PORTS,
    QUEUE_AT,
    QUEUE_HEAD,
    QUEUE_MASK,
    QUEUE_TAIL,
    QUEUE_WORDS,
    READS,
    ROTATING,
    SET_AT,
    SET_WORDS,
    STAGE_AT,
    STAGE_ROOM,
    STAGES,
    WANTING,
    WIDTH,
)

DRAM: Final = MemoryModel(
    "dram",
    "DRAM channels with banks, rows, queues and addresses, behind an arbiter",
    addressed=True,
    apart=True,
)


@DRAM.issue
def issue(state, port, clock, requests):
    enter(state, port, clock, requests)


@inlined
def _clock_of(words, header, cycle):
    # The clock that the DRAM reaches in a cycle.
    return cycle * words[header + CLOCKS] // words[header + PER_CYCLES]


@inlined
def _cycle_of(words, header, clock):
    # The cycle in which the DRAM reaches a clock.
    each = words[header + CLOCKS]
    return (clock * words[header + PER_CYCLES] + each - 1) // each


@inlined
def _send_all(words, header, place, stamp):
    # Send what is left of a request; whether the DRAM has all of it.
    address = words[place]
    number = words[place + 1]
    write = number & 1
    sent = words[place + 2]
    parts = words[header + PARTS]
    next_at = words[header + NEXT_AT]
    while sent < parts:
        at = address + sent * words[header + ACCESS_BYTES]
        channel = locate(words, at)
        if send(words, channel, stamp, at, write, number >> 1) == REFUSED:
            break
        if words[next_at + channel] == INFINITY:
            words[words[header + ACTIVE_AT] + words[header + ACTIVE]] = channel
            words[header + ACTIVE] += 1
        words[next_at + channel] = next_clock(words, channel)
        sent += 1
    words[place + 2] = sent
    return sent == parts


@inlined
def _remove(words, header, position):
    # Take a request out of the last stage; those before it move up.
    first = words[header + QUEUE_HEAD]
    queue = words[header + QUEUE_AT]
    mask = words[header + QUEUE_MASK]
    for i in range(position, first, -1):
        to = queue + (i & mask) * QUEUE_WORDS
        source = queue + ((i - 1) & mask) * QUEUE_WORDS
        for k in range(QUEUE_WORDS):
            words[to + k] = words[source + k]
    words[header + QUEUE_HEAD] = first + 1


@kernel
def _offer(words, header, stamp):
    # Offer the requests of the last stage to the DRAM, as many as it may send in a cycle.
    last = words[header + STAGE_AT] + words[header + STAGES] - 1
    queue = words[header + QUEUE_AT]
    mask = words[header + QUEUE_MASK]
    position = words[header + QUEUE_HEAD]
    end = position + words[last]
    left = words[header + WIDTH]
    while position < end and left > 0:
        if _send_all(words, header, queue + (position & mask) * QUEUE_WORDS, stamp):
            _remove(words, header, position)
            words[last] -= 1
            left -= 1
        elif words[header + HEAD_OF_LINE] != 0:
            break
        position += 1


@inlined
def _first_wanting(words, header, begin):
    # The first port from ``begin`` on, in turn, that wants to request. Needs that there is one.
    sets = words[header + SET_AT]
    at = begin // BITS
    left = words[sets + at] >> (begin % BITS)
    if left != 0:
        return begin + lowest(left)
    while True:
        at += 1
        if at == words[header + SET_WORDS]:
            at = 0
        if words[sets + at] != 0:
            return at * BITS + lowest(words[sets + at])


@inlined
def _longest_ago(words, header):
    # Of the ports that want to request, that whose last grant is longest ago.
    sets = words[header + SET_AT]
    found = -1
    least = INFINITY
    for at in range(words[header + SET_WORDS]):
        left = words[sets + at]
        while left != 0:
            p = at * BITS + lowest(left)
            left &= left - 1
            granted = words[port_at(words, header, p) + GRANTED]
            if granted < least:
                least = granted
                found = p
    return found


@inlined
def _grant(state, words, header, p, cycle):
    # The next request of a port enters the path; when the access of a write is complete by it.
    its = port_at(words, header, p)
    address = words[its + ADDRESS] + words[its + MARK]
    number = take_request(words, header, its, words[header + PARTS])
    tail = words[header + QUEUE_TAIL]
    place = words[header + QUEUE_AT] + (tail & words[header + QUEUE_MASK]) * QUEUE_WORDS
    words[place] = address
    words[place + 1] = (((number << PORT_BITS) | p) << 1) | words[its + IS_WRITE]
    words[place + 2] = 0
    words[header + QUEUE_TAIL] = tail + 1
    words[header + GRANTS] += 1
    words[its + GRANTED] = words[header + GRANTS]
    if words[its + IS_WRITE] == 0:
        words[header + READS] += 1
    done = complete_write(state, words, its, p, cycle)
    update_set(words, header, its, p)
    return done


@kernel
def _arbitrate(state, words, header, room, cycle, limit):
    # Grant as many requests as there is ``room`` for; the new ``limit``.
    ports = words[header + PORTS]
    for _ in range(words[header + WIDTH]):
        if words[header + WANTING] == 0:
            break
        if room <= 0 and words[header + ARBITER] != ROTATING:
            break
        if words[header + ARBITER] == FAIR:
            p = _longest_ago(words, header)
        else:
            p = _first_wanting(words, header, words[header + POINTER])
            after = p + 1
            words[header + POINTER] = after if after < ports else 0
        if room > 0:
            limit = min(limit, _grant(state, words, header, p, cycle))
            words[words[header + STAGE_AT]] += 1
            room -= 1
    return limit


@kernel
def _move(state, words, header, cycle, limit):
    # Offers, moves and grants of a cycle; the new ``limit``.
    stages = words[header + STAGE_AT]
    i = stages + words[header + STAGES] - 1
    ahead = words[i]  # of the next stage, at the beginning of the cycle
    if ahead > 0:
        _offer(words, header, _clock_of(words, header, cycle - 1))
    width = words[header + WIDTH]
    capacity = words[header + STAGE_ROOM]
    while i > stages:
        i -= 1
        here = words[i]
        count = min(min(width, here), capacity - ahead)
        words[i] -= count
        words[i + 1] += count
        ahead = here
    if words[header + WANTING] > 0:
        limit = _arbitrate(state, words, header, capacity - ahead, cycle, limit)
    return limit


@kernel
def _tick(state, words, header, cycle, limit):
    # All channels up to the clock that the DRAM reaches in a cycle; the new ``limit``.
    until = _clock_of(words, header, cycle)
    next_at = words[header + NEXT_AT]
    active_at = words[header + ACTIVE_AT]
    i = 0
    while i < words[header + ACTIVE]:
        channel = words[active_at + i]
        while words[next_at + channel] <= until:
            clock = words[next_at + channel]
            tick(words, channel, clock)
            tag = returned(words, channel, clock)
            if tag >= 0:
                done = arrive(state, tag & ((1 << PORT_BITS) - 1), tag >> PORT_BITS, cycle)
                if done >= 0:
                    words[header + READS] -= 1
                    limit = min(limit, done)
            words[next_at + channel] = next_clock(words, channel)
        if words[next_at + channel] == INFINITY:
            words[header + ACTIVE] -= 1
            words[active_at + i] = words[active_at + words[header + ACTIVE]]
        else:
            i += 1
    return limit


@inlined
def _next_cycle(state, words, header, cycle, limit):
    # The first cycle from ``cycle`` on in which anything happens, behind ``limit`` for none.
    shared = state.globals[0]
    if words[header + WANTING] > 0 or words[header + QUEUE_HEAD] != words[header + QUEUE_TAIL]:
        return cycle
    first = limit + 1
    if words[header + READS] > 0:
        clock = INFINITY
        next_at = words[header + NEXT_AT]
        for i in range(words[header + ACTIVE]):
            clock = min(clock, words[next_at + words[words[header + ACTIVE_AT] + i]])
        # Of clocks that are far away, the product would be too large.
        if clock <= _clock_of(words, header, cycle):
            return cycle
        if clock < INFINITY:
            first = min(first, _cycle_of(words, header, clock))
    if shared.memory_pending > 0:
        first = min(first, state.ports[state.pending[0]].due)
    return max(first, cycle)


@DRAM.ends_from
def ends_from(state):
    words = state.memory_table
    cycle = max(state.globals[0].memory_now, 1)
    return _next_cycle(state, words, header_of(state), cycle, INFINITY - 1)


@DRAM.advance
def advance(state, limit):
    """Run all cycles up to ``limit``, or up to the first completion created on the way."""
    shared = state.globals[0]
    words = state.memory_table
    header = header_of(state)
    cycle = max(shared.memory_now, 1)
    while True:
        first = _next_cycle(state, words, header, cycle, limit)
        if first > limit:
            break
        if first > cycle:
            # Before anything is sent in the first cycle.
            limit = _tick(state, words, header, first - 1, limit)
            cycle = first
        while one_begins(state, cycle):
            p = next_to_begin(state)
            limit = min(limit, ask(state, p, state.ports[p].due - 1))
        limit = _move(state, words, header, cycle, limit)
        limit = _tick(state, words, header, cycle, limit)
        shared.memory_steps += 1
        cycle += 1
    shared.memory_now = cycle
