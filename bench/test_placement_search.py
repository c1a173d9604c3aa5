"""The time of a search of a placement, by its effort and by the sizes of what it places."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.placement.test_effort import places


def seconds(run: Callable[[], Any]) -> float:
    """The least CPU time of three runs."""
    taken = []
    for _ in range(3):
        begin = time.process_time()
        run()
        taken.append(time.process_time() - begin)
    return min(taken)


def test_time_grows_in_proportion_to_the_effort() -> None:
    places(4, 12, effort=0.01)
    short, long = (seconds(lambda e=e: places(4, 12, effort=e)) for e in (0.5, 2.5))  # type: ignore[misc]
    assert 2 * short < long < 8 * short


def test_time_of_a_move_grows_no_faster_than_the_links() -> None:
    """A design of 15 times the operators has 15 times the links, and as many streams for each."""
    taken = {rows: seconds(lambda n=rows: places(n, n * n, effort=0.2, streams=2 * n * n))  # type: ignore[misc]
                  for rows in (3, 12)}  # fmt: skip
    usual = {3: 200_000, 12: 2000 * 145}
    small, large = (taken[rows] / usual[rows] for rows in (3, 12))
    links = {rows: 4 * rows * (rows - 1) for rows in (3, 12)}
    assert large / small < links[12] / links[3]
