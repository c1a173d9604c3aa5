"""What a request does from its arrival to its end, as slices of time."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepsim.report.serving.series import EngineSteps, Ints
from stepsim.serving import ServeResult

WAITING: Final = "waiting"
PREFILL: Final = "prefill"
DECODE: Final = "decode"
RECOMPUTED: Final = "recomputation"
PREEMPTED: Final = "preempted"
PASSED_OVER: Final = "not scheduled"
EITHER: Final = "preempted or not scheduled"

STAGES: Final = (WAITING, PREFILL, DECODE, RECOMPUTED, PREEMPTED, PASSED_OVER, EITHER)


class Stage(NamedTuple):
    """A slice of a request's time, in ns.

    Attributes
    ----------
    step : the step of its replica that begins with it; -1 where none does.
    """

    name: str
    begin: int
    end: int
    step: int


class Served(NamedTuple):
    """A request and its stages.

    Attributes
    ----------
    row : its row in the table of requests.
    begin, end : its arrival, and its last token or the end of the service.
    """

    row: int
    begin: int
    end: int
    stages: tuple[Stage, ...]


def served_of(
    result: ServeResult, engines: list[EngineSteps], rows: Ints, until: int
) -> Iterator[Served]:
    """The requests in some rows of the table; those that never arrived are left out.

    Where the table does not say which steps computed a request, its stages end with its first and
    its last token.

    Parameters
    ----------
    until : the end of the service, in ns.
    """
    table = result.requests.take(rows)
    spans = table["computed_steps"].to_pylist()
    gaps = table["itl_ns"].to_pylist()
    columns = ("arrival_ns", "first_scheduled_ns", "first_token_ns", "finish_ns", "preemptions",
               "replica")  # fmt: skip
    for row, own, itl, *values in zip(
        rows.tolist(), spans, gaps, *(table[name].to_pylist() for name in columns), strict=True
    ):
        arrival, scheduled, first, finish, preemptions, replica = values
        if arrival is None:
            continue
        end = until if finish is None else finish
        if scheduled is None:
            stages = [Stage(WAITING, arrival, end, -1)]
        elif own is None:
            there = end if first is None else first
            stages = [Stage(WAITING, arrival, scheduled, -1), Stage(PREFILL, scheduled, there, -1),
                      Stage(DECODE, there, end, -1)]  # fmt: skip
        else:
            tokens = [] if first is None else first + np.cumsum([0, *itl])
            steps = engines[replica]
            stages = [Stage(WAITING, arrival, int(steps.start[own[0]]), -1)]
            pairs = np.array(own, np.int64).reshape(-1, 2)
            stages += _computed(steps, pairs, np.array(tokens, np.int64), preemptions)
        yield Served(row, arrival, end, tuple(one for one in stages if one.end > one.begin))


def _computed(
    steps: EngineSteps, spans: Ints, tokens: NDArray[np.int64], preemptions: int
) -> Iterator[Stage]:
    """What happens from the first step of a request on.

    Parameters
    ----------
    spans : the first and the last step of those in a row that compute some of it. [spans, 2]
    """
    names = {0: PASSED_OVER, len(spans) - 1: PREEMPTED}
    between = names.get(preemptions, EITHER)
    for number, (first, last) in enumerate(spans.tolist()):
        begin, end = int(steps.start[first]), int(steps.end[last])
        if number:
            yield Stage(between, int(steps.end[spans[number - 1, 1]]), begin, -1)
        yielded = int(np.searchsorted(tokens, begin, "right"))
        if not yielded:
            there = int(tokens[0]) if len(tokens) else end
            yield Stage(PREFILL, begin, min(there, end), first)
            if there < end:
                yield Stage(DECODE, there, end, int(np.searchsorted(steps.start, there)))
        elif yielded == len(tokens):
            yield Stage(RECOMPUTED, begin, end, first)
        else:
            step = int(np.searchsorted(steps.end, tokens[yielded]))
            if step <= first:
                yield Stage(DECODE, begin, end, first)
            else:
                turn = int(steps.start[min(step, last)]) if step <= last else end
                yield Stage(RECOMPUTED, begin, turn, first)
                yield Stage(DECODE, turn, end, step)


def lanes_of(begins: list[int], ends: list[int]) -> list[int]:
    """A lane for each interval, as few as possible; those of a lane do not overlap.

    Parameters
    ----------
    begins : ascending.
    """
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    found: list[int] = []
    count = 0
    for begin, end in zip(begins, ends, strict=True):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            heapq.heappush(free, count)
            count += 1
        lane = heapq.heappop(free)
        heapq.heappush(busy, (end, lane))
        found.append(lane)
    return found
