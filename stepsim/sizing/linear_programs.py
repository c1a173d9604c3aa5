"""FIFO depths by linear programs over start times, and the published program over paths.

A FIFO holds what its producer sends until its consumer starts. Start times ``s`` with
``s[consumer] - s[producer] >= bound`` on every FIFO and every sink as early as it can be are chosen
so that tokens wait where they are small; the token model turns them into depths. Corrections to the
paper (StreamTensor, sections 4.4 to 4.7, and 0b): the hop of a FIFO is in the bound (trap T5); a
reduction's first token takes ``(out_period - 1)`` *effective* intervals, those of the slowest
kernel upstream (0b item 7), or the depths can deadlock; sinks are bounded, or slack moves to a
kernel on which others depend (trap T3). ``path_delays`` is the program as published, in a compact
form and path by path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import CompileError
from stepsim.sizing.network import FifoNetwork
from stepsim.sizing.solver import Row, minimized
from stepsim.sizing.token_model import Cycles, Link

__all__ = [
    "Delays",
    "Equalization",
    "Starts",
    "asap",
    "depths_of",
    "depths_of_delays",
    "first_token",
    "intervals",
    "link",
    "lower_bounds",
    "path_delays",
    "planned_depths",
    "start_times",
]

Equalization = Literal["normal", "effective", "conservative"]
"""Intervals that kernels are taken to work at.

``normal``: each its own. ``effective``: never less than what its inputs come at. ``conservative``:
all of them stretched, so that they need as long as the slowest; depths are the smallest, and fast
kernels are held up.
"""

_MOST_PATHS = 100_000
"""Paths of a graph that the explicit program may have."""


@dataclass(frozen=True, slots=True)
class Starts:
    """Start times.

    Attributes
    ----------
    times : of every kernel, whole cycles.
    objective : weighted sum of the delays of all FIFOs.
    """

    times: tuple[int, ...]
    objective: float


@dataclass(frozen=True, slots=True)
class Delays:
    """Delays of the published program, one for each FIFO, in cycles; no start times need fit."""

    delays: tuple[float, ...]
    objective: float


def intervals(network: FifoNetwork, equalization: Equalization = "effective") -> list[Fraction]:
    """Cycles between steps that every kernel is taken to work at."""
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
    """Cycles by which each consumer starts later than its producer, at least: with the hop."""
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
) -> Starts:
    """The start times with the least weighted delays and no sink later than it has to be.

    Parameters
    ----------
    bounds : cycles of every FIFO, as ``lower_bounds``.
    weights : of the delays of every FIFO, as bits per cycle; without them, 1 each.
    sources : ``zero`` starts all kernels without inputs at 0, ``free`` when it is best.

    Raises
    ------
    CompileError
        The solver found no times.
    """
    count = len(network.kernels)
    cost = np.zeros(count)
    given = np.ones(len(network.fifos)) if weights is None else np.asarray(weights, float)
    earliest = asap(network, bounds)
    top: list[float] = []
    for v in range(count):
        if sources == "zero" and not network.inputs[v]:
            top.append(0.0)
        else:
            top.append(np.inf if network.outputs[v] else float(earliest[v]))
    rows: list[Row] = []
    for fifo, bound, weight in zip(network.fifos, bounds, given, strict=True):
        cost[fifo.consumer] += weight
        cost[fifo.producer] -= weight
        rows.append(([fifo.producer, fifo.consumer], [1.0, -1.0], -float(bound)))
    times = _solved("start times of kernels", cost, rows, top)
    # A program of differences has whole solutions; the solver's is one up to rounding.
    whole = tuple(int(time) for time in np.round(times))
    objective = sum(
        float(w) * (whole[f.consumer] - whole[f.producer])
        for f, w in zip(network.fifos, given, strict=True)
    )
    return Starts(whole, objective)


def path_delays(
    network: FifoNetwork, bounds: Sequence[int], form: Literal["compact", "paths"] = "compact"
) -> Delays:
    """The published program: delays on FIFOs, every path as long as the longest between its ends.

    A baseline: its solutions can slow a design down (trap T3), and it has a constraint for every
    path. The compact form has potentials instead, with the same optimum.

    Raises
    ------
    CompileError
        There are too many paths for ``form="paths"``, or the solver found no delays.
    """
    rows = _path_rows if form == "paths" else _potential_rows
    found, columns = rows(network, bounds)
    fifos = len(network.fifos)
    cost = np.zeros(columns)
    cost[:fifos] = 1.0
    times = _solved("delays of FIFOs", cost, found, [np.inf] * columns)
    # The program has whole solutions, and the solver's is one up to rounding.
    return Delays(tuple(np.round(times[:fifos], 6).tolist()), float(times[:fifos].sum()))


def _path_rows(network: FifoNetwork, bounds: Sequence[int]) -> tuple[list[Row], int]:
    """A row for every path of every pair of kernels."""
    thresholds = _thresholds(network, bounds)
    rows: list[Row] = []
    for source, longest in enumerate(thresholds):
        todo: list[tuple[int, tuple[int, ...]]] = [(source, ())]
        while todo:
            kernel, path = todo.pop()
            if path:
                rows.append((list(path), [-1.0] * len(path), -float(longest[kernel])))
            if len(rows) > _MOST_PATHS:
                raise CompileError(
                    f"a network of {len(network.kernels)} kernels has more than {_MOST_PATHS} "
                    'paths; use form="compact", which has the same optimum'
                )
            for e in network.outputs[kernel]:
                todo.append((network.fifos[e].consumer, (*path, e)))
    return rows, len(network.fifos)


def _potential_rows(network: FifoNetwork, bounds: Sequence[int]) -> tuple[list[Row], int]:
    """A potential for every pair of kernels: at least the threshold, at most every way there."""
    thresholds = _thresholds(network, bounds)
    columns = len(network.fifos)
    rows: list[Row] = []
    for source, longest in enumerate(thresholds):
        column = {source: -1}
        for kernel in sorted(longest):
            if kernel == source:
                continue
            column[kernel] = columns
            rows.append(([columns], [-1.0], -float(longest[kernel])))
            for e in network.inputs[kernel]:
                before = network.fifos[e].producer
                if before == source:
                    rows.append(([columns, e], [1.0, -1.0], 0.0))
                elif before in longest:
                    rows.append(([columns, column[before], e], [1.0, -1.0, -1.0], 0.0))
            columns += 1
    return rows, columns


def _thresholds(network: FifoNetwork, bounds: Sequence[int]) -> list[dict[int, int]]:
    """From every kernel, the longest path to each that it reaches."""
    found = []
    for source in range(len(network.kernels)):
        longest = {source: 0}
        for v in range(source, len(network.kernels)):
            if v in longest:
                for e in network.outputs[v]:
                    w = network.fifos[e].consumer
                    longest[w] = max(longest.get(w, 0), longest[v] + bounds[e])
        found.append(longest)
    return found


def _solved(
    what: str, cost: NDArray[np.float64], rows: Sequence[Row], top: Sequence[float]
) -> NDArray[np.float64]:
    found = minimized(cost, rows, top)
    if found is None:
        raise CompileError(f"the linear program of the {what} has no solution; report the network")
    return found


def link(network: FifoNetwork, fifo: int, delay: Cycles, paces: Sequence[Cycles]) -> Link:
    """A FIFO by itself, with the rates of its ends and the delay between their starts."""
    end = network.fifos[fifo]
    return Link(
        tokens=network.tokens[fifo],
        first=first_token(network, fifo, paces),
        source_interval=end.out_period * paces[end.producer],
        sink_interval=end.in_period * paces[end.consumer],
        delay=delay,
        hop=network.hop,
    )


def depths_of(
    network: FifoNetwork, times: Sequence[Cycles], paces: Sequence[Cycles]
) -> tuple[int, ...]:
    """Depths of all FIFOs for these start times, by the token model."""
    return depths_of_delays(
        network, [times[fifo.consumer] - times[fifo.producer] for fifo in network.fifos], paces
    )


def depths_of_delays(
    network: FifoNetwork, delays: Sequence[Cycles], paces: Sequence[Cycles]
) -> tuple[int, ...]:
    """Depths of all FIFOs for a delay of each, by the token model."""
    return tuple(link(network, e, delay, paces).depth for e, delay in enumerate(delays))


def planned_depths(
    network: FifoNetwork, equalization: Equalization = "effective"
) -> tuple[int, ...]:
    """Depths by the linear program, with no run: bits of waiting tokens are as few as can be."""
    paces = intervals(network, equalization)
    weights = [
        float(Fraction(fifo.bits) / (fifo.out_period * paces[fifo.producer]))
        for fifo in network.fifos
    ]
    times = start_times(network, lower_bounds(network, paces), weights).times
    return depths_of(network, times, paces)
