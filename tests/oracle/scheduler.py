"""Schedulers and block pools of a service in plain Python, from their rules alone.

Nothing here is fast, and nothing is shared with the kernels: lists are searched, labels are tuples
of tokens, and every rule stands where the text of it has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Rules:
    """Settings of vLLM; ``alone``: the threshold also holds for a request without others."""

    scheduler: str = "vllm"
    pool: str = "vllm"
    policy: str = "fcfs"
    budget: int = 64
    seqs: int = 8
    block_size: int = 4
    num_blocks: int = 40
    max_model_len: int = 1 << 30
    chunked: bool = True
    caching: bool = True
    threshold: int = 0
    adaptive: bool = False
    alone: bool = False
    reserve: bool = True
    watermark: float = 0.0
    interval: int = 1


@dataclass
class Request:
    """A request: its number, its texts, and where it stands."""

    number: int
    arrival: int
    prompt: int
    output: int
    priority: int
    tokens: list[Any]
    after: int = -1
    think: int = 0
    known: int = 0
    done: int = 0
    blocks: list[int] = field(default_factory=list)
    registered: int = 0
    partial: bool = False
    end: int | None = None
    times: list[int] = field(default_factory=list)
    preemptions: int = 0
    cached: list[int] = field(default_factory=list)
    carried: int = 0
    """Tokens whose keys and values come with it from another engine."""

    @property
    def key(self) -> tuple[int, int, int]:
        return self.priority, self.arrival, self.number


class Pool:
    """Blocks of either kind."""

    def __init__(self, rules: Rules) -> None:
        self.kind = rules.pool
        self.free = list(range(1 if rules.pool == "vllm" else 0, rules.num_blocks))
        self.users = [0] * rules.num_blocks
        self.label: list[Any] = [None] * rules.num_blocks
        self.index: dict[Any, list[int]] = {}

    def take(self, count: int) -> list[int]:
        taken, self.free = self.free[:count], self.free[count:]
        for block in taken:
            if self.label[block] is not None:
                entry = self.index.get(self.label[block], [])
                if block in entry:
                    entry.remove(block)
                if not entry:
                    self.index.pop(self.label[block], None)
                self.label[block] = None
            self.users[block] = 1
        return taken

    def share(self, blocks: list[int]) -> None:
        for block in blocks:
            if self.users[block] == 0:
                self.free.remove(block)
            self.users[block] += 1

    def register(self, block: int, label: Any) -> None:
        self.label[block] = label
        if self.kind == "vllm":
            self.index.setdefault(label, []).append(block)
        else:
            self.index[label] = [block]

    def release(self, blocks: list[int]) -> None:
        freed = []
        for block in reversed(blocks):
            self.users[block] -= 1
            if self.users[block] == 0:
                freed.append(block)
        if self.kind == "vllm":
            plain = [block for block in freed if self.label[block] is None]
            labeled = [block for block in freed if self.label[block] is not None]
            self.free = plain + self.free + labeled
        else:
            self.free += freed

    def find(self, label: Any) -> int | None:
        entry = self.index.get(label)
        return entry[0] if entry else None


class Scheduler:
    """One engine: requests, blocks, and the decisions of a step."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.pool = Pool(rules)
        self.running: list[Request] = []
        self.waiting: list[Request] = []
        self.executed = 0
        self.last = -rules.interval
        self.saturated = False
        self.grants: dict[int, int] = {}
        self.preempted: list[int] = []
        self.admitted: list[tuple[int, int]] = []
        self.before: dict[int, int] = {}
        self.of: dict[int, Request] = {}

    def arrive(self, request: Request) -> None:
        self.of[request.number] = request
        self.waiting.append(request)
        self._sort()

    def _sort(self) -> None:
        if self.rules.policy == "priority":
            self.waiting.sort(key=lambda r: r.key)

    def _blocks_for(self, tokens: int) -> int:
        return -(-min(tokens, self.rules.max_model_len) // self.rules.block_size)

    def _commit(self, r: Request, tokens: int) -> None:
        if not self.rules.caching:
            return
        size = self.rules.block_size
        for k in range(r.registered, min(tokens, r.known) // size):
            self.pool.register(r.blocks[k], tuple(r.tokens[: (k + 1) * size]))
            r.registered = k + 1

    def _extend(self, r: Request, tokens: int) -> bool:
        need = max(self._blocks_for(tokens) - len(r.blocks), 0)
        if need > len(self.pool.free):
            return False
        r.blocks += self.pool.take(need)
        self._commit(r, tokens)
        return True

    def _preempt(self, v: Request) -> None:
        self.running.remove(v)
        self.pool.release(v.blocks)
        v.blocks, v.registered, v.done = [], 0, 0
        v.carried = 0
        v.preemptions += 1
        self.waiting.insert(0, v)
        self._sort()
        self.preempted.append(v.number)

    def _admit(self, r: Request, start: int, tokens: int, cached: int) -> None:
        self.waiting.remove(r)
        self.running.append(r)
        r.done = start
        r.cached.append(cached)
        self.grants[r.number] = tokens
        self.admitted.append((r.number, cached))

    def schedule(self) -> None:
        """Decide; what was decided is in ``grants``, ``preempted`` and ``admitted``."""
        self.grants, self.preempted, self.admitted = {}, [], []
        {
            "vllm": self._vllm,
            "static": self._static,
            "orca": self._orca,
            "sarathi": self._sarathi,
        }[self.rules.scheduler]()
        self.before = {number: self.of[number].done for number in self.grants}
        for number, tokens in self.grants.items():
            r = self.of[number]
            r.done += tokens
            r.partial = r.done < r.known

    def _vllm(self) -> None:
        rules = self.rules
        left = rules.budget
        eligible = len(self.running) + len(self.waiting)
        cap = rules.threshold if eligible > 1 or rules.alone else 0
        if cap > 0 and rules.adaptive:
            cap = max(cap, rules.budget // eligible)
        held = (
            rules.interval > 1
            and not self.saturated
            and self.executed + 1 - self.last < rules.interval
            and any(not r.partial for r in self.running)
        )
        carried = False
        position = 0
        while position < len(self.running) and left > 0:
            r = self.running[position]
            if held and r.partial:
                position += 1
                continue
            n = r.known - r.done
            if 0 < cap < n:
                n = cap
            n = min(n, left, rules.max_model_len - r.done - 1)
            if n <= 0:
                position += 1
                continue
            gone = False
            while not gone and not self._extend(r, r.done + n):
                if rules.policy == "fcfs":
                    v = self.running[-1]
                else:
                    v = max(self.running, key=lambda one: one.key)
                    if self.running.index(v) < position:
                        position -= 1
                    left += self.grants.pop(v.number, 0)
                self._preempt(v)
                gone = v is r
            if gone:
                if rules.policy == "fcfs":
                    break
                continue
            carried = carried or r.partial
            self.grants[r.number] = n
            left -= n
            position += 1
        if not self.preempted:
            while left > 0 and self.waiting and len(self.running) < rules.seqs:
                r = self.waiting[0]
                hits = self._look_up(r)
                cached = len(hits) * rules.block_size
                start = max(cached, r.carried)
                n = r.known - start
                if held and start < r.known - 1:
                    break
                if 0 < cap < n:
                    n = cap
                if not rules.chunked and n > left:
                    break
                n = min(n, left)
                if not self._has_room(r, hits, start + n):
                    break
                self.pool.share(hits)
                r.blocks = list(hits)
                r.blocks += self.pool.take(max(self._blocks_for(start + n) - len(hits), 0))
                r.registered = len(hits)
                self._commit(r, start + n)
                carried = carried or start < r.known - 1
                self._admit(r, start, n, cached)
                left -= n
            if not held:
                self.saturated = bool(self.waiting)
        if self.grants:
            self.executed += 1
        if carried:
            self.last = self.executed

    def _look_up(self, r: Request) -> list[int]:
        hits: list[int] = []
        size = self.rules.block_size
        while self.rules.caching and len(hits) < (r.known - 1) // size:
            block = self.pool.find(tuple(r.tokens[: (len(hits) + 1) * size]))
            if block is None:
                break
            hits.append(block)
        return hits

    def _has_room(self, r: Request, hits: list[int], tokens: int) -> bool:
        idle = sum(self.pool.users[block] == 0 for block in hits)
        margin = int(self.rules.watermark * self.rules.num_blocks) if self.running else 0
        wanted = [tokens, r.known] if self.rules.reserve else [tokens]
        return all(
            max(self._blocks_for(x) - len(hits), 0) + idle + margin <= len(self.pool.free)
            for x in wanted
        )

    def _reserve(self) -> None:
        """Admit the requests whose longest sequence has room."""
        while self.waiting and len(self.running) < self.rules.seqs:
            r = self.waiting[0]
            most = min(r.prompt + r.output, self.rules.max_model_len)
            need = self._blocks_for(most)
            if need > len(self.pool.free):
                break
            r.blocks = self.pool.take(need)
            self._admit(r, r.carried, r.known - r.carried, 0)

    def _static(self) -> None:
        if self.running:
            self._run_all()
        else:
            self._reserve()

    def _orca(self) -> None:
        self._run_all()
        self._reserve()

    def _run_all(self) -> None:
        for r in self.running:
            if r.end is None:
                self.grants[r.number] = r.known - r.done

    def _sarathi(self) -> None:
        stopped = False
        for r in list(self.running):
            if stopped or r not in self.running or r.partial:
                continue
            while not self._extend(r, r.done + 1):
                v = self.running[-1]
                self._preempt(v)
                if v is r:
                    stopped = True
                    break
            else:
                self.grants[r.number] = 1
        left = self.rules.budget - len(self.grants)
        for r in self.running:
            if r.partial and left > 0:
                self.grants[r.number] = min(r.known - r.done, left)
                left -= self.grants[r.number]
        if self.preempted:
            return
        while left > 0 and self.waiting and len(self.running) < self.rules.seqs:
            r = self.waiting[0]
            need = self._blocks_for(r.known)
            if need > len(self.pool.free):
                break
            r.blocks = self.pool.take(need)
            n = min(r.known - r.carried, left)
            self._admit(r, r.carried, n, 0)
            left -= n

    def complete(self, time: int) -> list[int]:
        """End the step; the requests that are finished, in order."""
        finished = []
        for number in self.grants:
            r = self.of[number]
            if r.partial:
                continue
            r.known += 1
            r.times.append(time)
            if len(r.times) >= r.output or r.known >= self.rules.max_model_len:
                r.end = time
                finished.append(number)
                if self.rules.scheduler != "static":
                    self.pool.release(r.blocks)
                    r.blocks = []
        if self.rules.scheduler != "static":
            self.running = [r for r in self.running if r.end is None]
        elif finished and all(r.end is not None for r in self.running):
            for r in self.running:
                self.pool.release(r.blocks)
                r.blocks = []
            self.running = []
        return finished
