"""A binary heap of whole numbers, and one of times with the number of what happens then."""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined


@inlined
def push_key(heap, size, key):
    """Add a key to the heap of ``size``; the new size."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if heap[above] <= key:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = key
    return size + 1


@inlined
def drop_key(heap, size):
    """Remove the least key, which is ``heap[0]``; the new size."""
    size -= 1
    key = heap[size]
    at = 0
    below = 1
    while below < size:
        if below + 1 < size and heap[below + 1] < heap[below]:
            below += 1
        if heap[below] >= key:
            break
        heap[at] = heap[below]
        at = below
        below = 2 * at + 1
    heap[at] = key
    return size


@inlined
def is_before(time, number, other_time, other_number):
    """Whether one event comes before another: by time, then by number."""
    return time < other_time or (time == other_time and number < other_number)


@inlined
def push_event(times, numbers, size, time, number):
    """Add an event to the heap of ``size``; the new size."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if not is_before(time, number, times[above], numbers[above]):
            break
        times[at] = times[above]
        numbers[at] = numbers[above]
        at = above
    times[at] = time
    numbers[at] = number
    return size + 1


@inlined
def drop_event(times, numbers, size):
    """Remove the first event, which is at place 0; the new size."""
    size -= 1
    time = times[size]
    number = numbers[size]
    at = 0
    below = 1
    while below < size:
        right = below + 1
        if right < size and is_before(times[right], numbers[right], times[below], numbers[below]):
            below = right
        if not is_before(times[below], numbers[below], time, number):
            break
        times[at] = times[below]
        numbers[at] = numbers[below]
        at = below
        below = 2 * at + 1
    times[at] = time
    numbers[at] = number
    return size
