"""A service in plain Python: its loop, and random services that try everything."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.scheduler import Request, Rules, Scheduler


@dataclass
class Step:
    """What a step did; the fields are those of :class:`stepsim.serving.Decisions`."""

    start: int
    granted: list[tuple[int, int]]
    preempted: list[int]
    admitted: list[tuple[int, int]]
    finished: list[int]
    free_blocks: int
    free_blocks_after: int
    running_after: int
    waiting_after: int


@dataclass
class Case:
    """Rules and requests, the terms of the time of a step in ns, and the clock's.

    The clock jumps and has time of the host, or ticks and begins at 1 ns.
    """

    rules: Rules
    requests: list[Request]
    terms: tuple[int, int, int] = (7, 2, 1)
    host: int = 0
    tick: int = 1
    steps: list[Step] = field(default_factory=list)


def served(case: Case, most_steps: int) -> str:
    """Serve the requests; how it ended."""
    engine = Scheduler(case.rules)
    coming = [r for r in case.requests if r.after < 0]
    left = len(case.requests)
    now = min(r.arrival for r in coming)
    if case.tick > 1:
        now = max(now, 1)
    step, token, context = case.terms
    while left:
        for r in sorted(coming, key=lambda one: (one.arrival, one.number)):
            if r.arrival <= now:
                coming.remove(r)
                engine.arrive(r)
        if len(case.steps) >= most_steps:
            return "limit"
        busy = bool(engine.running or engine.waiting)
        if busy:
            engine.schedule()
        if not (busy and (engine.grants or engine.preempted)):
            if not coming:
                return "stuck"
            while now < min(r.arrival for r in coming):
                now += case.tick
            continue
        free = len(engine.pool.free)
        length = 0
        if engine.grants:
            alone = sum(engine.before[i] for i, n in engine.grants.items() if n == 1)
            length = step + token * sum(engine.grants.values()) + context * alone
        finished = engine.complete(now + length)
        left -= len(finished)
        for r in case.requests:
            if r.after in finished:
                r.arrival = max(r.arrival, now + length + r.think)
                coming.append(r)
        case.steps.append(
            Step(
                now, list(engine.grants.items()), engine.preempted, engine.admitted, finished,
                free, len(engine.pool.free), len(engine.running), len(engine.waiting),
            )
        )  # fmt: skip
        now += length + case.host
    return "done"


def random_case(rng: random.Random, scheduler: str = "vllm") -> Case:
    """Requests and settings, small, so that everything happens."""
    size = rng.choice((1, 2, 3, 4, 16))
    longest = rng.randint(10, 60)
    pool = rng.choice(("vllm", "recorded"))
    fitting = -(-longest // size) + 1 + (pool == "vllm")
    if rng.random() < 0.1:  # something may never fit
        fitting = max(2, fitting // 2)
    seqs = rng.randint(1, 6)
    budget = rng.randint(seqs, 40)
    rules = Rules(
        scheduler=scheduler, pool=pool, seqs=seqs, budget=budget, block_size=size,
        num_blocks=rng.randint(fitting, 3 * fitting),
        max_model_len=longest if rng.random() < 0.5 else 1 << 30, caching=False, reserve=False,
    )  # fmt: skip
    if scheduler == "vllm":
        rules.policy = rng.choice(("fcfs", "priority"))
        rules.chunked = rng.random() < 0.7
        rules.caching = rng.random() < 0.7
        rules.threshold = rng.choice((0, 0, rng.randint(1, budget)))
        if rules.threshold:
            rules.adaptive, rules.alone = rng.random() < 0.5, rng.random() < 0.5
        rules.reserve = rng.random() < 0.7
        rules.watermark = rng.choice((0.0, 0.0, 0.1, 0.3))
        rules.interval = rng.choice((1, 1, 2, 3, 6))
        if not rules.chunked:
            rules.budget = max(budget, longest)
    elif scheduler in ("static", "orca"):
        rules.budget = 1 << 30
    sessions = rng.random() < 0.3
    requests: list[Request] = []
    now = 0
    for i in range(rng.randint(1, 14)):
        now += rng.choice((0, 0, 5, 60, 900))
        prompt = rng.randint(1, longest - 1)
        output = rng.randint(1, longest - prompt)
        if rules.max_model_len <= longest and rng.random() < 0.3:
            output += 10  # ends at the longest
        stem = rng.randint(0, prompt)
        text: list[Any] = [("shared", rng.randint(0, 1), k) for k in range(stem)]
        text += [("own", i, k) for k in range(prompt - stem)]
        if requests and rng.random() < 0.3:
            other = rng.choice(requests)
            text = (other.tokens + text)[:prompt]
        text += [("answer", i, k) for k in range(output)]
        after = rng.randrange(i) if sessions and i and rng.random() < 0.6 else -1
        requests.append(
            Request(
                i, now, prompt, output, rng.randint(0, 2), text, after, rng.choice((0, 40)),
                known=prompt,
            )
        )  # fmt: skip
    terms = rng.choice(((7, 2, 1), (1, 0, 0), (50, 1, 0)))
    host, tick = rng.choice(((0, 1), (3, 1), (0, 17)))
    return Case(rules, requests, terms, host, tick)
