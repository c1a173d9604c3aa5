"""``simulate_many``: a program on many routings, machines and FIFO depths, as one table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import flag, shown
from stepsim.errors import ArgError, LoweringError, StepSimError
from stepsim.graph import Program
from stepsim.graph.limits import FIFO_DEPTH
from stepsim.graph.many_bindings import check_many_bindings
from stepsim.graph.program import MOST_KEPT, check_program
from stepsim.graph.routing_table import Routing, check_bindings
from stepsim.kernels.free_memory import free_bytes
from stepsim.machine import Machine, load_machine
from stepsim.simulation.limits import Limits
from stepsim.simulation.many_runs import THREADS, ManyRuns, Outcomes, run_all, usable_cpus
from stepsim.simulation.many_tables import BYTES_PER_UNIT, runs_table, units_table
from stepsim.simulation.prepare import Prepared, check_limits, kept_prepared
from stepsim.simulation.provenance import index_digests, software

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["simulate_many"]

_Indices = Mapping[Routing, NDArray[np.int64]]


@overload
def simulate_many(
    program: Program,
    bindings: Any = None,
    *,
    machines: Iterable[Machine | str | Path] = ...,
    fifo_depths: Iterable[int | None] = ...,
    limits: Limits | None = None,
    threads: int | None = None,
    units: Literal[False] = False,
) -> pa.Table: ...
@overload
def simulate_many(
    program: Program,
    bindings: Any = None,
    *,
    machines: Iterable[Machine | str | Path] = ...,
    fifo_depths: Iterable[int | None] = ...,
    limits: Limits | None = None,
    threads: int | None = None,
    units: Literal[True],
) -> tuple[pa.Table, pa.Table]: ...
def simulate_many(
    program: Program,
    bindings: Any = None,
    *,
    machines: Iterable[Machine | str | Path] = ("sda-1024",),
    fifo_depths: Iterable[int | None] = (None,),
    limits: Limits | None = None,
    threads: int | None = None,
    units: bool = False,
) -> pa.Table | tuple[pa.Table, pa.Table]:
    """Simulate a finished program with many routings, machines and FIFO depths.

    Every number is the one that :func:`simulate` gives. The program is laid out once for each
    machine and depth, and the engine goes from routing to routing on its own.

    Parameters
    ----------
    program : closed ``with`` block of operators.
    bindings : one mapping for each run, as :func:`simulate` takes them; or one mapping of arrays
        ``[runs, rows, k]`` by routing, which is faster. Without it there is one run, of the routing
        that the program was built with.
    machines : each a :class:`~stepsim.machine.Machine`, or the name or file of one; no two are
        equal.
    fifo_depths : depths as :func:`simulate` takes them; None stands for that of the machine or the
        program.
    limits : when to give up a run; its row then has status "limit".
    threads : that run at the same time; by default as many as there are processors for this
        process.
    units : also return the stall breakdown of every unit.

    Returns
    -------
    pyarrow.Table, or with ``units`` a tuple of two
        One row for each run: all bindings on the first machine with the first depth, then with the
        next depth, and so on for every machine. ``number`` counts the rows, ``machine``,
        ``machine_index``, ``fifo_depth`` and ``binding`` say which run it is, and the other columns
        are those of a :class:`~stepsim.results.Result`. A run that deadlocks, fails or hits a limit
        raises nothing: look at ``status``, ``limit`` and ``reason``. ``wall_seconds`` are an
        estimate, as the time of runs that are made together is shared among them by their firings.
        The metadata has the provenance, with the notes on every machine. With ``units`` a
        second table has the rows of ``Result.units`` of all runs, with their ``number``.

    Raises
    ------
    ArgError
        An argument is of the wrong type or out of range; bindings are missing or do not fit the
        routings of the program; the table of ``units`` does not fit the memory. The message names
        the one of a list, as in ``bindings[17]``.
    LoweringError
        The program is still open, a size does not fit, or the tokens of a run do not fit the
        memory of this machine.
    MachineError
        A machine is unknown or invalid.
    """
    check_program("simulate_many", program)
    where = f"program '{program.name}':"
    check_limits(where, limits)
    units = flag(f"{where} units", units)
    count = usable_cpus() if threads is None else THREADS.checked(f"{where} threads", threads)
    targets = _machines(machines)
    depths = _depths(fifo_depths)
    runs, indices = _bindings(program, bindings)
    prepared = _prepared(program, list(product(targets, depths)))
    if units:
        _check_room(where, len(prepared) * runs, len(prepared[0].wiring.units))
    many = [ManyRuns(each, runs, indices, limits, units) for each in prepared]
    done = list(zip(many, run_all(many, count), strict=True))
    for each, outcomes in done:
        _check_errors(each, outcomes)
    about = _provenance(program, targets, depths, indices, limits)
    table = runs_table(done, len(depths), about)
    return (table, units_table(done, about)) if units else table


def _machines(machines: object) -> list[Machine]:
    found: list[Machine] = []
    for i, one in enumerate(_listed("machines", machines)):
        try:
            machine = one if isinstance(one, Machine) else load_machine(one)
        except StepSimError as error:
            raise type(error)(f"machines[{i}]: {error}") from error
        if machine in found:
            raise ArgError(
                f"machines[{i}] is machines[{found.index(machine)}] again, '{machine.name}' with "
                "the same values, and all its runs would be the same; leave one out"
            )
        found.append(machine)
    return found


def _depths(depths: object) -> list[int | None]:
    return [
        None if one is None else FIFO_DEPTH.checked(f"fifo_depths[{i}]", one)
        for i, one in enumerate(_listed("fifo_depths", depths))
    ]


def _listed(what: str, values: object) -> list[Any]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise ArgError(f"{what} must be a list, found {shown(values)}")
    found = list(values)
    if not found:
        raise ArgError(f"{what} is empty; expected at least one")
    return found


def _bindings(program: Program, bindings: object) -> tuple[int, _Indices]:
    if bindings is None:
        return 1, {table: array[np.newaxis] for table, array in check_bindings(program, {}).items()}
    return check_many_bindings(program, bindings)


def _prepared(program: Program, wanted: list[tuple[Machine, int | None]]) -> list[Prepared]:
    """The program prepared for machines and depths; few of them are kept for the next call."""
    # More would only drive each other out, and what else is kept.
    prepare = kept_prepared if len(wanted) < MOST_KEPT else Prepared
    prepared: list[Prepared] = []
    for target, depth in wanted:
        wiring = prepared[0].wiring if prepared else None
        prepared.append(prepare(program, target, depth, wiring))
    return prepared


def _check_room(where: str, runs: int, units: int) -> None:
    """Refuse a table of units that does not fit, before the first of its runs is made."""
    needed, there = runs * units * BYTES_PER_UNIT, free_bytes()
    if needed > there:
        raise ArgError(
            f"{where} units=True makes a table of {runs * units:,} rows, {runs:,} runs of "
            f"{units:,} units, which takes about {needed / 2**30:.1f} GiB; {there / 2**30:.1f} GiB "
            "are free. Make fewer runs in a call, or leave out units"
        )


def _check_errors(many: ManyRuns, outcomes: Outcomes) -> None:
    for run, error in sorted(outcomes.errors.items()):
        if isinstance(error, LoweringError):
            raise LoweringError(
                f"bindings[{run}] on {many.prepared.machine.name} with FIFO depth "
                f"{many.prepared.fifo_depth}: {error}"
            ) from error
        raise error


def _provenance(
    program: Program,
    machines: list[Machine],
    depths: list[int | None],
    indices: _Indices,
    limits: Limits | None,
) -> dict[str, str]:
    """What all runs depended on, as metadata of their tables."""
    bounds = limits or Limits()
    about = {
        "program": program.name,
        "program_hash": program.fingerprint(),
        "flop_weights": dict(program.flop_weights),
        "machines": [machine.to_dict() for machine in machines],
        "notes": [list(machine.notes) for machine in machines],
        "fifo_depths": depths,
        "bindings": index_digests(indices),
        "limits": {name: getattr(bounds, name) for name in Limits.__slots__},
        **software(),
    }
    return {"provenance": json.dumps(about, sort_keys=True, default=str)}
