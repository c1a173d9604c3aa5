"""Queues of events: what comes out is what a sorted list gives, however far ahead events are."""

from __future__ import annotations

from bisect import insort

import numpy as np
import pytest

from stepsim.kernels.layout import INFINITY
from stepsim.kernels.noc.event_queue import (
    EACH_EVENT,
    QUEUE_WORDS,
    begin_queue,
    drop_first,
    enter,
    first_number,
    first_time,
    has_room,
)

PLACES = 300


@pytest.mark.parametrize("ahead", [1, 40, 5_000, 3_000_000])
def test_events_come_by_time_and_number(ahead: int) -> None:
    draw = np.random.default_rng(ahead)
    queue = np.zeros(QUEUE_WORDS, np.int64)
    events = np.zeros(EACH_EVENT * PLACES, np.int64)
    begin_queue(queue, PLACES)
    expected: list[tuple[int, int]] = []
    now = number = 0
    for _ in range(2_000):
        if has_room(queue, 1) and (not expected or draw.random() < 0.55):
            # Numbers of one time come in any order.
            event = now + int(draw.integers(0, ahead)), int(draw.integers(0, 9)) << 20 | number
            number += 1
            enter(queue, events, *event)
            insort(expected, event)
        else:
            time = first_time(queue, events)
            assert (time, first_number(queue, events)) == expected.pop(0)
            now = int(time)
            drop_first(queue, events)
        assert has_room(queue, PLACES - len(expected))
        assert not has_room(queue, PLACES - len(expected) + 1)
    while expected:
        assert first_time(queue, events) == expected[0][0]
        assert first_number(queue, events) == expected.pop(0)[1]
        drop_first(queue, events)
    assert first_time(queue, events) == INFINITY


def test_an_event_before_those_that_were_looked_for_comes_first() -> None:
    queue = np.zeros(QUEUE_WORDS, np.int64)
    events = np.zeros(EACH_EVENT * 4, np.int64)
    begin_queue(queue, 4)
    enter(queue, events, 100_000, 1)
    assert first_time(queue, events) == 100_000
    enter(queue, events, 70, 2)
    enter(queue, events, 100_000, 0)
    found = []
    while (time := first_time(queue, events)) != INFINITY:
        found.append((int(time), int(first_number(queue, events))))
        drop_first(queue, events)
    assert found == [(70, 2), (100_000, 0), (100_000, 1)]
