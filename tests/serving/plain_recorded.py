"""A scheduler of the recorded runs in plain Python, from its rules alone.

One engine on one device: its pool of blocks, its queue, its loop. Blocks that are given back go to
the tail of the list of free ones, and the newest block of a label is found. It is slow, and shares
nothing with the scheduler of the package.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass
class Settings:
    """Those of one engine; times in ns. Without a tick, idle time jumps to the next arrival."""

    blocks: int
    block_tokens: int
    budget: int
    most_running: int
    chunked: bool = True
    caching: bool = True
    reserve: bool = True
    threshold: int = 0
    log_ns: int = 1_000_000_000
    tick_ns: int = 1_000_000


@dataclass
class Request:
    arrival: int
    prompt: int
    output: int
    labels: Sequence[int]
    known: int = 0
    done: int = 0
    blocks: list[int] = field(default_factory=list)
    preempted: bool = False
    queue: int | None = None
    ttft: int | None = None
    last: int = 0
    end: int | None = None
    gaps: list[int] = field(default_factory=list)


@dataclass
class Outcome:
    """What became of all requests."""

    clock: int = 0
    steps: int = 0
    busy_ns: int = 0
    scheduled_tokens: int = 0
    preemptions: int = 0
    recomputed: int = 0
    requested: int = 0
    hits: int = 0
    requests: list[Request] = field(default_factory=list)

    @property
    def generated(self) -> int:
        return sum(len(r.gaps) + 1 for r in self.requests)


class Pool:
    """Blocks: a queue of free ones, and the newest block of every label."""

    def __init__(self, count: int) -> None:
        self.free = dict.fromkeys(range(count))
        self.users = [0] * count
        self.label: dict[int, int] = {}
        self.found: dict[int, int] = {}

    def take(self) -> int:
        block = next(iter(self.free))
        del self.free[block]
        label = self.label.pop(block, None)
        if label is not None and self.found.get(label) == block:
            del self.found[label]
        self.users[block] = 1
        return block

    def share(self, block: int) -> None:
        self.free.pop(block, None)
        self.users[block] += 1

    def release(self, blocks: list[int]) -> None:
        for block in reversed(blocks):
            self.users[block] -= 1
            if not self.users[block]:
                self.free[block] = None
        blocks.clear()


class Engine:
    """Batches of requests, step after step.

    Args:
        time: ns of a step of entries (new tokens, tokens before).
    """

    def __init__(self, settings: Settings, time: Callable[[list[tuple[int, int]]], int]) -> None:
        self.settings = settings
        self.time = time
        self.pool = Pool(settings.blocks)
        self.running: list[Request] = []
        self.waiting: deque[Request] = deque()
        self.outcome = Outcome()

    def run(self, requests: list[Request]) -> Outcome:
        s, outcome = self.settings, self.outcome
        outcome.requests = requests
        coming = deque(sorted(requests, key=lambda r: r.arrival))
        for request in coming:
            request.known = request.prompt
        now = min(max(1, coming[0].arrival), s.log_ns)
        while True:
            while coming and coming[0].arrival <= now:
                self.waiting.append(coming.popleft())
            batch = self.schedule(now)
            if not batch:
                if not (coming or self.waiting or self.running):
                    outcome.clock = now
                    return outcome
                now = now + s.tick_ns if s.tick_ns else coming[0].arrival
                continue
            entries = [(k, request.done - k) for request, k in batch]
            length = self.time(entries)
            outcome.steps += 1
            outcome.busy_ns += length
            outcome.scheduled_tokens += sum(k for _, k in batch)
            now += length
            self.complete(batch, now)

    def schedule(self, now: int) -> list[tuple[Request, int]]:
        s = self.settings
        budget, batch, preempted = s.budget, [], False
        position = 0
        while position < len(self.running) and budget > 0:
            request = self.running[position]
            k = self.cut(request.known - request.done, budget)
            position += 1
            if k == 0:
                continue
            stopped = False
            while not self.allocate(request, k, []):
                victim = self.running.pop()
                self.preempt(victim)
                preempted = True
                if victim is request:
                    stopped = True
                    break
            if stopped:
                break
            batch.append((request, k))
            budget -= k
        while not preempted and self.waiting and budget > 0:
            if len(self.running) >= s.most_running:
                break
            request = self.waiting[0]
            hits = self.lookup(request)
            hit = s.block_tokens * len(hits)
            k = request.known - hit
            if 0 < s.threshold < k:
                k = s.threshold
            if not s.chunked and k > budget:
                break
            k = min(k, budget)
            if s.reserve and self.need(request, max(request.known, hit), hits) > len(
                self.pool.free
            ):
                break
            if not self.allocate(request, k, hits):
                break
            self.waiting.popleft()
            self.running.append(request)
            request.done = hit
            if request.preempted:
                self.outcome.recomputed += request.known - hit
            else:
                self.outcome.requested += request.prompt
                self.outcome.hits += hit
            batch.append((request, k))
            budget -= k
        for request, k in batch:
            request.done += k
            if request.ttft is None:
                request.queue = now - request.arrival
        return batch

    def cut(self, k: int, budget: int) -> int:
        if 0 < self.settings.threshold < k:
            k = self.settings.threshold
        return min(k, budget)

    def lookup(self, request: Request) -> list[int]:
        hits: list[int] = []
        if not self.settings.caching:
            return hits
        for label in request.labels[: (request.known - 1) // self.settings.block_tokens]:
            if label not in self.pool.found:
                break
            hits.append(self.pool.found[label])
        return hits

    def need(self, request: Request, tokens: int, hits: list[int]) -> int:
        blocks = -(-tokens // self.settings.block_tokens)
        idle = sum(1 for block in hits if self.pool.users[block] == 0)
        return max(blocks - len(hits) - len(request.blocks), 0) + idle

    def allocate(self, request: Request, k: int, hits: list[int]) -> bool:
        size, pool = self.settings.block_tokens, self.pool
        tokens = request.done + size * len(hits) + k
        if self.need(request, tokens, hits) > len(pool.free):
            return False
        for block in hits:
            pool.share(block)
        request.blocks += hits
        while len(request.blocks) * size < tokens:
            request.blocks.append(pool.take())
        if self.settings.caching:
            full = min(min(tokens, request.known) // size, len(request.labels))
            for block, label in zip(request.blocks[:full], request.labels, strict=False):
                if block not in pool.label:
                    pool.label[block] = label
                    pool.found[label] = block
        return True

    def preempt(self, request: Request) -> None:
        self.pool.release(request.blocks)
        request.done = 0
        request.preempted = True
        self.outcome.preemptions += 1
        self.waiting.appendleft(request)

    def complete(self, batch: list[tuple[Request, int]], now: int) -> None:
        for request, _ in batch:
            if request.done < request.known:
                continue
            request.known += 1
            if request.ttft is None:
                request.ttft = now - request.arrival
            else:
                request.gaps.append(now - request.last)
            request.last = now
            if request.known >= request.prompt + request.output:
                self.pool.release(request.blocks)
                request.end = now
        self.running = [request for request in self.running if request.end is None]
