"""Engines that compute prompts, and engines that generate, joined by a link.

A router chooses an engine of prompts for a request when it arrives, and an engine of outputs when
its first token is there. Then the keys and values of the whole prompt are sent, also of what the
prefix cache had. The engine of the prompt frees its blocks at once. The link sends one request at a
time, in the order of their first tokens, those of equal times by number: a transfer begins when the
one before has left, and is over after its bytes at the bandwidth, and the latency. The next
transfer need not wait for the latency.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Final

import numpy as np

from stepsim.kernels import NO_TIME, ServiceStatus
from stepsim.serving.clock import JumpingClock, TickingClock
from stepsim.serving.requests.requests import Requests
from stepsim.serving.scheduling.outcomes import Outcomes
from stepsim.serving.scheduling.settings import SchedulerRules
from stepsim.serving.service.compiled import EngineRun, request_rows
from stepsim.serving.service.fleet import RanFleet
from stepsim.serving.service.loop import Watch, stuck
from stepsim.serving.service.record import NEVER, Ints, RequestRecord, Sent
from stepsim.serving.service.routers import ROUTERS, Choose, Seen
from stepsim.serving.service.split import Split
from stepsim.serving.steps.interface import StepModel

_OF_PROMPT: Final = 1
"""Tokens that the engine of a prompt yields."""


class _Kind(IntEnum):
    """What happens to a request at a time."""

    ARRIVES = 0
    HAS_PROMPT = 1


class _Stage:
    """The engines of one kind, and where each request went among them."""

    def __init__(self, engines: list[EngineRun], choose: Choose, after: Ints, first: int) -> None:
        self.engines = engines
        self.of = np.full(len(after), NEVER, np.int64)
        self.first = first
        self._choose = choose
        self._after = after

    def send(self, request: int, now_ns: int, arrival_ns: int) -> None:
        """Send a request to an engine, which is chosen now."""
        before = int(self._after[request])
        # A request is not sent here if the one before it needed no such engine.
        if before >= 0 and self.of[before] != NEVER:
            chosen = int(self.of[before])
        else:
            chosen = self._choose(request, now_ns)
        self.of[request] = chosen
        self.engines[chosen].push(request, arrival_ns)

    @property
    def numbers(self) -> Ints:
        """The number of each request's engine among all engines."""
        return np.where(self.of == NEVER, NEVER, self.of + self.first)


class Apart:
    """A service with an engine for each step model, first those of prompts.

    A request that follows another goes to the engines where that went.

    Parameters
    ----------
    kv_bytes : bytes of keys and values of a token.

    Raises
    ------
    ArgError : a request is longer than allowed, or than the KV cache.
    """

    def __init__(
        self,
        requests: Requests,
        rules: SchedulerRules,
        steps: Sequence[StepModel],
        clock: JumpingClock | TickingClock,
        split: Split,
        kv_bytes: int,
        router: str,
    ) -> None:
        count = len(requests)
        self._requests, self._split = requests, split
        self._outcomes = Outcomes(requests, rules, follows=False)
        self._outcomes.hold_back(_OF_PROMPT)
        self._prompt_end, self._wait, self._link, self._arrival = (
            np.full(count, NEVER, np.int64) for _ in range(4)
        )
        self._bytes = requests.prompt_tokens * kv_bytes
        self._free_ns = 0
        # Steps are numbered by engine, so that those of both kinds are kept apart.
        self._spans = [RequestRecord(requests.prompt_tokens) for _ in range(2)]
        self._stages = [
            _Stage(
                [
                    EngineRun(
                        self._outcomes, model, clock, spans, np.empty(0, np.int64),
                        place=place, stops_at_finish=True,
                    )
                    for place, model in enumerate(steps[first : first + engines], first)
                ],
                ROUTERS[router](Seen(requests, rules.block_size, ends), engines),
                requests.after,
                first,
            )
            for first, engines, spans, ends in (
                (0, split.prefill, self._spans[0], self._prompt_end),
                (split.prefill, split.decode, self._spans[1], self._outcomes.end_ns),
            )
        ]  # fmt: skip
        self._followers: dict[int, list[int]] = {}
        for request in np.flatnonzero(requests.after >= 0).tolist():
            self._followers.setdefault(int(requests.after[request]), []).append(request)
        self._events = [
            (int(requests.arrival_ns[request]), _Kind.ARRIVES, request)
            for request in np.flatnonzero(requests.after < 0).tolist()
        ]
        heapq.heapify(self._events)

    @property
    def _engines(self) -> list[EngineRun]:
        return [one for stage in self._stages for one in stage.engines]

    @property
    def _next_ns(self) -> int:
        """When something happens to a request next, as far as it is known."""
        return self._events[0][0] if self._events else NO_TIME

    def run(self, watch: Watch | None = None) -> RanFleet:
        """Serve all requests.

        Raises
        ------
        ServingError : nothing can run and nothing will arrive, although requests are not finished.
        """
        while True:
            if self._followers:
                self._run_in_step(watch)
            else:
                # Nothing but arrivals changes what engines of prompts do, so they may run ahead.
                for stage in self._stages:
                    for one in stage.engines:
                        self._advance(one, self._next_ns, watch)
            if not self._events:
                break
            now, kind, request = heapq.heappop(self._events)
            if kind == _Kind.ARRIVES:
                self._arrival[request] = now
                self._stages[0].send(request, now, now)
            else:
                self._send_on(request, now)
        for one in self._engines:
            if one.advance(watch=watch) == ServiceStatus.STUCK:
                rows = replace(request_rows(self._outcomes, None), arrival_ns=self._arrival)
                raise stuck(self._requests, rows, one.engine, one.engine.now_ns)
        return self._ran()

    def _run_in_step(self, watch: Watch | None) -> None:
        """Run up to the next event, always the engine whose step begins first: the end of a request
        on one engine may be the reason why another one arrives elsewhere."""
        while True:
            one = min(self._engines, key=lambda one: one.next_ns)
            start = one.next_ns
            if start >= self._next_ns:
                return
            self._advance(one, start + 1, watch)

    def _advance(self, one: EngineRun, until_ns: int, watch: Watch | None) -> None:
        """Run an engine until then, and note what becomes of requests that end on it."""
        while one.advance(until_ns, watch=watch) == ServiceStatus.FINISHED:
            for request in one.engine.finished.tolist():
                end = int(self._outcomes.end_ns[request])
                if self._outcomes.is_held_back(request):
                    self._prompt_end[request] = end
                    heapq.heappush(self._events, (end, _Kind.HAS_PROMPT, request))
                    continue
                if self._prompt_end[request] == NEVER:
                    self._prompt_end[request] = end
                for after in self._followers.get(request, ()):
                    least = int(self._requests.arrival_ns[after])
                    come = max(least, end + int(self._requests.think_ns[after]))
                    heapq.heappush(self._events, (come, _Kind.ARRIVES, after))

    def _send_on(self, request: int, now_ns: int) -> None:
        """Send the keys and values of a prompt over the link."""
        begin = max(now_ns, self._free_ns)
        self._free_ns = begin + self._split.busy_ns(int(self._bytes[request]))
        there = self._free_ns + self._split.latency_ns
        self._wait[request], self._link[request] = begin - now_ns, there - begin
        self._outcomes.hand_over(request, there)
        self._stages[1].send(request, now_ns, there)

    def _ran(self) -> RanFleet:
        """The results of all requests."""
        prompts, outputs = self._stages
        is_sent = outputs.of != NEVER
        of_prompt = of_rest = None
        if not any(one.is_compiled for one in self._engines):
            of_prompt, of_rest = (record.rows().spans for record in self._spans)
            assert of_prompt is not None
            assert of_rest is not None
            # Of a request of one token, the engine of the prompt is the only one.
            of_rest = of_rest.and_then(of_prompt.where(~is_sent))
            of_prompt = of_prompt.where(is_sent)
        rows = replace(request_rows(self._outcomes, of_rest), arrival_ns=self._arrival)
        sent = Sent(
            np.where(is_sent, prompts.numbers, NEVER), self._wait, self._link,
            np.where(is_sent, self._bytes, NEVER), of_prompt,
        )  # fmt: skip
        engine = np.where(is_sent, outputs.numbers, np.maximum(prompts.numbers, 0))
        return RanFleet(rows, [one.record.rows() for one in self._engines], engine, sent)
