"""What a service did over time, and how its latencies are distributed, from its tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import StepSimError
from stepsim.serving import ServeResult, Slo, read_slo, served_again

Ints = NDArray[np.int64]

LATENCIES: Final = ("ttft", "tpot", "e2el")
"""Latencies of requests, by the beginning of their columns."""

NAMES: Final = {
    "ttft": "time to first token (TTFT)",
    "tpot": "time per output token (TPOT)",
    "itl": "time between tokens (ITL)",
    "e2el": "latency (E2EL)",
}

KINDS: Final = ("prefill alone", "prefill and decode", "decode alone")
"""What a step computes."""

_RERUN_STEPS: Final = 100_000
"""Longest service that is scheduled again to find the steps of each request."""

_CHUNK: Final = 1 << 20
"""Tokens that are looked up at a time."""


@dataclass(frozen=True, eq=False, slots=True)
class EngineSteps:
    """The steps of a replica. Every array has one value for each step.

    Attributes
    ----------
    start, end : in ns.
    new : tokens that it computes.
    decode : those of them that yield the next token of a request that has one; None if that
        is not known. The others are of prompts, or computed again after a preemption.
    running, waiting, free : of the scheduler, after it has chosen the step.
    idle : whether no request is left at the end of the step.
    columns : the other columns, by name.
    """

    start: Ints
    end: Ints
    new: Ints
    decode: Ints | None
    running: Ints
    waiting: Ints
    free: Ints
    idle: NDArray[np.bool_]
    columns: dict[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(self.start)

    def line(self, values: NDArray[Any], when_idle: float) -> tuple[Ints, NDArray[Any]]:
        """Points of a line that keeps the value of a step until the next one, or until the engine
        has nothing to do."""
        at = np.concatenate((self.start, self.end[self.idle]))
        value = np.concatenate((values, np.full(int(self.idle.sum()), when_idle, values.dtype)))
        order = np.lexsort((np.arange(len(at)) < len(values), at))
        at, value = at[order], value[order]
        # Where the next step begins at once, the engine has nothing to do for no time.
        last = np.append(at[1:] != at[:-1], True)
        return at[last], value[last]

    def spread(self, amounts: NDArray[Any], edges: NDArray[Any]) -> NDArray[np.float64]:
        """What of amounts, one for each step and even over it, lies between any two edges."""
        sums = np.concatenate(([0], np.cumsum(amounts, dtype=np.float64)))
        times = np.stack((self.start, self.end), axis=1).ravel()
        values = np.stack((sums[:-1], sums[1:]), axis=1).ravel()
        if not len(times):
            return np.zeros(len(edges) - 1)
        found: NDArray[np.float64] = np.diff(np.interp(edges, times, values))
        return found


def engines_of(result: ServeResult) -> list[EngineSteps]:
    """The steps of each replica."""
    steps, requests = result.steps, result.requests
    replica = steps["replica"].to_numpy()
    owner = requests["replica"].to_numpy()
    arrived = requests["arrival_ns"].fill_null(-1).to_numpy()
    finished = requests["finish_ns"].fill_null(-1).to_numpy()
    count = 1 + max(int(replica.max(initial=0)), int(owner.max(initial=0)))
    named = (
        "new_tokens",
        "running_requests",
        "waiting_requests",
        "free_blocks",
        "start_ns",
        "length_ns",
        "batch_requests",
        "context_tokens",
    )
    numbers = {name: steps[name].to_numpy() for name in named}
    for name in ("step_cycles", "step_offchip_bytes"):
        numbers[name] = steps[name].fill_null(-1).to_numpy()
    for name in ("bound", "how"):
        numbers[name] = np.array(steps[name].to_pylist(), object)
    engines = []
    for number in range(count):
        own = np.flatnonzero(replica == number)
        columns = {name: values[own] for name, values in numbers.items()}
        start = columns["start_ns"]
        end = start + columns["length_ns"]
        mine = owner == number
        came = np.sort(arrived[mine & (arrived >= 0)])
        went = np.sort(finished[mine & (finished >= 0)])
        left = np.searchsorted(came, end, "right") - np.searchsorted(went, end, "right")
        engines.append(
            EngineSteps(
                start,
                end,
                columns["new_tokens"],
                None,
                columns["running_requests"],
                columns["waiting_requests"],
                columns["free_blocks"],
                left == 0,
                columns,
            )
        )
    return _with_decode(engines, result)


def kinds_of(new: Ints, decode: Ints) -> Ints:
    """The number in `KINDS` of each step, which has so many new tokens, and those of decodes."""
    found: Ints = np.where(decode == 0, 0, np.where(decode < new, 1, 2))
    return found


def _with_decode(engines: list[EngineSteps], result: ServeResult) -> list[EngineSteps]:
    """The same with the tokens of decodes of each step, if every token is one of a step."""
    counts = [np.zeros(len(one), np.int64) for one in engines]
    owner = result.requests["replica"].to_numpy()
    for numbers, times in later_tokens(result):
        for replica in np.unique(owner[numbers]):
            own = times[owner[numbers] == replica]
            end = engines[replica].end
            place = np.minimum(np.searchsorted(end, own), max(len(end) - 1, 0))
            if not len(end) or (end[place] != own).any():
                return engines
            counts[replica] += np.bincount(place, minlength=len(end))
    if any((count > one.new).any() for count, one in zip(counts, engines, strict=True)):
        return engines
    return [
        EngineSteps(
            one.start,
            one.end,
            one.new,
            count,
            one.running,
            one.waiting,
            one.free,
            one.idle,
            one.columns,
        )
        for one, count in zip(engines, counts, strict=True)
    ]


def later_tokens(result: ServeResult) -> Any:
    """Requests and times of all tokens but the first of each request, some at a time.

    Yields
    ------
    Rows of the table of requests, and ns; in chunks. [tokens]
    """
    itl = result.requests["itl_ns"].combine_chunks()
    gaps, offsets = itl.values.to_numpy(), itl.offsets.to_numpy().astype(np.int64)
    first = result.requests["first_token_ns"].fill_null(0).to_numpy()
    begin, rows = 0, len(first)
    while begin < rows:
        after = int(np.searchsorted(offsets, offsets[begin] + _CHUNK, "right")) - 1
        after = min(max(after, begin + 1), rows)
        own = gaps[offsets[begin] : offsets[after]]
        numbers = np.repeat(np.arange(begin, after), np.diff(offsets[begin : after + 1]))
        sums = np.cumsum(own)
        before = np.concatenate(([0], sums))[offsets[begin:after] - offsets[begin]]
        yield numbers, first[numbers] + sums - before[numbers - begin]
        begin = after


def latencies_ms(result: ServeResult, name: str) -> NDArray[np.float64]:
    """A latency of all finished requests that have it, ascending, in ms."""
    column = result.requests[f"{name}_ns"]
    known = column.is_valid().to_numpy() & result.requests["finish_ns"].is_valid().to_numpy()
    values = column.to_numpy()[known].astype(np.float64) / 1e6
    return np.sort(values)


def slo_of(result: ServeResult) -> Slo | None:
    """The limits that the service was given."""
    text = result.summary["settings"]["slo"]
    return None if text is None else read_slo(text)


def span_of(result: ServeResult) -> tuple[int, int]:
    """From the first arrival or step to the end of the last step, in ns."""
    steps = result.steps
    arrivals = result.requests["arrival_ns"].drop_null().to_numpy()
    starts = steps["start_ns"].to_numpy()
    first = min((int(one.min()) for one in (arrivals, starts) if len(one)), default=0)
    last = int((starts + steps["length_ns"].to_numpy()).max(initial=first))
    return first, max(last, first + 1)


def with_spans(result: ServeResult) -> tuple[ServeResult, str]:
    """The same with the steps that computed each request, or else with the reason why these are
    not known."""
    if not result.requests["computed_steps"].null_count:
        return result, ""
    if result.steps.num_rows > _RERUN_STEPS:
        return result, "it was not recorded which steps computed each request"
    try:
        return served_again(result), ""
    except StepSimError as error:
        return result, str(error)
