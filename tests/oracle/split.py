"""Engines of prompts and engines of outputs in plain Python: one instant after another."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

from tests.oracle.scheduler import Request, Rules, Scheduler
from tests.oracle.service import Case

Row = tuple[int, int, int, int, int, int]
"""Start and length of a step, its tokens, running and waiting requests, and free blocks."""


@dataclass
class Join:
    """Engines of both kinds, and the link: its latency in ns, and ns for the prompt's tokens."""

    prefill: int
    decode: int
    latency: int
    token_ns: Fraction
    router: str


class Engine:
    """An engine: what it was sent, and its step at hand."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.scheduler = Scheduler(case.rules)
        self.now = 1 if case.tick > 1 else 0
        self.inbox: list[Request] = []
        self.end: int | None = None
        self.blocked = False
        self.rows: list[Row] = []

    def look(self) -> int | None:
        """When it looks for work next."""
        if self.end is not None:
            return None
        if (self.scheduler.running or self.scheduler.waiting) and not self.blocked:
            return self.now
        if not self.inbox:
            return None
        missing = max(0, self.inbox[0].arrival - self.now)
        return self.now + -(-missing // self.case.tick) * self.case.tick

    def begin(self, now: int) -> None:
        self.now = now
        while self.inbox and self.inbox[0].arrival <= now:
            self.scheduler.arrive(self.inbox.pop(0))
        self.scheduler.schedule()
        grants, before = self.scheduler.grants, self.scheduler.before
        self.blocked = not grants and not self.scheduler.preempted
        if self.blocked:
            return
        step, token, context = self.case.terms
        length = 0
        if grants:
            alone = sum(before[i] for i, n in grants.items() if n == 1)
            length = step + token * sum(grants.values()) + context * alone
            self.rows.append(
                (
                    now, length, sum(grants.values()), len(self.scheduler.running),
                    len(self.scheduler.waiting), len(self.scheduler.pool.free),
                )
            )  # fmt: skip
        self.end = now + length

    def complete(self) -> list[int]:
        assert self.end is not None
        finished = self.scheduler.complete(self.end) if self.scheduler.grants else []
        self.now, self.end = self.end + self.case.host, None
        return finished


class Stage:
    """The engines of one kind behind their router."""

    def __init__(self, case: Case, count: int, router: str) -> None:
        self.engines = [Engine(case) for _ in range(count)]
        self.rules: Rules = case.rules
        self.router = router
        self.sent: list[list[Request]] = [[] for _ in range(count)]
        self.of: dict[int, int] = {}
        self.turn = 0

    def _outstanding(self, k: int, now: int) -> int:
        return sum(r.end is None or r.end > now for r in self.sent[k])

    def _labels(self, r: Request) -> list[tuple[object, ...]]:
        size = self.rules.block_size
        return [tuple(r.tokens[:end]) for end in range(size, r.prompt + 1, size)]

    def _common(self, k: int, r: Request) -> int:
        known = {label for other in self.sent[k] for label in self._labels(other)}
        common = 0
        for label in self._labels(r):
            if label not in known:
                break
            common += 1
        return common

    def send(self, r: Request, now: int) -> None:
        if r.after in self.of:
            k = self.of[r.after]
        elif self.router == "round-robin":
            k = self.turn % len(self.engines)
            self.turn += 1
        else:
            among = list(range(len(self.engines)))
            if self.router == "prefix-aware":
                most = max(self._common(k, r) for k in among)
                among = [k for k in among if self._common(k, r) == most]
            k = min(among, key=lambda k: self._outstanding(k, now))
        if r.after not in self.of:
            self.sent[k].append(r)
        self.of[r.number] = k
        self.engines[k].inbox.append(r)


@dataclass
class Served:
    """What became of everything: the request on each kind of engine, and its time on the link."""

    prompts: Stage
    outputs: Stage
    prompt: dict[int, Request] = field(default_factory=dict)
    rest: dict[int, Request] = field(default_factory=dict)
    waits: dict[int, int] = field(default_factory=dict)
    links: dict[int, int] = field(default_factory=dict)


def served_split(case: Case, join: Join) -> Served:
    """Serve the requests of a case that all fit."""
    stages = [Stage(case, count, join.router) for count in (join.prefill, join.decode)]
    done = Served(*stages)
    coming = [r for r in case.requests if r.after < 0]
    handed: list[Request] = []
    link_free = 0

    def ended(r: Request, end: int) -> None:
        for other in case.requests:
            if other.after == r.number:
                other.arrival = max(other.arrival, end + other.think)
                coming.append(other)

    while True:
        engines = [one for stage in stages for one in stage.engines]
        looks = [one.look() for one in engines]
        times = [r.arrival for r in coming] + [one.end for one in engines if one.end is not None]
        times += [time for time in looks if time is not None]
        if not times:
            return done
        now = min(times)
        for one in engines:
            if one.end == now:
                for number in one.complete():
                    r = one.scheduler.of[number]
                    whole = case.requests[number]
                    is_last = whole.output == 1 or r.known >= case.rules.max_model_len
                    if number in done.rest or is_last:
                        ended(r, now)
                    else:
                        handed.append(r)
        for r in sorted((r for r in coming if r.arrival == now), key=lambda r: r.number):
            coming.remove(r)
            done.prompt[r.number] = replace(r, output=1)
            stages[0].send(done.prompt[r.number], now)
        for r in sorted(handed, key=lambda r: r.number):
            begin = max(now, link_free)
            link_free = begin + -(-r.prompt * join.token_ns // 1)
            there = link_free + join.latency
            done.waits[r.number], done.links[r.number] = begin - now, there - begin
            done.rest[r.number] = replace(
                case.requests[r.number], arrival=there, known=r.known, times=list(r.times),
                carried=r.prompt, preemptions=r.preemptions,
            )  # fmt: skip
            stages[1].send(done.rest[r.number], now)
        handed.clear()
        if any(r.arrival == now for r in coming):
            continue
        for one in engines:
            if one.look() == now:
                one.begin(now)
