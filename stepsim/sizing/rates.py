"""FIFO depths from rates alone, before a program exists: kernels that step, and FIFOs between.

Kernel ``v`` makes ``steps`` steps. A step takes a token from an input when its number divides by
the ``in_period`` of that FIFO, and pushes one, when it completes, each time ``out_period`` steps
are done: a reduction of N has an ``out_period`` of N, a token used for N steps an ``in_period`` of
N. With ``II`` between steps, ``D`` from a take to its completion, and FIFOs without bound::

    take(v, s) = max(0, take(v, s - 1) + II, push of its tokens + hop)
    push at the completion of a step, take(v, s) + D

A FIFO holds the tokens that its producer sends before its consumer starts. Start times ``s`` with
``s[consumer] - s[producer] >= bound`` on every FIFO, and every sink as early as possible, are
chosen so that tokens wait where they are small; a closed form turns them into depths. Corrections
to the paper (StreamTensor): the hop of a FIFO is part of the bound; a reduction's first token takes
``(out_period - 1)`` *effective* intervals, those of the slowest kernel upstream, or the depths can
deadlock; sinks are bounded, or slack moves to a kernel on which others depend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, floor
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import CompileError
from stepsim.sizing.recorded import slots_needed
from stepsim.sizing.timetable import Timetable
from stepsim.typed import typed, typed_fields

Equalization = Literal["normal", "effective", "conservative"]
"""Which intervals kernels are assumed to run at.

``normal``: each kernel its own. ``effective``: never less than the interval of its inputs.
``conservative``: all stretched to take as long as the slowest; this gives the smallest depths and
holds fast kernels up.
"""

Cycles: TypeAlias = int | Fraction
"""A time or interval; an interval that results from a rate change may be a fraction."""


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


@typed_fields
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
                    f"kernel {self.title(number)}: expected 1 step or more, an interval "
                    f"of at least 1 and a latency of at least 0, found {kernel.steps}, "
                    f"{kernel.interval} and {kernel.latency}"
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
                    f"takes one every {fifo.in_period} of its {sink.steps}; both must move the "
                    "same whole number of tokens"
                )

    @typed
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
    def takes(self) -> tuple[NDArray[np.int64], ...]:
        """Cycle of every take, by kernel and step, with unbounded FIFOs."""
        found: list[NDArray[np.int64]] = []
        for v, kernel in enumerate(self.kernels):
            earliest = kernel.interval * np.arange(kernel.steps, dtype=np.int64)
            ready = np.zeros(kernel.steps, np.int64)
            for e in self.inputs[v]:
                seen = self._pushes(found, e) + self.hop
                fed = ready[:: self.fifos[e].in_period]
                np.maximum(fed, seen, out=fed)
            # takes - earliest never falls: the latest token that held the kernel up so far.
            found.append(np.maximum.accumulate(ready - earliest) + earliest)
        return tuple(found)

    @cached_property
    def cycles(self) -> int:
        """Length of the run with unbounded FIFOs, which no depths can beat."""
        pairs = zip(self.takes, self.kernels, strict=True)
        return max((int(takes[-1]) + kernel.latency for takes, kernel in pairs), default=0)

    @cached_property
    def peaks(self) -> tuple[int, ...]:
        """Depths of all FIFOs that reproduce the unbounded run exactly."""
        return tuple(
            slots_needed(self._pushes(self.takes, e), self.takes[end.consumer][:: end.in_period])
            for e, end in enumerate(self.fifos)
        )

    def _pushes(self, takes: Sequence[NDArray[np.int64]], fifo: int) -> NDArray[np.int64]:
        end = self.fifos[fifo]
        last_steps = takes[end.producer][end.out_period - 1 :: end.out_period]
        return last_steps + self.kernels[end.producer].latency


def intervals(network: FifoNetwork, equalization: Equalization = "effective") -> list[Fraction]:
    """Cycles between steps that every kernel is assumed to run at."""
    own = [Fraction(kernel.interval) for kernel in network.kernels]
    if equalization == "normal":
        return own
    if equalization == "conservative":
        busy = max(kernel.steps * kernel.interval for kernel in network.kernels)
        return [Fraction(busy, kernel.steps) for kernel in network.kernels]
    for v in range(len(own)):
        for e in network.inputs[v]:
            fifo = network.fifos[e]
            needed = own[fifo.producer] * fifo.out_period / fifo.in_period
            own[v] = max(own[v], needed)
    return own


def first_token(network: FifoNetwork, fifo: int, paces: Sequence[Cycles]) -> int:
    """Cycles from the start of the producer to its first token, ``D`` of a whole reduction."""
    end = network.fifos[fifo]
    steps = ceil((end.out_period - 1) * Fraction(paces[end.producer]))
    return steps + network.kernels[end.producer].latency


def lower_bounds(network: FifoNetwork, paces: Sequence[Cycles]) -> list[int]:
    """Least cycles by which each consumer starts after its producer, hop included."""
    return [first_token(network, e, paces) + network.hop for e in range(len(network.fifos))]


def asap(network: FifoNetwork, bounds: Sequence[int]) -> list[int]:
    """The earliest start times, longest paths from the sources."""
    times = [0] * len(network.kernels)
    for v in range(len(times)):
        for e in network.inputs[v]:
            times[v] = max(times[v], times[network.fifos[e].producer] + bounds[e])
    return times


def start_times(
    network: FifoNetwork,
    bounds: Sequence[int],
    weights: Sequence[float] | None = None,
    *,
    sources: Literal["zero", "free"] = "zero",
) -> tuple[int, ...]:
    """The start times with the least weighted delays in which no sink is later than necessary.

    Parameters
    ----------
    bounds : cycles of every FIFO, as ``lower_bounds``.
    weights : of the delays of every FIFO, such as bits per cycle; 1 each by default.
    sources : ``zero`` starts all kernels without inputs at 0, ``free`` at the best time.

    Raises
    ------
    CompileError
        The solver found no times.
    """
    earliest = asap(network, bounds)
    latest: list[float] = []
    for v, time in enumerate(earliest):
        if sources == "zero" and not network.inputs[v]:
            latest.append(0.0)
        else:
            latest.append(np.inf if network.outputs[v] else float(time))
    timetable = Timetable(latest, stretched=False)
    given = [1.0] * len(network.fifos) if weights is None else weights
    for fifo, bound, weight in zip(network.fifos, bounds, given, strict=True):
        producer, consumer = (fifo.producer, 0.0), (fifo.consumer, 0.0)
        timetable.add_order(producer, consumer, -float(bound))
        timetable.add_wait(weight, [(consumer, producer, 0.0)])
    times = timetable.solved()
    if times is None:
        raise CompileError(
            "the linear program of the start times of kernels has no solution; report the network"
        )
    # A program of differences has whole solutions; the solver's is one up to rounding.
    return tuple(int(time) for time in np.round(times[:, 0]))


def most_tokens(
    tokens: int, first: Cycles, source: Cycles, sink: Cycles, delay: Cycles, hop: int
) -> int:
    """The exact peak number of tokens in an unbounded FIFO.

    Its source pushes token ``k`` at ``first + k * source``. Its sink pops token ``j`` when it is
    due, ``delay + j * sink``, when it can be seen, ``hop`` cycles after its push, and no earlier
    than ``sink`` after the pop before. A token takes its slot when it is pushed; a push and a pop
    in one cycle cancel (StreamTensor, with the hop as part of the delay only).
    """
    begun = max(delay, first + hop)
    if source >= sink:
        return min(tokens, ceil(Fraction(begun - first) / source))
    last = first + (tokens - 1) * source
    if begun > last:
        return tokens
    return tokens - 1 - floor(Fraction(last - begun) / sink)


def depths_of_starts(
    network: FifoNetwork, times: Sequence[Cycles], paces: Sequence[Cycles]
) -> tuple[int, ...]:
    """Depths of all FIFOs for these start times."""
    return depths_of_delays(
        network, [times[fifo.consumer] - times[fifo.producer] for fifo in network.fifos], paces
    )


def depths_of_delays(
    network: FifoNetwork, delays: Sequence[Cycles], paces: Sequence[Cycles]
) -> tuple[int, ...]:
    """Depths of all FIFOs for the delay of each between the starts of its ends."""
    return tuple(
        # A FIFO always has one slot.
        max(
            1,
            most_tokens(
                network.tokens[e],
                first_token(network, e, paces),
                end.out_period * paces[end.producer],
                end.in_period * paces[end.consumer],
                delay,
                network.hop,
            ),
        )
        for e, (end, delay) in enumerate(zip(network.fifos, delays, strict=True))
    )


@typed
def planned_depths(
    network: FifoNetwork, equalization: Equalization = "effective"
) -> tuple[int, ...]:
    """Depths from the linear program, without runs: they minimize the bits of waiting tokens."""
    paces = intervals(network, equalization)
    weights = [
        float(Fraction(fifo.bits) / (fifo.out_period * paces[fifo.producer]))
        for fifo in network.fifos
    ]
    times = start_times(network, lower_bounds(network, paces), weights)
    return depths_of_starts(network, times, paces)
