"""The published linear program over paths, a baseline for planned depths.

It has delays on FIFOs and a constraint for every path (StreamTensor, on FIFO sizing). Its
optima can hold back a kernel on which others depend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stepsim.errors import CompileError
from stepsim.sizing import FifoNetwork
from stepsim.sizing.timetable import Row, minimized

_MOST_PATHS = 100_000
"""Most paths of a graph in the explicit program."""


@dataclass(frozen=True, slots=True)
class Delays:
    """Delays of the published program for each FIFO, in cycles; they need not form start times."""

    delays: tuple[float, ...]
    objective: float


def path_delays(
    network: FifoNetwork, bounds: Sequence[int], form: Literal["compact", "paths"] = "compact"
) -> Delays:
    """The published program: delays on FIFOs that make every path as long as the longest one.

    It is a baseline: its solutions can slow a design down, and it has a constraint for
    every path. The compact form uses potentials instead and has the same optimum.

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
    times = minimized(cost, found, [np.inf] * columns)
    if times is None:
        raise CompileError(
            "the linear program of the delays of FIFOs has no solution; report the network"
        )
    # The program has integer solutions; the solver's equals one up to rounding.
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
    """A potential for every pair of kernels, between the threshold and the length of every path."""
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
    """From every kernel, the longest path to each kernel that it reaches."""
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
