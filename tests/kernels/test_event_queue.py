"""Queues of events: what comes out is what a sorted list gives, however far ahead events are."""

from __future__ import annotations

from bisect import insort

import numpy as np
import pytest

from stepsim.kernels.layout import INFINITY
from stepsim.kernels.noc.event_queue import (
    CONTENT,
    EACH_EVENT,
    NUMBER,
    QUEUE_WORDS,
    begin_queue,
    drop_first,
    enter,
    first_event,
    first_time,
    has_room,
)

PLACES = 300
Event = tuple[int, int, int, int]
"""Time, number, and two words of content."""


class Queue:
    def __init__(self, places: int) -> None:
        self.queue = np.zeros(QUEUE_WORDS, np.int64)
        self.events = np.zeros(EACH_EVENT * (places + 1), np.int64)
        begin_queue(self.queue, places + 1)

    def enter(self, event: Event) -> None:
        enter(self.queue, self.events, *event)

    def take(self) -> Event:
        time = first_time(self.queue)
        place = first_event(self.queue, self.events, time)
        number, first, second = (
            int(self.events[place + word]) for word in (NUMBER, CONTENT, CONTENT + 1)
        )
        drop_first(self.queue, self.events, place, time)
        return int(time), number, first, second


@pytest.mark.parametrize("ahead", [1, 40, 5_000, 3_000_000, 40_000_000])
def test_events_come_by_time_and_number(ahead: int) -> None:
    draw = np.random.default_rng(ahead)
    made = Queue(PLACES)
    queue = made.queue
    expected: list[Event] = []
    now = number = 0
    for _ in range(2_000):
        if has_room(queue, 1) and (not expected or draw.random() < 0.55):
            # Numbers of one time come in any order.
            order = int(draw.integers(0, 9)) << 20 | number
            time = now + int(draw.integers(0, ahead))
            event = time, order, *draw.integers(0, 1 << 40, 2).tolist()
            number += 1
            made.enter(event)
            insort(expected, event)
        else:
            event = made.take()
            assert event == expected.pop(0)
            now = event[0]
        assert has_room(queue, PLACES - len(expected))
        assert not has_room(queue, PLACES - len(expected) + 1)
        assert first_time(queue) == (expected[0][0] if expected else INFINITY)
    while expected:
        assert made.take() == expected.pop(0)
    assert first_time(queue) == INFINITY


def test_an_event_before_those_that_were_looked_for_comes_first() -> None:
    made = Queue(4)
    made.enter((100_000, 1, 5, 1))
    assert first_time(made.queue) == 100_000
    made.enter((70, 2, 6, 2))
    made.enter((100_000, 0, 7, 3))
    found = [made.take() for _ in range(3)]
    assert found == [(70, 2, 6, 2), (100_000, 0, 7, 3), (100_000, 1, 5, 1)]
    assert first_time(made.queue) == INFINITY
