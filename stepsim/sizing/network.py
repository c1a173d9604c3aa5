"""Networks of stepping kernels that FIFOs join: the model on which depths are compared quickly.

Kernel ``v`` makes ``steps`` steps. A step takes a token from an input when its number divides by
the ``in_period`` of that FIFO, and pushes one, when it completes, each time ``out_period`` steps
are done: a reduction of N has an ``out_period`` of N, a token used for N steps an ``in_period`` of
N. With ``II`` between steps, ``D`` from a take to its completion, ``K = max(1, ceil(D / II))``
steps in flight and ``depth`` slots::

    take(v, s) = max(0, take(v, s - 1) + II, done(v, s - K), push of its tokens + hop)
    done(v, s) = max(take(v, s) + D, done(v, s - 1) + II, take of the token `depth` before)

A slot that is freed in a cycle can be filled in that cycle. Steps that wait for each other are a
deadlock. Source: StreamTensor, section 4.8, as made precise by the README of the cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import CompileError

__all__ = ["Depths", "Fifo", "FifoNetwork", "NetworkRun", "SteppingKernel"]

Depths = tuple[int | None, ...]
"""Slots of every FIFO; None for one without bound."""


@dataclass(frozen=True, slots=True)
class SteppingKernel:
    """A kernel.

    Attributes
    ----------
    steps : of one run.
    interval : cycles between steps, ``II``.
    latency : cycles of a step, ``D``.
    name : for messages and tables.
    """

    steps: int
    interval: int
    latency: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class Fifo:
    """A FIFO between two kernels.

    Attributes
    ----------
    producer, consumer : numbers of kernels.
    out_period : steps of the producer for one token.
    in_period : steps of the consumer with one token.
    bits : of a token.
    """

    producer: int
    consumer: int
    out_period: int = 1
    in_period: int = 1
    bits: int = 1


@dataclass(frozen=True)
class FifoNetwork:
    """Kernels, numbered in topological order, and the FIFOs between them.

    Attributes
    ----------
    hop : cycles from a push until the consumer can see the token.

    Raises
    ------
    CompileError
        A FIFO does not lead to a later kernel, or its ends do not move the same number of tokens.
    """

    kernels: tuple[SteppingKernel, ...]
    fifos: tuple[Fifo, ...]
    hop: int = 1

    def __post_init__(self) -> None:
        for number, kernel in enumerate(self.kernels):
            if kernel.steps < 1 or kernel.interval < 1 or kernel.latency < 0:
                raise CompileError(
                    f"kernel {self.title(number)} must make 1 step or more, at an interval from 1 "
                    f"and a latency from 0, found {kernel.steps}, {kernel.interval} and "
                    f"{kernel.latency}"
                )
        for number, fifo in enumerate(self.fifos):
            if not 0 <= fifo.producer < fifo.consumer < len(self.kernels):
                raise CompileError(
                    f"FIFO {number} must lead from a kernel to a later one of {len(self.kernels)}, "
                    f"found {fifo.producer} to {fifo.consumer}; number the kernels in topological "
                    "order"
                )
            source, sink = self.kernels[fifo.producer], self.kernels[fifo.consumer]
            pushed, push_rest = divmod(source.steps, fifo.out_period)
            taken, take_rest = divmod(sink.steps, fifo.in_period)
            if pushed != taken or push_rest or take_rest:
                raise CompileError(
                    f"FIFO {number}: {self.title(fifo.producer)} pushes a token every "
                    f"{fifo.out_period} of its {source.steps} steps, {self.title(fifo.consumer)} "
                    f"takes one every {fifo.in_period} of its {sink.steps}; both must be the same "
                    "whole number of tokens"
                )

    def title(self, kernel: int) -> str:
        """Name of a kernel, else its number."""
        name = self.kernels[kernel].name if kernel < len(self.kernels) else ""
        return f"'{name}'" if name else f"number {kernel}"

    @cached_property
    def tokens(self) -> tuple[int, ...]:
        """Tokens of a run on every FIFO."""
        return tuple(self.kernels[f.producer].steps // f.out_period for f in self.fifos)

    @cached_property
    def inputs(self) -> tuple[tuple[int, ...], ...]:
        """FIFOs into every kernel."""
        return self._ends("consumer")

    @cached_property
    def outputs(self) -> tuple[tuple[int, ...], ...]:
        """FIFOs out of every kernel."""
        return self._ends("producer")

    def _ends(self, end: str) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in self.kernels]
        for number, fifo in enumerate(self.fifos):
            found[getattr(fifo, end)].append(number)
        return tuple(map(tuple, found))

    @cached_property
    def unbounded(self) -> NetworkRun:
        """The run with FIFOs without bound, which no depths can beat."""
        return self.run((None,) * len(self.fifos))

    @cached_property
    def peaks(self) -> tuple[int, ...]:
        """Most tokens that each FIFO holds in the unbounded run: depths that are as good."""
        return tuple(self.unbounded.peak(fifo) for fifo in range(len(self.fifos)))

    def run(self, depths: Sequence[int | None]) -> NetworkRun:
        """One run; takes about a microsecond for each take and each push.

        Raises
        ------
        CompileError
            There is not one depth from 1 for every FIFO.
        """
        if len(depths) != len(self.fifos) or any(d is not None and d < 1 for d in depths):
            raise CompileError(
                f"depths must be one number from 1, or None, for each of {len(self.fifos)} FIFOs, "
                f"found {list(depths)}"
            )
        state = _State(self, tuple(depths))
        state.advance()
        return NetworkRun(self, tuple(depths), state.takes, state.dones)


class _Stepped(NamedTuple):
    """A kernel, flat: what each of its steps looks at."""

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

    def __init__(self, network: FifoNetwork, depths: Depths) -> None:
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
        """Compute steps, of one kernel as many as can be, until no kernel can go on."""
        moving = True
        while moving:
            moving = False
            for kernel in self._kernels:
                while self._take(kernel) | self._complete(kernel):
                    moving = True

    def _take(self, kernel: _Stepped) -> bool:
        """All takes that can be known; True if there is one."""
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
        """All completions that can be known; True if there is one."""
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
    """When every step took its tokens and completed; shorter lists after a deadlock.

    Attributes
    ----------
    takes, dones : cycles, by kernel and step.
    """

    network: FifoNetwork
    depths: Depths
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
        """Steps wait for each other."""
        return self.makespan is None

    @property
    def starts(self) -> tuple[int, ...]:
        """First take of every kernel, of a run without deadlock."""
        return tuple(takes[0] for takes in self.takes)

    def pushes(self, fifo: int) -> NDArray[np.int64]:
        """Cycle of every push."""
        end = self.network.fifos[fifo]
        return np.array(self.dones[end.producer][end.out_period - 1 :: end.out_period], np.int64)

    def pops(self, fifo: int) -> NDArray[np.int64]:
        """Cycle of every pop."""
        end = self.network.fifos[fifo]
        return np.array(self.takes[end.consumer][:: end.in_period], np.int64)

    def peak(self, fifo: int) -> int:
        """Most tokens at the end of a cycle, at least 1."""
        pushes = self.pushes(fifo)
        left = np.searchsorted(self.pops(fifo), pushes, side="right")
        return max(1, int((np.arange(1, len(pushes) + 1) - left).max(initial=0)))

    def held(self, fifo: int) -> int:
        """Cycles for which completions waited for room in this FIFO, as far as the run went."""
        depth, end = self.depths[fifo], self.network.fifos[fifo]
        if depth is None:
            return 0
        kernel = self.network.kernels[end.producer]
        takes, dones = self.takes[end.producer], self.dones[end.producer]
        waited = 0
        for place, room in enumerate(self.pops(fifo).tolist(), start=depth):
            step = (place + 1) * end.out_period - 1
            if step >= len(dones):
                break
            ready = takes[step] + kernel.latency
            if step:
                ready = max(ready, dones[step - 1] + kernel.interval)
            waited += max(0, room - ready)
        return waited
