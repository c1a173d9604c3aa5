"""A queue of events by time, and by number where times are equal, for many that are far ahead.

Ports with a queue have segments that go on after ten thousands of cycles, so that a heap of all
events is large, and every event passes through all of it. Only those of the next few cycles are in
a heap; the others lie in buckets of so many cycles each, in any order, and come into the heap when
their cycles are next. Bucket numbers repeat, so that a bucket may also have events that are later.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.layout import INFINITY
from stepsim.kernels.noc.heap import drop_event, push_event

_NEAR: Final = 0  # events in the heap
_FAR: Final = 1  # events in buckets
_HORIZON: Final = 2  # first cycle whose events are in buckets
_SPARE: Final = 3  # one more than the first place in buckets without use
_PLACES: Final = 4
_BUCKETS: Final = 5  # one more than the first place of each
_CYCLE_BITS: Final = 5
_BUCKET_BITS: Final = 12
_MASK: Final = (1 << _BUCKET_BITS) - 1
QUEUE_WORDS: Final = _BUCKETS + (1 << _BUCKET_BITS)
"""Words of a queue that can be counted beforehand."""

EACH_EVENT: Final = 5
"""Words of a place for an event: time and number in the heap; time, number and the next place of a
bucket."""


@inlined
def begin_queue(queue, places):
    """An empty queue of so many places; its words are zero."""
    queue[_PLACES] = places


@inlined
def has_room(queue, count):
    """Whether so many events more fit."""
    return queue[_NEAR] + queue[_FAR] + count <= queue[_PLACES]


@inlined
def enter(queue, events, time, number):
    """Add an event."""
    if time < queue[_HORIZON]:
        places = queue[_PLACES]
        queue[_NEAR] = push_event(events, events[places:], queue[_NEAR], time, number)
        return
    far = queue[_FAR]
    if far == 0 and queue[_NEAR] == 0:
        queue[_HORIZON] = time >> _CYCLE_BITS << _CYCLE_BITS
    place = queue[_SPARE]
    at = 2 * queue[_PLACES] + 3 * (place - 1)
    if place == 0:
        # Places are used for the first time one after the other while none is given back.
        at = 2 * queue[_PLACES] + 3 * far
        place = far + 1
    else:
        queue[_SPARE] = events[at + 2]
    bucket = _BUCKETS + ((time >> _CYCLE_BITS) & _MASK)
    events[at] = time
    events[at + 1] = number
    events[at + 2] = queue[bucket]
    queue[bucket] = place
    queue[_FAR] = far + 1


@kernel
def _come_near(queue, events):
    # The events of the next bucket that has some come into the heap.
    places = queue[_PLACES]
    while queue[_NEAR] == 0:
        number = queue[_HORIZON] >> _CYCLE_BITS
        queue[_HORIZON] += 1 << _CYCLE_BITS
        bucket = _BUCKETS + (number & _MASK)
        place = queue[bucket]
        if place == 0:
            continue
        kept = np.int64(0)
        while place != 0:
            at = 2 * places + 3 * (place - 1)
            after = events[at + 2]
            time = events[at]
            if time >> _CYCLE_BITS == number:
                queue[_NEAR] = push_event(
                    events, events[places:], queue[_NEAR], time, events[at + 1]
                )
                queue[_FAR] -= 1
                events[at + 2] = queue[_SPARE]
                queue[_SPARE] = place
            else:
                events[at + 2] = kept
                kept = place
            place = after
        queue[bucket] = kept


@inlined
def first_time(queue, events):
    """The time of the first event; INFINITY without one. The event is then in front."""
    if queue[_NEAR] == 0:
        if queue[_FAR] == 0:
            return INFINITY
        _come_near(queue, events)
    return events[0]


@inlined
def first_number(queue, events):
    """The number of the first event, after :func:`first_time`."""
    return events[queue[_PLACES]]


@inlined
def drop_first(queue, events):
    """Remove the first event."""
    places = queue[_PLACES]
    queue[_NEAR] = drop_event(events, events[places:], queue[_NEAR])
