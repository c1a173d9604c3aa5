"""``simulate_many``: a program on many routings, machines and FIFO depths, as one table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import flag, shown
from stepsim.arrow import pa
from stepsim.errors import ArgError, LoweringError, StepSimError
from stepsim.graph import (
    FIFO_DEPTH,
    MOST_KEPT,
    Program,
    Routing,
    check_bindings,
    check_indices,
    check_many_bindings,
    check_program,
)
from stepsim.kernels import free_bytes
from stepsim.lowering import software
from stepsim.machine import Machine, load_machine
from stepsim.processes import thread_count
from stepsim.simulation.many.tables import BYTES_PER_UNIT, Place, runs_table, units_table
from stepsim.simulation.many.variants import Variant, checked_variants, variant_runs
from stepsim.simulation.programs.prepared import Prepared
from stepsim.simulation.programs.provenance import index_digests
from stepsim.simulation.programs.simulate import kept_prepared
from stepsim.simulation.running.batches import ManyRuns, Outcomes, run_all
from stepsim.simulation.running.limits import Limits, check_limits

_Indices = Mapping[Routing, NDArray[np.int64]]


@overload
def simulate_many(
    program: Program,
    bindings: Any = None,
    *,
    machines: Iterable[Machine | str | Path] = ...,
    fifo_depths: Iterable[int | None] = ...,
    variants: Iterable[Variant] | None = ...,
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
    variants: Iterable[Variant] | None = ...,
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
    variants: Iterable[Variant] | None = None,
    limits: Limits | None = None,
    threads: int | None = None,
    units: bool = False,
) -> pa.Table | tuple[pa.Table, pa.Table]:
    """Simulate a finished program with many routings, machines and FIFO depths.

    Every number is the one that :func:`simulate` gives. The program is laid out once for each
    machine and depth, and the engine iterates over the routings itself.

    Parameters
    ----------
    program : closed ``with`` block of operators.
    bindings : one mapping for each run, as :func:`simulate` takes them; or one mapping of arrays
        ``[runs, rows, k]`` by routing, which is faster. Without it there is one run, of the routing
        that the program was built with.
    machines : machines, or their names or files; see :class:`~stepsim.machine.Machine`. No two are
        equal.
    fifo_depths : depths as :func:`simulate` takes them; None selects that of the machine or the
        program.
    variants : changes of the program, its machine or its routing; each is simulated with every
        machine, depth and binding. With variants that set a machine or a depth, give only one.
    limits : when to give up a run; its row then has status "limit".
    threads : number of threads; by default the number of processors available to this
        process.
    units : also return the stall breakdown of every unit.

    Returns
    -------
    pyarrow.Table, or with ``units`` a tuple of two
        One row for each run: all bindings on the first machine with the first depth, then with the
        next depth, and so on for every machine. ``number`` counts the rows, ``machine``,
        ``machine_index``, ``fifo_depth`` and ``binding`` say which run it is; with variants,
        each of which comes with all bindings, ``variant`` does too, and ``machine_index`` is null
        where the variant sets the machine. The other columns are those of a
        :class:`~stepsim.results.Result`. A run that deadlocks, fails or hits a limit
        raises nothing: look at ``status``, ``limit`` and ``reason``. ``wall_seconds`` are an
        estimate, as the time of runs that are made together is shared among them by their firings.
        The metadata has the provenance, with the notes on every machine. With ``units`` a
        second table has the rows of ``Result.units`` of all runs, with their ``number``,
        without the columns of a recording.

    Raises
    ------
    ArgError
        An argument is of the wrong type or out of range; bindings are missing or do not fit the
        routings of the program; the table of ``units`` does not fit the memory. The message names
        the entry of a list, as in ``bindings[17]``.
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
    count = thread_count(where, threads)
    targets = _machines(machines)
    depths = _depths(fifo_depths)
    changes = None if variants is None else checked_variants(variants)
    _check_own(changes or (), len(targets), len(depths))
    # Variants may bind what the program and the call leave open.
    unbound = bindings is None and changes is not None
    runs, indices = (1, None) if unbound else _bindings(program, bindings)
    prepared = _prepared(program, list(product(targets, depths)))
    if units:
        rows = len(prepared) * len(changes or (None,)) * runs
        _check_room(where, rows, prepared[0].unit_count)
    many: list[ManyRuns] = []
    places: list[Place] = []
    for i, each in enumerate(prepared):
        machine = i // len(depths)
        if changes is None:
            many.append(ManyRuns(each, runs, indices or {}, limits, units))
            places.append(Place(machine))
        for one in changes or ():
            many.append(variant_runs(each, one, runs, indices, limits, units))
            places.append(Place(machine if one.machine is None else None, one.name))
    done = list(zip(many, run_all(many, count), strict=True))
    for (made, outcomes), place in zip(done, places, strict=True):
        _check_errors(made, outcomes, place)
    about = _provenance(program, targets, depths, indices or {}, limits, changes)
    table = runs_table(done, places, about)
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
    # More would only evict each other and other cached programs.
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
            f"{where} units=True makes a table of {runs * units:,} rows ({runs:,} runs of "
            f"{units:,} units), which takes about {needed / 2**30:.1f} GiB; {there / 2**30:.1f} "
            "GiB are free. Make fewer runs in a call, or leave out units"
        )


def _check_own(variants: Iterable[Variant], machines: int, depths: int) -> None:
    """Refuse variants that would be simulated several times with equal results."""
    for one in variants:
        for own, count, what in (
            (one.machine, machines, "machine"), (one.fifo_depth, depths, "fifo_depth"),
        ):  # fmt: skip
            if own is not None and count > 1:
                raise ArgError(
                    f"variant '{one.name}' sets its own {what}, and would be the same for all "
                    f"{count} {what}s given; give one, or make a variant of each"
                )


def _check_errors(many: ManyRuns, outcomes: Outcomes, place: Place) -> None:
    for run, error in sorted(outcomes.errors.items()):
        if isinstance(error, LoweringError):
            variant = f"variant '{place.variant}', " if place.variant else ""
            raise LoweringError(
                f"{variant}bindings[{run}] on {many.prepared.machine.name} with FIFO depth "
                f"{many.prepared.fifo_depth}: {error}"
            ) from error
        raise error


def _provenance(
    program: Program,
    machines: list[Machine],
    depths: list[int | None],
    indices: _Indices,
    limits: Limits | None,
    variants: Sequence[Variant] | None,
) -> dict[str, str]:
    """The provenance of all runs, as metadata of their tables."""
    bounds = limits or Limits()
    about = {
        "program": program.name,
        "program_hash": program.fingerprint(),
        "flop_weights": dict(program.flop_weights),
        "machines": [machine.to_dict() for machine in machines],
        "notes": [list(machine.notes) for machine in machines],
        "fifo_depths": depths,
        "bindings": index_digests(indices),
        "limits": asdict(bounds),
        **software(),
    }
    if variants is not None:
        about["variants"] = [_described(one) for one in variants]
    return {"provenance": json.dumps(about, sort_keys=True, default=str, allow_nan=False)}


def _described(variant: Variant) -> dict[str, Any]:
    given = variant.bindings or {}
    bound = {table: check_indices(table, array) for table, array in given.items()}
    return {**variant.described(), **({"bindings": index_digests(bound)} if bound else {})}
