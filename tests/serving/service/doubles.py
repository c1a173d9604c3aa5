"""Parts of a service that are simple enough to follow by hand."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from stepsim.serving.requests.requests import Requests
from stepsim.serving.scheduling.interface import Batch
from stepsim.serving.steps.interface import StepTime


class OneByOne:
    """Serves up to ``seqs`` requests at a time, a whole prompt or one token of each in a step."""

    def __init__(self, requests: Requests, seqs: int = 2, blocks: int = 10**6) -> None:
        self._requests = requests
        self._seqs = seqs
        self._blocks = blocks
        self._waiting: deque[int] = deque()
        self._running: list[int] = []
        self._done = np.zeros(len(requests), np.int64)
        self._emitted = np.zeros(len(requests), np.int64)

    def arrive(self, request: int) -> None:
        self._waiting.append(request)

    def schedule(self, now_ns: int) -> Batch:
        while self._waiting and len(self._running) < self._seqs:
            if int(self._requests.prompt_tokens[self._waiting[0]]) > self.free_blocks:
                break
            self._running.append(self._waiting.popleft())
        r = np.array(self._running, np.int64)
        known = self._requests.prompt_tokens[r] + self._emitted[r]
        before = self._done[r]
        self._done[r] = known
        return Batch(r, known - before, before, np.ones(len(r), np.bool_))

    def complete(self, end_ns: int) -> NDArray[np.int64]:
        r = np.array(self._running, np.int64)
        self._emitted[r] += 1
        ended = r[self._emitted[r] >= self._requests.output_tokens[r]]
        self._running = [one for one in self._running if one not in ended]
        return ended

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def free_blocks(self) -> int:
        return self._blocks - int(self._done[self._running].sum())


class PerToken:
    """A step takes 100 ns, and 10 ns for each token."""

    memoryless = True

    def time(self, step: int, batch: Batch) -> StepTime:
        return StepTime(100 + 10 * int(batch.new.sum()), cycles=step, bound="compute", how="linear")


def three(after: bool = False) -> Requests:
    """Three requests of 4, 2 and 3 tokens that generate 2, 1 and 3."""
    return Requests.of(
        [4, 2, 3], [2, 1, 3], arrival_ns=[0, 0, 500],
        after=[-1, 0, -1] if after else None, think_ns=[0, 50, 0] if after else None,
    )  # fmt: skip
