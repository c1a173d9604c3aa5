"""FIFO depths for designs with experts, over many routings: ``size_over_traces``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import shown
from stepsim.design.operators.given import values_of
from stepsim.design.programs.group_program import GroupProgram, fifos_of
from stepsim.errors import CompileError
from stepsim.graph import Routing
from stepsim.machine import Machine
from stepsim.results import ENDED
from stepsim.simulation import Prepared, prepare
from stepsim.sizing import FifoSizes, sized
from stepsim.trace_io import RoutingTable
from stepsim.typed import typed, typed_but

Trace = NDArray[np.int64]
"""Experts of each row, ``[rows, k]``."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Runs with some depths, one for each trace.

    Attributes
    ----------
    cycles : None of a run that did not end.
    unbounded : cycles with unbounded FIFOs.
    """

    cycles: tuple[int | None, ...]
    unbounded: tuple[int, ...]

    @property
    def deadlocks(self) -> int:
        """Runs that did not end."""
        return sum(cycles is None for cycles in self.cycles)

    @property
    def slowdown(self) -> float:
        """The largest, as a fraction, of the runs that ended."""
        pairs = zip(self.cycles, self.unbounded, strict=True)
        return max((own / best - 1 for own, best in pairs if own is not None), default=0.0)


@dataclass(frozen=True, eq=False)
class TracedSizes:
    """Depths of all FIFOs of a program with experts.

    Attributes
    ----------
    sizes : what was sized over the traces.
    held : depths at the declared maximum, by name of the FIFO; nothing of these was sized.
    guaranteed : no routing that keeps the declared maximum deadlocks (see `size_over_traces`).
    traces : what was sized for, traces that were added included.
    """

    sizes: FifoSizes
    held: Mapping[str, int]
    guaranteed: bool
    traces: tuple[Trace, ...]
    _prepared: Prepared
    _program: GroupProgram

    @property
    def depths(self) -> dict[str, int]:
        """Depth of every FIFO by name, for ``st.simulate(..., fifo_depth=...)``."""
        return {**self.held, **depths_of(self.sizes)}

    @property
    def streams(self) -> dict[str, int]:
        """Depths of the streams between kernels, by their name in the group's program."""
        depths = self.depths
        fifos = fifos_of(self._program.streams, self._prepared.wiring)
        return {name: depths[fifo] for name, fifo in fifos.items()}

    @typed
    def tried(self, traces: Iterable[Any] | RoutingTable) -> Trial:
        """Runs of traces, including ones that were not sized for, compared with unbounded runs.

        Raises
        ------
        CompileError : a trace does not fit the model, or sends an expert more rows than declared.
        """
        bound = [_bound(self._program, one) for one in traces_of(traces)]
        everything = dict.fromkeys(self._prepared.fifo_numbers)
        unbounded = self._prepared.changed(fifo_depths=everything).run_many(bound)
        own = self._prepared.changed(fifo_depths=self.depths).run_many(bound)
        return Trial(
            tuple(run.cycles if run.status in ENDED else None for run in own),
            tuple(run.cycles for run in unbounded),
        )


@typed_but("traces")
def size_over_traces(
    program: GroupProgram,
    traces: Iterable[Any] | RoutingTable,
    machine: Machine | str = "u55c",
    *,
    slowdown: float = 0.005,
    guard: bool = True,
) -> TracedSizes:
    """Size the FIFOs of a program with experts, so that no run of many routings deadlocks.

    The depths are those of the least bytes found with which every trace takes at most
    ``1 + slowdown`` times as long as with unbounded FIFOs. With ``guard`` no other routing can
    deadlock either:

    * FIFOs of weights and of result rows in the combination hold the declared maximum of rows of an
      expert. So experts and dispatch never wait for each other's results, and always take rows in.
    * An expert works on a tile at a time in the same way, so that traces in which each expert gets
      a tile show that its FIFOs let any number of tiles pass (:func:`covering_traces` are added).
    * What is left has the same tokens in every routing, and waits for the combination at most until
      it has sent all rows in. A trace in which it does wait so long is added
      (:func:`latest_trace`). Whether a program of such units deadlocks depends on no time, only on
      the order of tokens, so that no other routing can.

    Parameters
    ----------
    traces : index arrays ``[rows, k]`` or routing tables of :mod:`stepsim.trace_io`, or one.
    slowdown : how much longer than with unbounded FIFOs a run may take, as a fraction.
    guard : hold declared maxima and add the traces above; without it depths are for these traces
        alone, and another routing may deadlock.

    Raises
    ------
    CompileError : the program has not one routing, a trace does not fit it, or an expert gets more
        rows than declared.
    EvaluationError : a run is not ok even with unbounded FIFOs.
    """
    table = _routing(program)
    given = traces_of(traces)
    prepared = prepare(program.program, machine)
    held: dict[str, int] = {}
    guaranteed = False
    if guard:
        most = table.max_rows or table.rows
        held = dict.fromkeys(fifos_of(program.held, prepared.wiring).values(), max(most, 2))
        given += covering_traces(table.rows, table.k, table.experts)
        latest = latest_trace(table.rows, table.k, table.experts, most)
        guaranteed = latest is not None
        given += [] if latest is None else [latest]
    if not given:
        raise CompileError(f"size_over_traces: no traces for '{program.program.name}'; give one")
    bound = [_bound(program, one) for one in given]
    sizing = prepared.changed(fifo_depths=held) if held else prepared
    found = sized(sizing, bound, slowdown=slowdown, stated=True)
    return TracedSizes(found, held, guaranteed, tuple(given), prepared, program)


def depths_of(sizes: FifoSizes) -> dict[str, int]:
    """Depths that were found, by name; none of them is unbounded."""
    return {name: depth for name, depth in sizes.depths.items() if depth is not None}


def latest_trace(rows: int, k: int, experts: int, max_rows: int) -> Trace | None:
    """A routing with which no row leaves the combination before all rows are dispatched.

    Expert 0 gets the first row and no other, so that its tile is sent at the end; the other rows
    are distributed over the other experts. None where the declared maximum does not leave the
    others room for that. Where all rows go to all experts every routing has the same tokens.
    """
    if k == experts:
        return np.tile(np.arange(experts), (rows, 1))
    if (experts - 1) * max_rows < rows * k - 1:
        return None
    others = 1 + np.arange(rows * k - 1) % (experts - 1)
    return np.concatenate([[0], others]).reshape(rows, k)


def covering_traces(rows: int, k: int, experts: int) -> list[Trace]:
    """Balanced routings in which every expert gets a row, as few as that takes."""
    made = []
    for start in range(0, experts, rows * k):
        made.append((start + np.arange(rows * k) % experts).reshape(rows, k) % experts)
    return made


def _routing(program: GroupProgram) -> Routing:
    if len(program.routings) != 1:
        raise CompileError(
            f"size_over_traces: '{program.program.name}' has {len(program.routings)} routings, "
            "expected one; size programs without experts with st.size_fifos"
        )
    (table,) = program.routings.values()
    return table


def traces_of(traces: Any) -> list[Trace]:
    """Index arrays of routing tables and arrays, or of a single one."""
    single = isinstance(traces, RoutingTable) or (
        isinstance(traces, np.ndarray) and traces.ndim == 2
    )
    if not single and not isinstance(traces, Iterable):
        raise CompileError(f"traces are {shown(traces)}; give index arrays or routing tables")
    return [
        values_of("traces", one.experts if isinstance(one, RoutingTable) else one)
        for one in ([traces] if single else traces)
    ]


def _bound(program: GroupProgram, trace: Trace) -> dict[Routing, Any]:
    (name,) = program.routings
    return program.bindings({name: trace})
