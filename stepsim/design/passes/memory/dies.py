"""Placement of kernels on dies by an integer program.

Dies lie in a row; a stream between them crosses every border on its way. The program chooses one
die for each task, within what each die has, and weighs bits over borders against how unevenly the
resources are used. Source: StreamTensor, on the resource space (one-hot assignment, traffic and
imbalance; the weights are not published, so they are arguments), after AutoBridge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepsim.deferred import deferred
from stepsim.errors import CompileError

optimize: Any = deferred("scipy.optimize")


@dataclass(frozen=True, slots=True)
class Task:
    """A kernel and the resources it takes, by name."""

    name: str
    resources: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream between two tasks, by number, and its width or bits per run."""

    producer: int
    consumer: int
    bits: float


@dataclass(frozen=True, slots=True)
class Partition:
    """The die of every task.

    Attributes
    ----------
    dies : by task, from 0.
    crossings : bits over each border, added up.
    imbalance : of each resource, the largest share of a die less the smallest, added up.
    objective : what was made least.
    """

    dies: tuple[int, ...]
    crossings: float
    imbalance: float
    objective: float


def crossings(streams: Sequence[Stream], dies: Sequence[int]) -> float:
    """Bits over every border between dies, added up."""
    return sum(s.bits * abs(dies[s.producer] - dies[s.consumer]) for s in streams)


def imbalance(
    tasks: Sequence[Task], dies: Sequence[int], capacity: Sequence[Mapping[str, float]]
) -> float:
    """How unevenly dies are used: by resource, the largest less the smallest share, added up."""
    found = 0.0
    for name in capacity[0] if capacity else ():
        used = [0.0] * len(capacity)
        for task, die in zip(tasks, dies, strict=True):
            used[die] += task.resources.get(name, 0)
        shares = [u / die[name] for u, die in zip(used, capacity, strict=True)]
        found += max(shares) - min(shares)
    return found


def partition(
    tasks: Sequence[Task],
    streams: Sequence[Stream],
    capacity: Sequence[Mapping[str, float]],
    *,
    traffic_weight: float = 1.0,
    imbalance_weight: float = 0.0,
) -> Partition:
    """The best die of every task.

    Parameters
    ----------
    capacity : what each die has of every resource; all have the same resources.
    traffic_weight : of a bit over a border.
    imbalance_weight : of the imbalance, which is at most 1 for each resource.

    Raises
    ------
    CompileError
        Dies have different resources, a task needs one that none has, or no placement fits.
    """
    names = _checked(tasks, capacity)
    count, dies = len(tasks), len(capacity)
    if not count:
        return Partition((), 0.0, 0.0, 0.0)
    # Columns: die of every task one-hot, length of every stream, top and bottom of every resource.
    lengths, tops = count * dies, count * dies + len(streams)
    columns = tops + 2 * len(names)
    rows: list[tuple[NDArray[np.float64], float, float]] = []
    for t in range(count):
        row = np.zeros(columns)
        row[t * dies : (t + 1) * dies] = 1
        rows.append((row, 1, 1))
    place = np.arange(dies, dtype=float)
    for e, stream in enumerate(streams):
        for sign in (1, -1):
            row = np.zeros(columns)
            row[stream.producer * dies : (stream.producer + 1) * dies] += sign * place
            row[stream.consumer * dies : (stream.consumer + 1) * dies] -= sign * place
            row[lengths + e] = -1
            rows.append((row, -np.inf, 0))
    for k, name in enumerate(names):
        for die in range(dies):
            share = np.zeros(columns)
            for t, task in enumerate(tasks):
                share[t * dies + die] = task.resources.get(name, 0) / capacity[die][name]
            # No share is above the top, which is at most 1: what a die has is never exceeded.
            for column, sign in ((tops + 2 * k, 1), (tops + 2 * k + 1, -1)):
                row = sign * share
                row[column] = -sign
                rows.append((row, -np.inf, 0))
    cost = np.zeros(columns)
    cost[lengths:tops] = [traffic_weight * stream.bits for stream in streams]
    cost[tops::2], cost[tops + 1 :: 2] = imbalance_weight, -imbalance_weight
    whole = np.zeros(columns)
    whole[:lengths] = 1
    top = np.ones(columns)
    top[lengths:tops] = dies
    found = optimize.milp(
        cost,
        constraints=optimize.LinearConstraint(
            np.array([row for row, _, _ in rows]),
            np.array([low for _, low, _ in rows]),
            np.array([high for _, _, high in rows]),
        ),
        integrality=whole,
        bounds=optimize.Bounds(0, top),
        options={"mip_rel_gap": 0.0},
    )
    if found.x is None:
        raise CompileError(_unplaceable(tasks, capacity, names))
    picks = found.x[:lengths].reshape(count, dies).argmax(axis=1).tolist()
    crossed = crossings(streams, picks)
    uneven = imbalance(tasks, picks, capacity)
    return Partition(
        tuple(picks), crossed, uneven, traffic_weight * crossed + imbalance_weight * uneven
    )


def _checked(tasks: Sequence[Task], capacity: Sequence[Mapping[str, float]]) -> list[str]:
    """Names of the resources."""
    if not capacity:
        raise CompileError("a device has one die or more, found none")
    names = list(capacity[0])
    for number, die in enumerate(capacity):
        if set(die) != set(names) or min(die.values(), default=1) <= 0:
            raise CompileError(
                f"die {number} must have more than 0 of {names}, as die 0, found {dict(die)}"
            )
    for task in tasks:
        unknown = sorted(set(task.resources) - set(names))
        if unknown:
            raise CompileError(
                f"kernel '{task.name}' needs {unknown[0]}, and the dies have {names}"
            )
    return names


def _unplaceable(
    tasks: Sequence[Task], capacity: Sequence[Mapping[str, float]], names: Sequence[str]
) -> str:
    """Why there is no placement: the scarcest resource."""
    needs = {name: sum(task.resources.get(name, 0) for task in tasks) for name in names}
    has = {name: sum(die[name] for die in capacity) for name in names}
    name = max(names, key=lambda name: needs[name] / has[name])
    largest = max(tasks, key=lambda task: task.resources.get(name, 0))
    return (
        f"no placement of {len(tasks)} kernels on {len(capacity)} dies fits: they need "
        f"{needs[name]:g} of {name} in all, the dies have {has[name]:g}; kernel '{largest.name}' "
        f"takes most, {largest.resources.get(name, 0):g}: unroll it less or split it"
    )
