"""The parts of a plan: the decisions, and the results for each group and kernel."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stepsim.design.dataflow.graph import DataflowGraph
from stepsim.design.operators.graph import OperatorGraph
from stepsim.design.passes.pipeline import without_tiles
from stepsim.machine import Machine


@dataclass(frozen=True, slots=True)
class Measured:
    """A kernel alone, fed as fast as it takes tokens; times in cycles.

    Attributes
    ----------
    tokens : that it sends in a run.
    first : from its first token in to the first out, ``D``.
    interval : between tokens out, on average, ``II``.
    length : from its first token in to the last out, ``L``.
    """

    tokens: int
    first: int
    interval: float
    length: int


@dataclass(frozen=True)
class GroupPlan:
    """The results for the program of one group.

    Attributes
    ----------
    group : its number.
    depths : tokens of every FIFO of the program, by name; None where FIFOs were not sized.
    fifo_bytes : of these FIFOs.
    predicted : cycles by the model of stepping kernels; None where it was not run.
    unbounded, simulated : cycles of runs with unbounded FIFOs and with these depths; None without.
    simulations : runs that were made to find the depths.
    blocks : of each kind of on-chip memory that its buffers take; None where they are not placed.
    routings : routings over which FIFOs were sized, those that were added included; 0 without
        experts. Cycles are those of the slowest one that was given.
    guaranteed : no routing that keeps the declared maximum deadlocks; None without experts.
    memory_bytes : on-chip memory in all: ``fifo_bytes``, and the buffers and results that its
        operators need, as the column ``onchip_bytes`` counts; None where FIFOs were not sized.
    infeasible : why the group does not fit the chip; None if it does.
    """

    group: int
    depths: Mapping[str, int] | None = None
    fifo_bytes: int | None = None
    predicted: int | None = None
    unbounded: int | None = None
    simulated: int | None = None
    simulations: int = 0
    blocks: Mapping[str, int] | None = None
    routings: int = 0
    guaranteed: bool | None = None
    memory_bytes: int | None = None
    infeasible: str | None = None


@dataclass(frozen=True)
class PlanParts:
    """The fields of a plan.

    Attributes
    ----------
    graph : kernels with tiles, orders, unrolls, groups and dies; edges with converters, vectors and
        depths; loads and stores.
    machine : what it was compiled for.
    choices : options of the passes and the sizing, by name.
    groups : results for the program of every group, in the order in which they run.
    measured : kernels alone, by name.
    provenance : versions that it was made with.
    """

    graph: DataflowGraph
    machine: Machine
    choices: Mapping[str, Any]
    groups: tuple[GroupPlan, ...] = ()
    measured: Mapping[str, Measured] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)


def operators_digest(graph: OperatorGraph) -> str:
    """SHA-256 of an operator graph without tiles."""
    return hashlib.sha256(without_tiles(graph).to_json().encode()).hexdigest()
