"""A queue of events by time, and by number where times are equal, for many that are far ahead.

Ports with a queue have segments that go on after ten thousands of cycles, so that a heap of all
events is large, and every event passes through all of it. Here an event passes through three lists
at most. The events of the present window of cycles have a list for every cycle, in the order of
their numbers; bits say which cycles have one. Later events have a list for every window, in any
order, with the least time of each. What is beyond these windows is in one list.

Windows are counted from cycle 0, so that a list of a cycle or a window has no other events. An
event comes into the present window when its first event is served, not when it is looked for: until
then events may be entered that come before.

Events may follow each other: a place has all those that come at equal distances, with numbers at
equal distances, and only the first of them is in a list.
"""

from __future__ import annotations

from typing import Final

from stepsim.kernels.build.bits import lowest
from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.layout import INFINITY

_PLACES: Final = 0  # end of the places for events
_SPARE: Final = 1  # first place that is no longer used, 0 for none
_UNUSED: Final = 2  # first place that never was
_COUNT: Final = 3  # places for events that are used
_NEAR: Final = 4  # those in lists of the present window
_WINDOW: Final = 5  # the present one
_SERVED: Final = 6  # word of bits of the cycle that was served last
_COMING: Final = 7  # first later window that may have events
_BEYOND: Final = 8  # first event and least time of a list
_BITS: Final = 10

_CYCLE_BITS: Final = 12
_CYCLE_MASK: Final = (1 << _CYCLE_BITS) - 1
_WINDOW_BITS: Final = 10
_WINDOW_MASK: Final = (1 << _WINDOW_BITS) - 1
_WORD_BITS: Final = 5
_BIT_MASK: Final = (1 << _WORD_BITS) - 1

_CYCLES: Final = _BITS + (1 << (_CYCLE_BITS - _WORD_BITS))
_WINDOWS: Final = _CYCLES + (1 << _CYCLE_BITS)
QUEUE_WORDS: Final = _WINDOWS + (2 << _WINDOW_BITS)
"""Words of a queue that can be counted beforehand."""

_TIME: Final = 0
_LAST: Final = 0  # of the first event of a cycle: the last one; its time is known
NUMBER: Final = 1
"""Word of an event: its number, which no other event has at that time."""
_AFTER: Final = 2  # next event of the list
CONTENT: Final = 3
"""First of two words of an event that were entered with it."""
COUNT: Final = 5
"""Word of an event: how many there are at its place, from this one on."""
_END: Final = 6  # time of the last of these
_APART: Final = 7  # cycles from one of them to the next
EACH_EVENT: Final = 8
"""Words of a place for an event."""


@inlined
def begin_queue(queue, places):
    """An empty queue of so many places, the first of which stays empty; its words are zero."""
    queue[_PLACES] = places
    queue[_UNUSED] = EACH_EVENT
    queue[_COMING] = 1 << _WINDOW_BITS


@inlined
def has_room(queue, count):
    """Whether there is a place for so many events more."""
    return queue[_COUNT] + count < queue[_PLACES]


@inlined
def enter(queue, events, time, number, content, more, count=1, apart=0):
    """Add ``count`` events with two words of content, so many cycles apart; their place."""
    place = queue[_SPARE]
    if place == 0:
        place = queue[_UNUSED]
        queue[_UNUSED] += EACH_EVENT
    else:
        queue[_SPARE] = events[place + _AFTER]
    events[place + _TIME] = time
    events[place + NUMBER] = number
    events[place + CONTENT] = content
    events[place + CONTENT + 1] = more
    events[place + COUNT] = count
    events[place + _END] = time + (count - 1) * apart
    events[place + _APART] = apart
    queue[_COUNT] += 1
    _list(queue, events, place, time, number)
    return place


@inlined
def follow(events, place, time):
    """Have an event come behind those of a place, which are earlier; whether it is as far from the
    last one as they are from each other. If it is not, nothing changes."""
    apart = time - events[place + _END]
    if events[place + COUNT] == 1:
        events[place + _APART] = apart
    elif events[place + _APART] != apart:
        return False
    events[place + COUNT] += 1
    events[place + _END] = time
    return True


@inlined
def _list(queue, events, place, time, number):
    if time >> _CYCLE_BITS == queue[_WINDOW]:
        _enter_cycle(queue, events, place, time, number)
    else:
        _enter_later(queue, events, place, time)


@inlined
def _enter_cycle(queue, events, place, time, number):
    queue[_NEAR] += 1
    cycle = time & _CYCLE_MASK
    first = queue[_CYCLES + cycle]
    if first == 0:
        events[place + _LAST] = place
        queue[_CYCLES + cycle] = place
        queue[_BITS + (cycle >> _WORD_BITS)] |= 1 << (cycle & _BIT_MASK)
    elif number < events[first + NUMBER]:
        events[place + _AFTER] = first
        events[place + _LAST] = events[first + _LAST]
        queue[_CYCLES + cycle] = place
    else:
        _enter_behind(events, first, place, number)


@inlined
def _enter_behind(events, first, place, number):
    # Most events of a cycle come in the order of their numbers.
    before = events[first + _LAST]
    if events[before + NUMBER] < number:
        events[first + _LAST] = place
    else:
        before = first
        while events[events[before + _AFTER] + NUMBER] < number:
            before = events[before + _AFTER]
        events[place + _AFTER] = events[before + _AFTER]
    events[before + _AFTER] = place


@inlined
def _enter_later(queue, events, place, time):
    window = time >> _CYCLE_BITS
    which = _BEYOND
    if window >> _WINDOW_BITS == queue[_WINDOW] >> _WINDOW_BITS:
        which = _WINDOWS + ((window & _WINDOW_MASK) << 1)
        if window < queue[_COMING]:
            queue[_COMING] = window
    first = queue[which]
    if first == 0 or time < queue[which + 1]:
        queue[which + 1] = time
    events[place + _AFTER] = first
    queue[which] = place


@inlined
def first_time(queue):
    """The time of the first event; INFINITY without one."""
    if queue[_NEAR] == 0:
        return _first_later(queue)
    word = queue[_SERVED]
    bits = queue[_BITS + word]
    while bits == 0:
        word += 1
        bits = queue[_BITS + word]
    cycle = (word << _WORD_BITS) + lowest(bits)
    return (queue[_WINDOW] << _CYCLE_BITS) + cycle


@kernel
def _first_later(queue):
    if queue[_COUNT] == 0:
        return INFINITY
    end = ((queue[_WINDOW] >> _WINDOW_BITS) + 1) << _WINDOW_BITS
    window = queue[_COMING]
    while window < end and queue[_WINDOWS + ((window & _WINDOW_MASK) << 1)] == 0:
        window += 1
    queue[_COMING] = window
    if window < end:
        return queue[_WINDOWS + ((window & _WINDOW_MASK) << 1) + 1]
    return queue[_BEYOND + 1]


@inlined
def first_event(queue, events, time):
    """The place of the first event, which is at ``time``, as :func:`first_time` says."""
    if queue[_NEAR] == 0:
        _come_near(queue, events, time)
    return queue[_CYCLES + (time & _CYCLE_MASK)]


@kernel
def _come_near(queue, events, time):
    # The window of the first event is the present one from now on.
    window = time >> _CYCLE_BITS
    nearer = window >> _WINDOW_BITS != queue[_WINDOW] >> _WINDOW_BITS
    queue[_WINDOW] = window
    queue[_SERVED] = 0
    if nearer:
        queue[_COMING] = ((window >> _WINDOW_BITS) + 1) << _WINDOW_BITS
        place = queue[_BEYOND]
        queue[_BEYOND] = 0
        while place != 0:
            after = events[place + _AFTER]
            _enter_later(queue, events, place, events[place + _TIME])
            place = after
    which = _WINDOWS + ((window & _WINDOW_MASK) << 1)
    place = queue[which]
    queue[which] = 0
    while place != 0:
        after = events[place + _AFTER]
        _enter_cycle(queue, events, place, events[place + _TIME], events[place + NUMBER])
        place = after


@inlined
def drop_first(queue, events, place, time, apart=0):
    """Remove the first event, which is at a place and a time. The number of the one that follows
    there is higher by ``apart``; without one, the place is no longer used."""
    cycle = time & _CYCLE_MASK
    word = cycle >> _WORD_BITS
    queue[_SERVED] = word
    queue[_NEAR] -= 1
    last = events[place + _LAST]
    if last == place:
        queue[_CYCLES + cycle] = 0
        queue[_BITS + word] &= ~(1 << (cycle & _BIT_MASK))
    else:
        after = events[place + _AFTER]
        events[after + _LAST] = last
        queue[_CYCLES + cycle] = after
    if events[place + COUNT] > 1:
        events[place + COUNT] -= 1
        number = events[place + NUMBER] + apart
        events[place + NUMBER] = number
        time += events[place + _APART]
        events[place + _TIME] = time
        _list(queue, events, place, time, number)
    else:
        queue[_COUNT] -= 1
        events[place + _AFTER] = queue[_SPARE]
        queue[_SPARE] = place
