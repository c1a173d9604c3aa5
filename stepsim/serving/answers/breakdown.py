"""Where the time of a request went: every ns from its arrival to its last token has one cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepsim.errors import ServingError
from stepsim.serving.service.record import StepRows

QUEUEING: Final = "queueing"
PREFILL: Final = "prefill"
DECODE: Final = "decode"
RECOMPUTED: Final = "recomputation"
PASSED_OVER: Final = "not scheduled"
BETWEEN: Final = "between steps"

LINK_QUEUE: Final = "waiting for the link"
LINK: Final = "on the link"
DECODE_QUEUE: Final = "queueing for decode"

STAGES: Final = (
    QUEUEING, PREFILL, LINK_QUEUE, LINK, DECODE_QUEUE, DECODE, RECOMPUTED, PASSED_OVER, BETWEEN,
)  # fmt: skip
"""What a request does at a time: it waits for its first step; its prompt is computed; its keys and
values wait for the link to another engine, and are on it; it waits for its first step there; steps
yield tokens of it; steps compute again what a preemption lost; steps run without it; no step
runs."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the time of a request, or of the mean of several.

    Attributes
    ----------
    stage : one of `STAGES`.
    bound : the resource that limited the steps meanwhile; empty outside steps, or if unknown.
    ns : its length.
    """

    stage: str
    bound: str
    ns: float


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The time of a request from its arrival to its last token.

    Attributes
    ----------
    to_first_token, afterwards : its parts before the first token and from then on.
    """

    to_first_token: tuple[Part, ...]
    afterwards: tuple[Part, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the whole time."""
        return mean_parts([[*self.to_first_token, *self.afterwards]])

    @property
    def ttft_ns(self) -> float:
        """The time to first token."""
        return sum(part.ns for part in self.to_first_token)

    @property
    def e2el_ns(self) -> float:
        """The latency."""
        return self.ttft_ns + sum(part.ns for part in self.afterwards)


def mean_parts(all_parts: list[list[Part]]) -> tuple[Part, ...]:
    """The mean of the parts of several requests, by stage and the longest first."""
    sums: dict[tuple[str, str], float] = {}
    for parts in all_parts:
        for part in parts:
            key = part.stage, part.bound
            sums[key] = sums.get(key, 0) + part.ns
    count = len(all_parts)
    found = [
        Part(stage, bound, ns if count == 1 else ns / count)
        for (stage, bound), ns in sums.items()
        if ns
    ]
    return tuple(sorted(found, key=lambda part: (STAGES.index(part.stage), -part.ns)))


class Steps:
    """The steps of an engine, of which times by cause can be summed over ranges."""

    def __init__(self, rows: StepRows) -> None:
        self.start, self.end, self.length = rows.start_ns, rows.end_ns, rows.length_ns
        self.bounds, code = np.unique(np.array(rows.bound, object).astype(str), return_inverse=True)
        self._code = code
        by_bound = np.zeros((len(self.bounds), len(rows) + 1), np.int64)
        for k in range(len(self.bounds)):
            np.cumsum(np.where(code == k, self.length, 0), out=by_bound[k, 1:])
        self._sums = by_bound

    def inside(self, spans: Ints) -> Ints:
        """Time by bound of the steps of spans, which are pairs of a first and a last step."""
        pairs = spans.reshape(-1, 2)
        found: Ints = (self._sums[:, pairs[:, 1] + 1] - self._sums[:, pairs[:, 0]]).sum(axis=1)
        return found

    def of(self, steps: Ints) -> Ints:
        """Time by bound of single steps."""
        weights = np.bincount(
            self._code[steps], weights=self.length[steps], minlength=len(self.bounds)
        )
        return weights.astype(np.int64)


def breakdown_of(steps: Steps, arrival: int, tokens: Ints, spans: Ints) -> Breakdown:
    """Where the time of one finished request went.

    Parameters
    ----------
    arrival : when it arrived, in ns.
    tokens : when each of its tokens was there, in ns. [tokens]
    spans : pairs of the first and the last step of those in a row that compute some of it.
    """
    yielding = np.searchsorted(steps.end, tokens)
    first = int(yielding[0])
    before, after = _split(spans, first)
    begin, there = int(steps.start[spans[0]]), int(tokens[0])
    prefill = steps.inside(before)
    computed = steps.inside(after)
    decode = steps.of(yielding[1:])
    to_first = [
        Part(QUEUEING, "", begin - arrival),
        *_parts(PREFILL, steps, prefill),
        *_rest(steps, begin, there, spans[0], first, before),
    ]
    last = int(tokens[-1])
    afterwards = [
        *_parts(DECODE, steps, decode),
        *_parts(RECOMPUTED, steps, computed - decode),
        *_rest(steps, there, last, first + 1, int(spans[-1]), after),
    ]
    return Breakdown(mean_parts([to_first]), mean_parts([afterwards]))


@dataclass(frozen=True, slots=True)
class _Prompt:
    """The part of a request on another engine, which computed its prompt."""

    steps: Steps
    spans: Ints
    wait_ns: int
    link_ns: int


def _of_two_engines(
    steps: Steps, arrival: int, tokens: Ints, spans: Ints, prompt: _Prompt
) -> Breakdown:
    """The same as `breakdown_of` for a request whose prompt was computed elsewhere."""
    before = breakdown_of(prompt.steps, arrival, tokens[:1], prompt.spans)
    begin, last = int(steps.start[spans[0]]), int(tokens[-1])
    there = int(tokens[0]) + prompt.wait_ns + prompt.link_ns
    decode = steps.of(np.searchsorted(steps.end, tokens[1:]))
    afterwards = [
        Part(LINK_QUEUE, "", prompt.wait_ns),
        Part(LINK, "", prompt.link_ns),
        Part(DECODE_QUEUE, "", begin - there),
        *_parts(DECODE, steps, decode),
        *_parts(RECOMPUTED, steps, steps.inside(spans) - decode),
        *_rest(steps, begin, last, int(spans[0]), int(spans[-1]), spans),
    ]
    return Breakdown(before.to_first_token, mean_parts([afterwards]))


def breakdowns(requests: pa.Table, engines: list[StepRows]) -> list[Breakdown | None]:
    """The breakdown of every request; None for those that were not finished.

    Raises
    ------
    ServingError : the table does not say which steps computed a request.
    """
    spans = requests["computed_steps"].combine_chunks()
    if spans.null_count:
        raise ServingError(
            "the results do not say which steps computed a request; serve again to a new folder"
        )
    steps = [Steps(rows) for rows in engines]
    itl = requests["itl_ns"].combine_chunks()
    first = requests["first_token_ns"].fill_null(0).to_numpy()
    arrival = requests["arrival_ns"].fill_null(0).to_numpy()
    finished = requests["finish_ns"].is_valid().to_numpy()
    replica = requests["replica"].to_numpy()
    gaps, gap_at = itl.values.to_numpy(), itl.offsets.to_numpy()
    pairs, pair_at = spans.values.to_numpy(), spans.offsets.to_numpy()
    prompts = _prompts(requests, steps)
    found: list[Breakdown | None] = []
    for k in range(len(requests)):
        if not finished[k]:
            found.append(None)
            continue
        own = gaps[gap_at[k] : gap_at[k + 1]]
        tokens = first[k] + np.concatenate(([0], np.cumsum(own))).astype(np.int64)
        given = steps[replica[k]], int(arrival[k]), tokens, pairs[pair_at[k] : pair_at[k + 1]]
        prompt = prompts.get(k)
        found.append(breakdown_of(*given) if prompt is None else _of_two_engines(*given, prompt))
    return found


def _prompts(requests: pa.Table, steps: list[Steps]) -> dict[int, _Prompt]:
    """Where the prompts of requests were computed that were sent from there, by row."""
    names = ("prefill_replica", "prefill_steps", "link_wait_ns", "link_ns")
    rows = zip(*(requests[name].to_pylist() for name in names), strict=True)
    return {
        k: _Prompt(steps[engine], np.array(spans, np.int64), wait, link)
        for k, (engine, spans, wait, link) in enumerate(rows)
        if engine is not None
    }


def _split(spans: Ints, step: int) -> tuple[Ints, Ints]:
    """The spans up to a step, and those behind it."""
    pairs = spans.reshape(-1, 2)
    before = np.stack((pairs[:, 0], np.minimum(pairs[:, 1], step)), axis=1)
    after = np.stack((np.maximum(pairs[:, 0], step + 1), pairs[:, 1]), axis=1)
    parts = (part[part[:, 0] <= part[:, 1]].ravel() for part in (before, after))
    return next(parts), next(parts)


def _parts(stage: str, steps: Steps, by_bound: Ints) -> list[Part]:
    return [Part(stage, str(b), int(ns)) for b, ns in zip(steps.bounds, by_bound, strict=True)]


def _rest(steps: Steps, begin: int, end: int, first: int, last: int, spans: Ints) -> list[Part]:
    """What is left of a time: steps from ``first`` to ``last`` without it, and time between."""
    if last < first:
        return [Part(BETWEEN, "", end - begin)]
    whole = steps.inside(np.array([first, last]))
    others = whole - steps.inside(spans)
    between = end - begin - int(whole.sum())
    return [*_parts(PASSED_OVER, steps, others), Part(BETWEEN, "", between)]
