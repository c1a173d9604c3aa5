"""Tokens as messages between chips, in the order of time, beside the units that send them.

A message takes one link after the other, as a whole: a link sends one message at a time, those that
wait in the order in which they came. When it starts a message of ``size`` bytes, the message is at
the next device ``latency + size / rate`` cycles later, and the link is free after ``size / rate``,
both rounded down; see :mod:`stepsim.kernels.noc.chips`, which has the same rules. In a cycle,
messages that are created come first, by the numbers of their routes, and then what was scheduled,
in the order of scheduling. A message that can be created because another arrived in the same cycle,
and made room, comes after all of these.

As in :mod:`stepsim.kernels.noc.carried`, events are served when no unit can run and whatever
happens next happens later. A message is a slot of the arena, so that there is room for as many as
there are tokens:

=========  ======================================================
``stamp``  time of its next event; at first that of its creation
``pub``    order of this event among those of one time
``rel``    the next message of its route
``hrel``   what follows it at a link, or in the heap
``value``  bytes
``rows``   route
``cols``   links that are behind it
``off``    the first of what comes later in the heap
``level``  1 when it has arrived
=========  ======================================================

Messages on links are a pairing heap. Slot 0 is never a message, so that 0 stands for none.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepsim.frozen import NamedTuple
from stepsim.kernels.arena import allocate, free_block
from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.calendar import schedule
from stepsim.kernels.layout import INFINITY, Cause
from stepsim.kernels.noc.heap import drop_event, push_event
from stepsim.kernels.recording.flag import is_recording
from stepsim.kernels.recording.journal import is_full, note_message

MARK: Final = -1
"""In the place of the router's delay: the network sends messages between chips."""

_LINKS: Final = 1
_ROUTES: Final = 2
_RATES: Final = 3  # place of latency and rate of every link, as bits of float64
CONSTANTS: Final = 4
"""Numbers of a network: the mark, links, routes, place of the rates of links."""

_BEGUN: Final = 4
_SPARE: Final = 5  # a slot for the next message
_ORDER: Final = 6  # events so far
_ROOT: Final = 7  # of the heap of messages on links
_RELEASES: Final = 8  # in the heap of links that have sent a message while others wait
_CREATED: Final = 9  # in the heap of routes
_LISTED: Final = 10  # routes that come to have a message to send
_LEFT: Final = 11  # of a recorded run: one more than the cycle whose events are not all served
_HEADER: Final = 12

_UNTIL: Final = 0  # when the link is free
_FREED: Final = 1  # order of that event
_FIRST: Final = 2  # that waits
_LAST: Final = 3
_SENT: Final = 4
_CARRIED: Final = 5
_BUSY: Final = 6
_WAITED: Final = 7
_TIMES: Final = 8
_NUMBERS: Final = 9
_EACH_LINK: Final = 10

_PATH: Final = 0
_LENGTH: Final = 1
_UNIT: Final = 2
_ASKED: Final = 3
_OLDEST: Final = 4
_LATEST: Final = 5
_WAITING: Final = 6
_DUE: Final = 7
_DUE_ROUTE: Final = 8
_FRESH: Final = 9
_COUNT: Final = 10
_BYTES: Final = 11
_EACH_ROUTE: Final = 12

_LINK_BITS: Final = 22
MOST_LINKS: Final = 1 << _LINK_BITS
"""Links that routes may take."""

_BEFORE_ALL: Final = -1
"""Order of the creation of a message among the events of its cycle."""


def message_words(links: int, routes: int) -> int:
    """Words of a network of chips."""
    return _HEADER + _EACH_LINK * links + _EACH_ROUTE * routes


class LinkLoads(NamedTuple):
    """What crossed the network in a run: messages, bytes, cycles of sending and cycles for which
    messages waited by link, and messages and bytes by route."""

    messages: NDArray[np.int64]
    nbytes: NDArray[np.int64]
    busy: NDArray[np.int64]
    waited: NDArray[np.int64]
    route_messages: NDArray[np.int64]
    route_bytes: NDArray[np.int64]


def message_loads(words: NDArray[np.int64], links: int, routes: int) -> LinkLoads:
    """The loads that a run left in its scratch space."""
    at = _HEADER + _EACH_LINK * links
    of_links = [
        words[_HEADER + field * links : _HEADER + (field + 1) * links].copy()
        for field in (_SENT, _CARRIED, _BUSY, _WAITED)
    ]
    of_routes = [
        words[at + field * routes : at + (field + 1) * routes].copy() for field in (_COUNT, _BYTES)
    ]
    return LinkLoads(*of_links, *of_routes)


@inlined
def _links(words, field):
    # Where a field of the links begins.
    return _HEADER + field * words[_LINKS]


@inlined
def _routes(words, field):
    return _HEADER + _EACH_LINK * words[_LINKS] + field * words[_ROUTES]


@inlined
def _due(state):
    # The heap of routes that have a message to send: when the first is created, and their numbers.
    words = state.scratch
    first = _routes(words, _DUE)
    second = _routes(words, _DUE_ROUTE)
    return state.scratch[first:second], state.scratch[second : second + words[_ROUTES]]


@inlined
def _releases(state):
    # The heap of links that come to be free while messages wait.
    words = state.scratch
    first = _links(words, _TIMES)
    second = _links(words, _NUMBERS)
    return state.scratch[first:second], state.scratch[second : second + words[_LINKS]]


@kernel
def _begin(state, constants):
    words = state.scratch
    for i in range(CONSTANTS):
        words[i] = state.parameters[constants + i]
    words[_BEGUN] = 1
    until = _links(words, _UNTIL)
    for i in range(words[_LINKS]):
        words[until + i] = -1


@kernel
def has_place(state, constants):
    """Whether there is a slot for the next message; without one the arena has to grow."""
    words = state.scratch
    if words[_BEGUN] == 0:
        _begin(state, constants)
    if words[_SPARE] == 0:
        slot = allocate(state, 0)
        if slot == 0:
            # It was a ring, and is left aside: its number stands for no message.
            slot = allocate(state, 0)
        if slot < 0:
            return False
        words[_SPARE] = slot
    return True


@kernel
def send_message(state, route, path, length, unit, create, nbytes):
    """A message is created on a route, after :func:`has_place`."""
    words = state.scratch
    words[_routes(words, _PATH) + route] = path
    words[_routes(words, _LENGTH) + route] = length
    words[_routes(words, _UNIT) + route] = unit
    words[_routes(words, _COUNT) + route] += 1
    words[_routes(words, _BYTES) + route] += nbytes
    number = words[_SPARE]
    words[_SPARE] = 0
    message = state.slots[number]
    message.stamp = create
    message.rel = 0
    message.hrel = 0
    message.value = nbytes
    message.rows = route
    message.cols = 0
    message.level = 0
    oldest = _routes(words, _OLDEST) + route
    latest = _routes(words, _LATEST) + route
    waiting = _routes(words, _WAITING) + route
    if words[oldest] == 0:
        words[oldest] = number
    else:
        state.slots[words[latest]].rel = number
    words[latest] = number
    if words[waiting] == 0:
        words[waiting] = number
        words[_routes(words, _FRESH) + words[_LISTED]] = route
        words[_LISTED] += 1


@kernel
def receive_message(state, route):
    """The oldest message of a route, which has arrived, is received."""
    words = state.scratch
    oldest = _routes(words, _OLDEST) + route
    number = words[oldest]
    words[oldest] = state.slots[number].rel
    free_block(state, number, 0)


@kernel
def await_message(state, route, clock):
    """The unit at the end of a route waits for its oldest message."""
    words = state.scratch
    message = state.slots[words[_routes(words, _OLDEST) + route]]
    if message.level != 0:
        # What the unit sends then has the time of the arrival.
        schedule(state, words[_routes(words, _UNIT) + route], max(message.stamp - 1, clock))
    else:
        words[_routes(words, _ASKED) + route] = clock + 1


@inlined
def _is_before(one, other):
    return one.stamp < other.stamp or (one.stamp == other.stamp and one.pub < other.pub)


@inlined
def _meld(state, a, b):
    # The root of two heaps.
    if a == 0:
        return b
    if b == 0:
        return a
    if _is_before(state.slots[b], state.slots[a]):
        a, b = b, a
    state.slots[b].hrel = state.slots[a].off
    state.slots[a].off = b
    return a


@kernel
def _push(state, number, time, order):
    message = state.slots[number]
    message.stamp = time
    message.pub = order
    message.off = 0
    message.hrel = 0
    words = state.scratch
    words[_ROOT] = _meld(state, words[_ROOT], number)


@kernel
def _pop(state):
    # Those below the root meld in pairs, and the pairs from the last one on.
    words = state.scratch
    root = words[_ROOT]
    child = np.int64(state.slots[root].off)
    pairs = np.int64(0)
    while child != 0:
        other = state.slots[child].hrel
        after = np.int64(0)
        state.slots[child].hrel = 0
        if other != 0:
            after = state.slots[other].hrel
            state.slots[other].hrel = 0
        pair = _meld(state, child, other)
        state.slots[pair].hrel = pairs
        pairs = pair
        child = after
    found = np.int64(0)
    while pairs != 0:
        after = state.slots[pairs].hrel
        state.slots[pairs].hrel = 0
        found = _meld(state, found, pairs)
        pairs = after
    words[_ROOT] = found
    return root


@inlined
def next_message_time(state):
    """The time of the next event."""
    words = state.scratch
    if words[_BEGUN] == 0:
        return INFINITY
    times, numbers = _due(state)
    while words[_LISTED] > 0:
        words[_LISTED] -= 1
        route = words[_routes(words, _FRESH) + words[_LISTED]]
        created = state.slots[words[_routes(words, _WAITING) + route]].stamp
        words[_CREATED] = push_event(times, numbers, words[_CREATED], created, route)
    time = INFINITY
    if words[_CREATED] > 0:
        time = times[0]
    if words[_ROOT] != 0:
        time = min(time, state.slots[words[_ROOT]].stamp)
    if words[_RELEASES] > 0:
        time = min(time, words[_links(words, _TIMES)])
    return time


@kernel
def _start(state, link, number, now):
    # The link is free. Its release comes after the arrival when both are at one time.
    words = state.scratch
    first = words[_RATES] + 2 * link
    numbers = state.parameters[first : first + 2].view(np.float64)
    message = state.slots[number]
    size = message.value
    send = size / numbers[1]
    busy = np.int64(send)
    words[_links(words, _SENT) + link] += 1
    words[_links(words, _CARRIED) + link] += size
    words[_links(words, _BUSY) + link] += busy
    waited = now - message.stamp
    words[_links(words, _WAITED) + link] += waited
    if waited > 0:
        note_message(state, Cause.LINK, message.rows, number, message.cols, now, waited)
    note_message(state, Cause.SENDING, message.rows, number, message.cols, now + busy, busy)
    order = words[_ORDER]
    words[_ORDER] += 2
    words[_links(words, _UNTIL) + link] = now + busy
    words[_links(words, _FREED) + link] = order + 1
    _push(state, number, now + np.int64(numbers[0] + send), order)


@kernel
def _release_later(state, link):
    # The link sends the message that has waited longest when it is free.
    words = state.scratch
    times, numbers = _releases(state)
    number = (words[_links(words, _FREED) + link] << _LINK_BITS) | link
    until = words[_links(words, _UNTIL) + link]
    words[_RELEASES] = push_event(times, numbers, words[_RELEASES], until, number)


@kernel
def _enter(state, number, now, order):
    # A message comes to its next link, in the event of this order.
    words = state.scratch
    message = state.slots[number]
    message.stamp = now
    path = words[_routes(words, _PATH) + message.rows]
    link = state.parameters[path + message.cols]
    until = words[_links(words, _UNTIL) + link]
    first = _links(words, _FIRST) + link
    last = _links(words, _LAST) + link
    if until < now or (until == now and words[_links(words, _FREED) + link] < order):
        _start(state, link, number, now)
        return
    message.hrel = 0
    if words[first] == 0:
        words[first] = number
        _release_later(state, link)
    else:
        state.slots[words[last]].hrel = number
    words[last] = number


@kernel
def _release(state):
    words = state.scratch
    times, numbers = _releases(state)
    now = times[0]
    link = numbers[0] & (MOST_LINKS - 1)
    words[_RELEASES] = drop_event(times, numbers, words[_RELEASES])
    waits = _links(words, _FIRST) + link
    number = words[waits]
    words[waits] = state.slots[number].hrel
    _start(state, link, number, now)
    if words[waits] != 0:
        _release_later(state, link)


@kernel
def _create(state):
    # The first message of the route that is due comes to its first link.
    words = state.scratch
    times, numbers = _due(state)
    now = times[0]
    route = numbers[0]
    words[_CREATED] = drop_event(times, numbers, words[_CREATED])
    waiting = _routes(words, _WAITING) + route
    number = words[waiting]
    after = state.slots[number].rel
    words[waiting] = after
    if after != 0:
        created = state.slots[after].stamp
        words[_CREATED] = push_event(times, numbers, words[_CREATED], created, route)
    _enter(state, number, now, _BEFORE_ALL)


@kernel
def _reach(state):
    # A message is at the next device.
    words = state.scratch
    number = _pop(state)
    message = state.slots[number]
    message.cols += 1
    route = message.rows
    if message.cols < words[_routes(words, _LENGTH) + route]:
        _enter(state, number, message.stamp, message.pub)
        return
    message.level = 1
    note_message(state, Cause.DELIVERY, route, number, route, message.stamp, 0)
    asked = _routes(words, _ASKED) + route
    if words[asked] != 0 and words[_routes(words, _OLDEST) + route] == number:
        schedule(state, words[_routes(words, _UNIT) + route], max(message.stamp, words[asked]) - 1)
        words[asked] = 0


@kernel
def serve_messages(state, time):
    """All events of a cycle; those that the journal has no room for are left to the next call."""
    words = state.scratch
    if is_recording(state):
        words[_LEFT] = time + 1
    while True:
        if is_full(state):
            return
        if words[_CREATED] > 0 and words[_routes(words, _DUE)] <= time:
            _create(state)
            continue
        root = words[_ROOT]
        reaches = root != 0 and state.slots[root].stamp <= time
        if words[_RELEASES] > 0 and words[_links(words, _TIMES)] <= time:
            until = words[_links(words, _TIMES)]
            freed = words[_links(words, _NUMBERS)] >> _LINK_BITS
            if not reaches:
                _release(state)
                continue
            message = state.slots[root]
            if until < message.stamp or (until == message.stamp and freed < message.pub):
                _release(state)
                continue
        if not reaches:
            break
        _reach(state)
    if is_recording(state):
        words[_LEFT] = 0


@inlined
def serve_what_is_left(state):
    """In a recorded run, the events that the journal had no room for."""
    if is_recording(state):
        if state.scratch[_LEFT] != 0:
            serve_messages(state, state.scratch[_LEFT] - 1)
