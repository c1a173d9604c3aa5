"""What happened to each request, and in each step, while a service runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepsim.serving.scheduling.interface import Batch, Scheduler
from stepsim.serving.steps.interface import StepTime

NEVER: Final = -1
"""The time of what has not happened."""

_NO_STEP: Final = -2
"""The last step of a request that no step has computed; it is not the one before step 0."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ragged:
    """A list of numbers for each request.

    Attributes
    ----------
    offsets : where the list of each request begins in ``values``, and the end. [requests + 1]
    values : the lists, one after another.
    """

    offsets: Ints
    values: Ints

    @classmethod
    def of(cls, owners: Ints, values: Ints, requests: int) -> Ragged:
        """Lists of values by owner; each keeps its order."""
        order = np.argsort(owners, kind="stable")
        counts = np.bincount(owners, minlength=requests)
        return cls(np.concatenate(([0], np.cumsum(counts))).astype(np.int64), values[order])

    @property
    def owners(self) -> Ints:
        """The request of each value."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def where(self, kept: NDArray[np.bool_]) -> Ragged:
        """The lists of some requests; those of others are empty."""
        owners = self.owners
        values = kept[owners]
        return Ragged.of(owners[values], self.values[values], len(self.offsets) - 1)

    def and_then(self, other: Ragged) -> Ragged:
        """The lists of both for each request, one after the other."""
        return Ragged.of(
            np.concatenate((self.owners, other.owners)),
            np.concatenate((self.values, other.values)),
            len(self.offsets) - 1,
        )

    def __getitem__(self, request: int) -> Ints:
        return self.values[self.offsets[request] : self.offsets[request + 1]]


@dataclass(frozen=True, eq=False, slots=True)
class StepRows:
    """Steps in order. Every array has one number for each step; times are in ns.

    Attributes
    ----------
    start_ns, length_ns : when the step begins, and how long it takes.
    requests : requests in the step.
    new_tokens, before_tokens : tokens that it computes, and those with keys and values before it.
    running, waiting, free_blocks : of the scheduler, after it has chosen the step.
    cycles, offchip_bytes : `NEVER` where the step model does not know them.
    bound, how : as in `StepTime`.
    """

    start_ns: Ints
    length_ns: Ints
    requests: Ints
    new_tokens: Ints
    before_tokens: Ints
    running: Ints
    waiting: Ints
    free_blocks: Ints
    cycles: Ints
    offchip_bytes: Ints
    bound: tuple[str, ...]
    how: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def end_ns(self) -> Ints:
        """When each step ends."""
        return self.start_ns + self.length_ns

    def time(self, step: int) -> StepTime:
        """The time of a step."""
        cycles, offchip = int(self.cycles[step]), int(self.offchip_bytes[step])
        return StepTime(
            int(self.length_ns[step]),
            None if cycles == NEVER else cycles,
            None if offchip == NEVER else offchip,
            self.bound[step],
            self.how[step],
        )


NUMBERS: Final = tuple(StepRows.__dataclass_fields__)[:-2]
"""The fields of `StepRows` that are arrays."""


def step_rows(numbers: Iterable[Ints], bound: Iterable[str], how: Iterable[str]) -> StepRows:
    """Rows of the columns in their order."""
    columns = dict(zip(NUMBERS, numbers, strict=True))
    return StepRows(**columns, bound=tuple(bound), how=tuple(how))


def joined(parts: list[StepRows]) -> StepRows:
    """The steps of all parts, one after another."""
    none = np.empty(0, np.int64)
    return step_rows(
        (np.concatenate([none, *(getattr(part, name) for part in parts)]) for name in NUMBERS),
        (text for part in parts for text in part.bound),
        (text for part in parts for text in part.how),
    )


class StepRecord:
    """Rows of steps as they happen."""

    def __init__(self) -> None:
        self._numbers: list[tuple[int, ...]] = []
        self._bound: list[str] = []
        self._how: list[str] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, start_ns: int, batch: Batch, taken: StepTime, scheduler: Scheduler) -> None:
        """Append the step that a batch begins at ``start_ns``."""
        self._numbers.append(
            (
                start_ns, taken.ns, len(batch.request), int(batch.new.sum()),
                int(batch.before.sum()), scheduler.running, scheduler.waiting,
                scheduler.free_blocks, NEVER if taken.cycles is None else taken.cycles,
                NEVER if taken.offchip_bytes is None else taken.offchip_bytes,
            )
        )  # fmt: skip
        self._bound.append(taken.bound)
        self._how.append(taken.how)

    def rows(self, first: int = 0) -> StepRows:
        """The rows from the step ``first`` on."""
        table = np.array(self._numbers[first:], np.int64).reshape(-1, len(NUMBERS))
        columns = (np.ascontiguousarray(table[:, k]) for k in range(len(NUMBERS)))
        return step_rows(columns, self._bound[first:], self._how[first:])


@dataclass(frozen=True, eq=False, slots=True)
class RequestRows:
    """Requests in their order. Times are in ns after the start; `NEVER` for what never happened.

    Attributes
    ----------
    arrival_ns : when it arrived, also of one that follows another request. [requests]
    first_scheduled_ns : start of the first step that computes some of it. [requests]
    finish_ns : end of the step that yields its last token. [requests]
    cached_tokens : tokens of its prompt with keys and values before the first step. [requests]
    recomputed_tokens : tokens not found in the cache when it was scheduled again. [requests]
    preemptions : how often it lost its blocks. [requests]
    tokens_ns : when each of its tokens was there.
    spans : the steps that compute some of it, as pairs of the first and the last of those in a row;
        None if they were not recorded.
    """

    arrival_ns: Ints
    first_scheduled_ns: Ints
    finish_ns: Ints
    cached_tokens: Ints
    recomputed_tokens: Ints
    preemptions: Ints
    tokens_ns: Ragged
    spans: Ragged | None

    def __len__(self) -> int:
        return len(self.arrival_ns)

    @property
    def first_token_ns(self) -> Ints:
        """When the first token of each request was there."""
        some = np.diff(self.tokens_ns.offsets) > 0
        found = np.full(len(self), NEVER, np.int64)
        found[some] = self.tokens_ns.values[self.tokens_ns.offsets[:-1][some]]
        return found


@dataclass(frozen=True, eq=False, slots=True)
class Sent:
    """Requests whose keys and values were sent from one engine to another; `NEVER` for others.

    Attributes
    ----------
    engine : the engine that computed the prompt. [requests]
    wait_ns : from the first token until the link was free. [requests]
    link_ns : time on the link. [requests]
    sent_bytes : keys and values of the prompt. [requests]
    spans : the steps of that engine that compute some of it, as in `RequestRows`.
    """

    engine: Ints
    wait_ns: Ints
    link_ns: Ints
    sent_bytes: Ints
    spans: Ragged | None


@dataclass(slots=True)
class _Lists:
    owners: list[Ints] = field(default_factory=list)
    values: list[Ints] = field(default_factory=list)

    def add(self, owners: Ints, values: Ints) -> None:
        self.owners.append(owners)
        self.values.append(values)

    def ragged(self, requests: int) -> Ragged:
        none = [np.empty(0, np.int64)]
        owners, values = (np.concatenate(none + found) for found in (self.owners, self.values))
        return Ragged.of(owners, values, requests)


class RequestRecord:
    """Follows every request through the batches of the steps."""

    def __init__(self, prompt_tokens: Ints) -> None:
        self._count = count = len(prompt_tokens)
        self._known = prompt_tokens.copy()
        self.arrival, self._scheduled, self._finish = (
            np.full(count, NEVER, np.int64) for _ in range(3)
        )
        self._cached, self._again, self._preempted, self._done = (
            np.zeros(count, np.int64) for _ in range(4)
        )
        self._first_step, self._last_step = (np.full(count, _NO_STEP, np.int64) for _ in range(2))
        self._tokens, self._spans = _Lists(), _Lists()

    def step(self, step: int, start_ns: int, end_ns: int, batch: Batch) -> None:
        """A batch was computed."""
        r, before, after = batch.request, batch.before, batch.before + batch.new
        last = self._last_step[r]
        new = r[self._scheduled[r] == NEVER]
        if len(new):
            self._scheduled[new] = start_ns
            self._cached[new] = before[last == _NO_STEP]
        again = (before < self._done[r]) & (last != _NO_STEP)
        lost = r[again]
        self._preempted[lost] += 1
        self._again[lost] += self._known[lost] - before[again]
        self._done[r] = after
        begun = r[last != step - 1]
        if len(begun):
            self._close(begun)
            self._first_step[begun] = step
        self._last_step[r] = step
        yields = r[batch.emits]
        self._known[yields] += 1
        self._tokens.add(yields, np.full(len(yields), end_ns, np.int64))

    def finished(self, requests: Ints, end_ns: int) -> None:
        """Requests have their last token."""
        self._finish[requests] = end_ns

    @property
    def done(self) -> int:
        """Number of finished requests."""
        return int(np.count_nonzero(self._finish != NEVER))

    def rows(self) -> RequestRows:
        """What is known of all requests."""
        open_spans = np.flatnonzero(self._last_step != _NO_STEP)
        spans = _Lists([*self._spans.owners], [*self._spans.values])
        spans.add(np.repeat(open_spans, 2), self._pairs(open_spans))
        return RequestRows(
            self.arrival, self._scheduled, self._finish, self._cached, self._again,
            self._preempted, self._tokens.ragged(self._count), spans.ragged(self._count),
        )  # fmt: skip

    def _close(self, requests: Ints) -> None:
        """End the spans of steps of those that have one."""
        ended = requests[self._last_step[requests] != _NO_STEP]
        if len(ended):
            self._spans.add(np.repeat(ended, 2), self._pairs(ended))

    def _pairs(self, requests: Ints) -> Ints:
        both = np.stack((self._first_step[requests], self._last_step[requests]), axis=1)
        return both.ravel()
