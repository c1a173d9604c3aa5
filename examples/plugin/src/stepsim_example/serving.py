"""The four parts of a service: requests, a scheduler, the time of a step, and a clock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepsim.serving import Batch, Requests, SchedulerRules, StepTime


@dataclass(frozen=True)
class Bursts:
    """Requests that arrive in bursts, one burst every second.

    The settings of a source are its fields: ``--source bursts:bursts=3,size=4``.
    """

    bursts: int = 2
    size: int = 4
    prompt_tokens: int = 32
    output_tokens: int = 4

    def requests(self) -> Requests:
        """The requests, always the same."""
        count = self.bursts * self.size
        return Requests.of(
            self.prompt_tokens * (1 + np.arange(count) % self.size),
            np.full(count, self.output_tokens),
            arrival_ns=np.arange(count) // self.size * 10**9,
            source="bursts",
        )


class ShortestFirst:
    """Serves one request at a time; of those that wait, the one with the shortest prompt."""

    def __init__(self, requests: Requests, rules: SchedulerRules) -> None:
        self._requests, self._rules = requests, rules
        self._waiting: list[int] = []
        self._current: int | None = None
        self._tokens = 0
        """Tokens of the current request with keys and values."""
        self._generated = 0

    def arrive(self, request: int) -> None:
        """Put a request among those that wait."""
        self._waiting.append(request)

    def schedule(self, now_ns: int) -> Batch:
        """The whole prompt of the next request, or one token of the current one."""
        if self._current is None:
            if not self._waiting:
                none = np.empty(0, np.int64)
                return Batch(none, none, none, np.empty(0, np.bool_))
            self._current = min(self._waiting, key=lambda r: self._requests.prompt_tokens[r])
            self._waiting.remove(self._current)
            self._tokens = self._generated = 0
        known = int(self._requests.prompt_tokens[self._current]) + self._generated
        batch = Batch(
            np.array([self._current]),
            np.array([known - self._tokens]),
            np.array([self._tokens]),
            np.array([True]),
        )
        self._tokens = known
        return batch

    def complete(self, end_ns: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The requests that the step has finished."""
        self._generated += 1
        if self._generated < self._requests.output_tokens[self._current]:
            return np.empty(0, np.int64)
        ended, self._current = self._current, None
        return np.array([ended])

    @property
    def running(self) -> int:
        """Requests that have blocks."""
        return int(self._current is not None)

    @property
    def waiting(self) -> int:
        """Requests that wait for them."""
        return len(self._waiting)

    @property
    def free_blocks(self) -> int:
        """Blocks that could be taken."""
        used = -(-self._tokens // self._rules.block_size) if self.running else 0
        return self._rules.usable_blocks - used


class PerToken:
    """A step takes a time for every token; ``--steps per-token:NS`` states it."""

    memoryless = True

    def __init__(self, ns: str = "1000") -> None:
        self._ns = int(ns)

    def time(self, step: int, batch: Batch) -> StepTime:
        """The time of a batch."""
        return StepTime(self._ns * int(batch.new.sum()), bound="tokens", how="per token")


class Polling:
    """An idle service looks for requests every 10 ms."""

    tick_ns = 10_000_000

    def first(self, arrival_ns: int) -> int:
        """When the service looks for requests first."""
        return self.after_idle(0, arrival_ns)

    def after_step(self, end_ns: int) -> int:
        """When the next step begins."""
        return end_ns

    def after_idle(self, now_ns: int, arrival_ns: int) -> int:
        """The first look at or after the next arrival."""
        return now_ns + -(-max(0, arrival_ns - now_ns) // self.tick_ns) * self.tick_ns
