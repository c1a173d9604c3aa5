"""The compiled loop of an engine: arrivals, schedulers, blocks and the clock.

An engine runs by itself where the time of a step is compiled as well. Otherwise it returns for
every step, and goes on once it knows its length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.kernels import (
    LOG_HEAD,
    NO_TIME,
    STEP,
    UNLIMITED,
    Pool,
    SchedulingPolicy,
    Service,
    ServiceStatus,
    TimeModel,
    free_order,
    new_service,
    run_service,
)
from stepsim.serving.clock import JumpingClock, TickingClock
from stepsim.serving.scheduling.interface import Batch
from stepsim.serving.scheduling.outcomes import Outcomes

_ROWS: Final = 4096
_LOG_WORDS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class CompiledTime:
    """A step time that the loop computes by itself.

    Attributes
    ----------
    model : ``linear``, or another name of :class:`stepsim.kernels.TimeModel`, in lower case.
    words, reals : its numbers, as the kernel of the model has them.
    """

    model: str
    words: NDArray[np.int64]
    reals: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Decisions:
    """What was decided in a step, by numbers of requests.

    Attributes
    ----------
    start : when it began, in ns.
    granted : requests and their tokens, in the order in which they were granted.
    preempted, finished : requests, in order.
    admitted : requests and their cached tokens, in order.
    free_blocks : those as the step began.
    free_blocks_after, running_after, waiting_after : blocks and requests as it ended.
    """

    start: int
    granted: list[tuple[int, int]]
    preempted: list[int]
    admitted: list[tuple[int, int]]
    finished: list[int]
    free_blocks: int
    free_blocks_after: int
    running_after: int
    waiting_after: int


class Engine:
    """One engine: a scheduler, its blocks and its clock.

    Attributes
    ----------
    outcomes : the requests and what became of them; shared with other engines.
    """

    def __init__(
        self, outcomes: Outcomes, *, time: CompiledTime | None = None,
        clock: JumpingClock | TickingClock | None = None, due: NDArray[np.int64] | None = None,
        empty_ns: int = 0, keeps_rows: bool = True, logs: bool = False,
        stops_at_finish: bool = False,
    ) -> None:  # fmt: skip
        """Make an engine before its first step.

        Args:
            time: the time of a step; None if the caller states it for every step.
            clock: when steps begin; by default one that jumps.
            due: requests that arrive here, in order of arrival; by default all that follow no
                other request. More can be added by :meth:`push`.
            empty_ns: length of a step in which nothing fits. With 0 the engine waits for the next
                arrival instead.
            keeps_rows: keep a row of every step, see :meth:`take_rows`.
            logs: keep who did what in every step, see :meth:`take_log`.
            stops_at_finish: return after each step in which requests are finished.
        """
        self.outcomes = outcomes
        rules, requests = outcomes.rules, outcomes.requests
        clock = JumpingClock() if clock is None else clock
        if due is None:
            free = np.flatnonzero(requests.after < 0)
            due = free[np.argsort(requests.arrival_ns[free], kind="stable")]
        first = int(requests.arrival_ns[due[0]]) if len(due) else 0
        seqs = rules.max_num_active_seqs or rules.max_num_seqs
        self._keeps_rows = keeps_rows
        self._log: list[Decisions] = []
        self._drained: list[Any] = []
        self._service: Service = new_service(
            outcomes.arrays, due, rows=_ROWS, log=_LOG_WORDS if logs else 0,
            times=None if time is None else (time.words, time.reals),
            policy=SchedulingPolicy[rules.scheduler.upper()],
            pool=Pool[rules.pool.upper()],
            by_priority=rules.policy == "priority",
            budget=rules.max_num_batched_tokens or UNLIMITED,
            seqs=seqs, block=rules.block_size, blocks=rules.num_blocks,
            first_block=rules.num_blocks - rules.usable_blocks,
            max_len=rules.max_model_len or UNLIMITED,
            chunked=rules.enable_chunked_prefill,
            caching=rules.enable_prefix_caching,
            threshold=rules.long_prefill_token_threshold,
            adaptive=rules.long_prefill_token_threshold_adaptive,
            threshold_alone=rules.threshold_alone,
            reserve=rules.scheduler_reserve_full_isl,
            watermark=int(rules.watermark * rules.num_blocks),
            interval=rules.prefill_schedule_interval,
            time_model=TimeModel.EXTERNAL if time is None else TimeModel[time.model.upper()],
            now=clock.first(first), host=getattr(clock, "host_ns", 0),
            tick=getattr(clock, "tick_ns", 1), empty=empty_ns, stops_at_finish=stops_at_finish,
        )  # fmt: skip
        self._g = self._service.engine[0]
        # Those of every step: attributes of a record are looked up slowly.
        self._now, self._until, self._length, self._entries = (
            self._service.engine[name] for name in ("now", "until", "length", "entries")
        )
        self._go_on = run_service.bound(self._service)

    def run(self, until_ns: int = NO_TIME, most_steps: int | None = None) -> ServiceStatus:
        """Go on until the caller is needed; the status says for what.

        Args:
            until_ns: return before the first step that would begin then or later.
            most_steps: return with status ``FULL`` after so many steps in all.
        """
        g = self._g
        self._until[0] = until_ns
        while True:
            if most_steps is not None:
                g.row_room = min(_ROWS, most_steps - int(g.steps) + int(g.rows))
            status = ServiceStatus(self._go_on())
            if status != ServiceStatus.FULL:
                return status
            self._drain()
            if most_steps is not None and g.steps >= most_steps:
                return status

    def begin_step(self, now_ns: int) -> bool:
        """Begin one step at that time; whether anything can run."""
        self._g.now = now_ns
        return self.run(now_ns + 1) == ServiceStatus.NEEDS_TIME

    def end_step(self, length_ns: int) -> None:
        """End the step at hand after that time, and begin no other."""
        self.go_on(length_ns)
        self.run(0)

    def go_on(self, length_ns: int) -> None:
        """Say how long the step at hand takes, after a status of ``NEEDS_TIME``."""
        self._length[0] = length_ns

    def push(self, request: int, arrival_ns: int | None = None) -> None:
        """Have a request arrive, by default at its time, and no earlier than the one before."""
        if arrival_ns is not None:
            self._service.arrival[request] = arrival_ns
        self._service.due[self._g.due_end] = request
        self._g.due_end += 1

    @property
    def batch(self) -> Batch:
        """The batch at hand; its arrays are those of the engine, until it goes on."""
        service, entries = self._service, int(self._entries[0])
        return Batch(
            service.entry_request[:entries], service.entry_new[:entries],
            service.entry_before[:entries], service.entry_emits[:entries].astype(np.bool_),
        )  # fmt: skip

    @property
    def finished(self) -> NDArray[np.int64]:
        """The requests that the latest step finished, in order."""
        found: NDArray[np.int64] = self._service.finished[: int(self._g.finished)]
        return found.copy()

    @property
    def now_ns(self) -> int:
        """When the step at hand began, or the next one can begin."""
        return int(self._now[0])

    @property
    def coming_ns(self) -> int | None:
        """When the next of the pushed requests arrives; None if all have arrived."""
        service, g = self._service, self._g
        if g.due_at == g.due_end:
            return None
        return int(service.arrival[service.due[g.due_at]])

    @property
    def steps(self) -> int:
        """Steps so far."""
        return int(self._g.steps)

    @property
    def running(self) -> int:
        """Requests that have blocks."""
        return int(self._g.running)

    @property
    def waiting(self) -> int:
        """Requests that have arrived and are not running."""
        return int(self._g.waiting)

    @property
    def free_blocks(self) -> int:
        """Blocks that could be taken now."""
        return int(self._g.free)

    @property
    def free_order(self) -> list[int]:
        """The free blocks, the one that is taken next first."""
        return free_order(self._service)

    def take_rows(self) -> NDArray[np.void]:
        """The steps since the last call, as records of :data:`stepsim.kernels.STEP`."""
        self._drain()
        rows = np.concatenate(self._drained) if self._drained else np.zeros(0, STEP)
        self._drained = []
        return rows

    def take_log(self) -> list[Decisions]:
        """Who did what in the steps since the last call."""
        self._drain()
        log, self._log = self._log, []
        return log

    def _drain(self) -> None:
        g = self._g
        if g.rows and self._keeps_rows:
            self._drained.append(np.array(self._service.rows[: int(g.rows)]))
        g.rows = 0
        if g.log:
            self._log += _records_of(self._service.log[: int(g.log)].tolist())
            g.log = 0


def _records_of(words: Sequence[int]) -> list[Decisions]:
    found, at = [], 0
    while at < len(words):
        length, start, entries, preempted, admitted, finished, *after = words[at : at + LOG_HEAD]
        lists = _cutter(words[at + LOG_HEAD : at + length])
        requests, tokens = lists(entries), lists(entries)
        lost, pairs, ended = lists(preempted), lists(2 * admitted), lists(finished)
        found.append(
            Decisions(
                start, list(zip(requests, tokens, strict=True)), lost,
                list(zip(pairs[::2], pairs[1::2], strict=True)), ended, *after,
            )
        )  # fmt: skip
        at += length
    return found


def _cutter(words: Sequence[int]) -> Callable[[int], list[int]]:
    """What returns the next so many words at every call."""
    at = 0

    def cut(count: int) -> list[int]:
        nonlocal at
        at += count
        return list(words[at - count : at])

    return cut
