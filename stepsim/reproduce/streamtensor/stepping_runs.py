"""Runs of networks of stepping kernels with bounded FIFOs: the model of StreamTensor.

It extends the rules of `stepsim.sizing.rates` by ``K = max(1, ceil(D / II))`` steps in flight and
``depth`` slots::

    take(v, s) = max(0, take(v, s - 1) + II, done(v, s - K), push of its tokens + hop)
    done(v, s) = max(take(v, s) + D, done(v, s - 1) + II, take of the token `depth` before)

A slot that is freed in a cycle can be filled in that cycle. Steps that wait for each other are a
deadlock. Source: StreamTensor, on FIFO sizing (docs/fifo-sizing-lp.md). Compiled designs are judged
by runs of their programs; these runs judge networks without programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import CompileError
from stepsim.sizing import STUCK, Depths, FifoNetwork, Found, Problem, Verdict, solved


def network_problem(
    network: FifoNetwork, *, slowdown: float = 0.0, weights: Sequence[int] | None = None
) -> Problem:
    """Depths with which a network is at most slightly slower than with unbounded FIFOs.

    Parameters
    ----------
    slowdown : how much longer a run may take, as a fraction.
    weights : cost of a slot of each FIFO; 1 by default.
    """
    target = int(network.cycles * (1 + slowdown) + 1e-9)
    fifos = len(network.fifos)

    def judge(depths: Depths) -> Verdict:
        run = run_network(network, depths)

        def held() -> NDArray[np.int64]:
            cycles = np.zeros(fifos, np.int64)
            for fifo in blamed(run):
                cycles[fifo] = STUCK if run.deadlock else run.held(fifo)
            return cycles

        return Verdict(run.makespan is not None and run.makespan <= target, run.makespan or 0, held)

    return Problem(
        judges=(judge,),
        weights=np.array([1] * fifos if weights is None else weights, np.int64),
        peaks=np.array(network.peaks, np.int64),
        most=np.array(network.tokens, np.int64),
        alike=np.arange(fifos),
    )


def solved_network(
    network: FifoNetwork,
    planned: Sequence[int],
    *,
    budget: int = 0,
    weights: Sequence[int] | None = None,
) -> Found:
    """Planned depths, repaired, and shrunk by a number of runs at most."""
    found = solved(network_problem(network, weights=weights), planned, budget=budget, repairs=100)
    assert found is not None  # peaks are enough, and nothing else ends these runs
    return found


def run_network(network: FifoNetwork, depths: Sequence[int | None] | Depths) -> NetworkRun:
    """One run, at about a microsecond for each take and each push; a depth of None is unbounded.

    Raises
    ------
    CompileError
        The depths are not one number of at least 1 for every FIFO.
    """
    slots = tuple(None if depth is None else int(depth) for depth in depths)
    if len(slots) != len(network.fifos) or any(d is not None and d < 1 for d in slots):
        raise CompileError(
            f"depths must be one number from 1, or None, for each of {len(network.fifos)} FIFOs, "
            f"found {list(slots)}"
        )
    state = _State(network, slots)
    state.advance()
    return NetworkRun(network, slots, state.takes, state.dones)


class _Stepped(NamedTuple):
    """The data of a kernel that each of its steps uses, flattened."""

    steps: int
    interval: int
    latency: int
    flight: int
    takes: list[int]
    dones: list[int]
    inputs: list[tuple[int, list[int], int]]
    outputs: list[tuple[int, list[int], int, int]]


class _State:
    """Times of all steps that are known; every step is computed once."""

    def __init__(self, network: FifoNetwork, depths: Sequence[int | None]) -> None:
        self.takes: list[list[int]] = [[] for _ in network.kernels]
        self.dones: list[list[int]] = [[] for _ in network.kernels]
        takes, dones, fifos = self.takes, self.dones, network.fifos
        self._hop = network.hop
        self._kernels = [
            _Stepped(
                kernel.steps,
                kernel.interval,
                kernel.latency,
                max(1, -(-kernel.latency // kernel.interval)),
                takes[v],
                dones[v],
                [
                    (fifos[e].in_period, dones[fifos[e].producer], fifos[e].out_period)
                    for e in network.inputs[v]
                ],
                [
                    (fifos[e].out_period, takes[fifos[e].consumer], fifos[e].in_period, depth)
                    for e in network.outputs[v]
                    if (depth := depths[e]) is not None
                ],
            )
            for v, kernel in enumerate(network.kernels)
        ]

    def advance(self) -> None:
        """Compute steps, as many as possible per kernel at a time, until no kernel can proceed."""
        moving = True
        while moving:
            moving = False
            for kernel in self._kernels:
                while self._take(kernel) | self._complete(kernel):
                    moving = True

    def _take(self, kernel: _Stepped) -> bool:
        """Compute all takes that can be known; True if there is a new one."""
        steps, interval, _, flight, takes, dones, inputs, _ = kernel
        first = s = len(takes)
        end = min(steps, len(dones) + flight)
        while s < end:
            at = takes[s - 1] + interval if s else 0
            if s >= flight and dones[s - flight] > at:
                at = dones[s - flight]
            for in_period, pushed, out_period in inputs:
                if s % in_period == 0:
                    needed = (s // in_period + 1) * out_period - 1
                    if needed >= len(pushed):
                        return s > first
                    if pushed[needed] + self._hop > at:
                        at = pushed[needed] + self._hop
            takes.append(at)
            s += 1
        return s > first

    @staticmethod
    def _complete(kernel: _Stepped) -> bool:
        """Compute all completions that can be known; True if there is a new one."""
        _, interval, latency, _, takes, dones, _, outputs = kernel
        first = s = len(dones)
        while s < len(takes):
            at = takes[s] + latency
            if s and dones[s - 1] + interval > at:
                at = dones[s - 1] + interval
            for out_period, popped, in_period, depth in outputs:
                if (s + 1) % out_period == 0:
                    before = (s + 1) // out_period - 1 - depth
                    if before >= 0:
                        if before * in_period >= len(popped):
                            return s > first
                        if popped[before * in_period] > at:
                            at = popped[before * in_period]
            dones.append(at)
            s += 1
        return s > first


@dataclass(frozen=True, eq=False)
class NetworkRun:
    """Times at which every step took its tokens and completed; shorter lists after a deadlock.

    Attributes
    ----------
    takes, dones : cycles, by kernel and step.
    """

    network: FifoNetwork
    depths: tuple[int | None, ...]
    takes: list[list[int]]
    dones: list[list[int]]

    @cached_property
    def makespan(self) -> int | None:
        """Cycle of the last completion; None for a deadlock."""
        kernels = self.network.kernels
        if any(len(done) < k.steps for k, done in zip(kernels, self.dones, strict=True)):
            return None
        return max((done[-1] for done in self.dones), default=0)

    @property
    def deadlock(self) -> bool:
        """Whether steps wait for each other."""
        return self.makespan is None

    def held(self, fifo: int) -> int:
        """Cycles for which completions waited for room in this FIFO, up to the end of the run."""
        depth, end = self.depths[fifo], self.network.fifos[fifo]
        if depth is None:
            return 0
        kernel = self.network.kernels[end.producer]
        takes, dones = self.takes[end.producer], self.dones[end.producer]
        waited = 0
        pops = self.takes[end.consumer][:: end.in_period]
        for place, room in enumerate(pops, start=depth):
            step = (place + 1) * end.out_period - 1
            if step >= len(dones):
                break
            ready = takes[step] + kernel.latency
            if step:
                ready = max(ready, dones[step - 1] + kernel.interval)
            waited += max(0, room - ready)
        return waited


class _Cause(NamedTuple):
    """A cause of a step's time: another take or completion, and the full FIFO, if it was one."""

    kernel: int
    step: int
    is_take: bool
    fifo: int | None = None


def blamed(run: NetworkRun) -> frozenset[int]:
    """FIFOs at least one of which must be deeper for the run to end earlier, or at all.

    They are the full FIFOs on the critical path to the last completion, or of one circular
    wait. With these depths unchanged, the same path or wait remains for any depths of the
    others. Empty if no depth helps.
    """
    if run.deadlock:
        return _circular_wait(run)
    last = run.makespan
    kernel = next(v for v, done in enumerate(run.dones) if done[-1] == last)
    cause: _Cause | None = _Cause(kernel, len(run.dones[kernel]) - 1, is_take=False)
    found = set()
    while cause is not None:
        if cause.fifo is not None:
            found.add(cause.fifo)
        cause = _cause_of(run, cause)
    return frozenset(found)


def _cause_of(run: NetworkRun, event: _Cause) -> _Cause | None:
    """The last cause of an event; a full FIFO only if no other cause was as late."""
    kernel, at, slack = event.kernel, _time(run, event), _lags(run, event)
    causes = [
        (other.fifo is not None, other) for other, lag in slack if _time(run, other) + lag == at
    ]
    if event.is_take and at == 0:
        return None
    assert causes, f"a step of kernel {kernel} has no cause"
    return min(causes, key=lambda pair: pair[0])[1]


def _time(run: NetworkRun, event: _Cause) -> int:
    return (run.takes if event.is_take else run.dones)[event.kernel][event.step]


def _lags(run: NetworkRun, event: _Cause) -> list[tuple[_Cause, int]]:
    """All causes of an event, each with its delay."""
    v, s = event.kernel, event.step
    kernel, network = run.network.kernels[v], run.network
    found: list[tuple[_Cause, int]] = []
    if s:
        found.append((_Cause(v, s - 1, event.is_take), kernel.interval))
    if event.is_take:
        flight = max(1, -(-kernel.latency // kernel.interval))
        if s >= flight:
            found.append((_Cause(v, s - flight, is_take=False), 0))
        for e in network.inputs[v]:
            fifo = network.fifos[e]
            if s % fifo.in_period == 0:
                step = (s // fifo.in_period + 1) * fifo.out_period - 1
                found.append((_Cause(fifo.producer, step, is_take=False), network.hop))
        return found
    found.append((_Cause(v, s, is_take=True), kernel.latency))
    for e in network.outputs[v]:
        fifo, depth = network.fifos[e], run.depths[e]
        if depth is not None and (s + 1) % fifo.out_period == 0:
            before = (s + 1) // fifo.out_period - 1 - depth
            if before >= 0:
                step = before * fifo.in_period
                found.append((_Cause(fifo.consumer, step, is_take=True, fifo=e), 0))
    return found


def _circular_wait(run: NetworkRun) -> frozenset[int]:
    """Full FIFOs of one circular wait."""
    kernels = run.network.kernels
    stuck = next(v for v, done in enumerate(run.dones) if len(done) < kernels[v].steps)
    event = _Cause(stuck, len(run.dones[stuck]), is_take=False)
    seen: dict[tuple[int, int, bool], int] = {}
    path: list[_Cause] = []
    while event[:3] not in seen:
        seen[event[:3]] = len(path)
        path.append(event)
        event = next(other for other, _ in _lags(run, event) if not _is_known(run, other))
    path.append(event)
    wait = path[seen[event[:3]] + 1 :]
    return frozenset(cause.fifo for cause in wait if cause.fifo is not None)


def _is_known(run: NetworkRun, event: _Cause) -> bool:
    return event.step < len((run.takes if event.is_take else run.dones)[event.kernel])
