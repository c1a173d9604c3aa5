"""``ensemble``: the uncertainty of a number of cycles, from runs with small disturbances.

One cycle of change anywhere moves the published hardware itself by 2.8 % on average and by up to
11 %. A difference of a percent between two designs is therefore not significant, and a single
number does not show that; the spread of runs with latencies, depths and bases within stated bounds
does.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepsim.arguments import moved
from stepsim.ensembles import Ending, Ensemble, disturbed_runs
from stepsim.graph import Program, check_bindings
from stepsim.machine import Machine
from stepsim.simulation.ensembles.disturbances import DISTURBANCES
from stepsim.simulation.programs.prepared import FifoDepth, Prepared
from stepsim.simulation.programs.simulate import as_prepared
from stepsim.simulation.running.batches import ManyRuns, run_all
from stepsim.simulation.running.limits import Limits, check_limits

if TYPE_CHECKING:
    from stepsim.graph import Bindings

_OTHER_LEVEL: Final = "the hardware level is st.hardware.ensemble(program, machine)"


@moved(level=_OTHER_LEVEL, hardware=_OTHER_LEVEL)
def ensemble(
    program: Program | Prepared,
    machine: Machine | str | None = None,
    *,
    runs: int = 32,
    seed: int = 0,
    bounds: Mapping[str, int | tuple[int, int]] | None = None,
    bindings: Mapping[Any, Any] | None = None,
    fifo_depth: FifoDepth = None,
    limits: Limits | None = None,
    threads: int | None = None,
) -> Ensemble:
    """Simulate a program and disturbed copies of it, for the spread of its cycles.

    Parameters
    ----------
    program : a finished program, or one prepared with its machine and depths.
    machine, bindings, fifo_depth : as :func:`simulate` takes them.
    runs : number of members, in addition to the nominal run.
    seed : seed of the members; the same seed gives the same members.
    bounds : least and largest change by name, both included; a single number is the largest, with 0
        as the least, and 0 leaves a disturbance out. By default all that apply, within the bounds
        of docs/ensembles.md.
    limits : when to give up a run.
    threads : number of threads; by default the number of processors available to this
        process.

    Returns
    -------
    Ensemble
        Median, p5, p95, minimum, maximum and the nominal run, in cycles. Members that deadlock,
        fail or hit a limit are left out of these and counted in ``lost``.

    Raises
    ------
    ArgError
        An argument is of the wrong type or out of range, a disturbance does not apply, or the
        nominal run does not succeed.
    LoweringError, MachineError
        As in :func:`simulate`.

    Example
    -------
    >>> with st.Program("copy") as program:
    ...     out = st.linear_store(st.linear_load(st.spec(64, 64), tile=(16, 64)), "out")
    >>> found = st.ensemble(program, runs=8)
    >>> found.nominal, len(found.cycles), found.p5 <= found.median <= found.p95
    (254, 8, True)
    """
    prepared = as_prepared("ensemble", program, machine, fifo_depth)
    indices = check_bindings(prepared.program, bindings)
    return ensemble_of(
        prepared, indices, runs=runs, seed=seed, bounds=bounds, limits=limits, threads=threads
    )


def ensemble_of(
    prepared: Prepared,
    indices: Bindings,
    *,
    runs: int,
    seed: int = 0,
    bounds: Mapping[str, int | tuple[int, int]] | None = None,
    limits: Limits | None = None,
    threads: int | None = None,
) -> Ensemble:
    """Like `ensemble`, for a prepared program with checked indices."""
    program = prepared.program.name
    check_limits(f"program '{program}', ensemble:", limits)
    one = {table: array[np.newaxis] for table, array in indices.items()}

    def run(members: Sequence[Prepared], count: int) -> list[Ending]:
        many = [ManyRuns(_bare(member), 1, one, limits, units=False) for member in members]
        totals = [
            each.totals(found, 0) for each, found in zip(many, run_all(many, count), strict=True)
        ]
        return [
            Ending(each.status, each.reason, each.cycles if each.status == "ok" else None)
            for each in totals
        ]

    return disturbed_runs(
        program, prepared.machine.name, prepared, DISTURBANCES, run,
        runs=runs, seed=seed, bounds=bounds, threads=threads,
    )  # fmt: skip


def _bare(prepared: Prepared) -> Prepared:
    """The program whose runs are asked for their cycles only."""
    made = copy.copy(prepared)
    vars(made).update(energy=None, fit=None)
    return made
