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
    follow,
    has_room,
)

PLACES = 300
STEP = 1 << 30
"""From the number of an event to that of the one that follows it."""
Event = tuple[int, int, int, int]
"""Time, number, and two words of content."""


class Queue:
    def __init__(self, places: int) -> None:
        self.queue = np.zeros(QUEUE_WORDS, np.int64)
        self.events = np.zeros(EACH_EVENT * (places + 1), np.int64)
        begin_queue(self.queue, places + 1)

    def enter(self, event: Event, count: int = 1, apart: int = 0) -> int:
        return int(enter(self.queue, self.events, *event, count, apart))

    def follow(self, place: int, time: int) -> bool:
        return bool(follow(self.events, place, time))

    def take(self) -> Event:
        time = first_time(self.queue)
        place = first_event(self.queue, self.events, time)
        number, first, second = (
            int(self.events[place + word]) for word in (NUMBER, CONTENT, CONTENT + 1)
        )
        drop_first(self.queue, self.events, place, time, STEP)
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


@pytest.mark.parametrize("apart", [1, 40, 5_000, 3_000_000, 40_000_000])
def test_events_that_follow_each_other_have_one_place(apart: int) -> None:
    made = Queue(3)
    expected = [(100 + i * apart, 7 + i * STEP, 5, 6) for i in range(4)]
    place = made.enter(expected[0], 2, apart)
    made.enter((*expected[1][:1], 3, 8, 9))
    found = [made.take()]
    assert made.follow(place, expected[2][0])
    assert made.follow(place, expected[3][0])
    assert not made.follow(place, expected[3][0] + apart + 1)
    assert has_room(made.queue, 1)
    assert not has_room(made.queue, 2)
    found += [made.take() for _ in range(4)]
    assert found == [expected[0], (expected[1][0], 3, 8, 9), *expected[1:]]
    assert first_time(made.queue) == INFINITY
    assert has_room(made.queue, 3)


def test_the_first_event_behind_another_decides_how_far_apart_they_are() -> None:
    made = Queue(2)
    place = made.enter((10, 1, 2, 3))
    assert made.follow(place, 25)
    assert not made.follow(place, 39)
    assert made.follow(place, 40)
    assert [made.take()[:2] for _ in range(3)] == [(10, 1), (25, 1 + STEP), (40, 1 + 2 * STEP)]
