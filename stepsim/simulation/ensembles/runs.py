"""``ensemble``: how far a number of cycles can be trusted, by runs that are disturbed a little.

One cycle of change anywhere moves the published hardware itself by 2.8 % on average and by up to
11 %. A difference of a percent between two designs is therefore none, and a single number does not
say so; the spread of runs with latencies, depths and bases within stated bounds does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import stepsim.hardware
from stepsim.arguments import Range
from stepsim.errors import ArgError
from stepsim.graph import Program, check_bindings
from stepsim.machine import Machine
from stepsim.simulation.ensembles.disturbances import Bounds, Disturbance, bounds_of
from stepsim.simulation.ensembles.spread import Ensemble
from stepsim.simulation.ensembles.tile_disturbances import TILE
from stepsim.simulation.hardware_level.levels import is_at_hardware, refuse_hardware
from stepsim.simulation.many.batches import THREADS, ManyRuns, run_all, usable_cpus
from stepsim.simulation.running.limits import Limits
from stepsim.simulation.running.prepared import SEED, FifoDepth, Prepared, check_limits
from stepsim.simulation.running.preparing import as_prepared

if TYPE_CHECKING:
    from stepsim.graph import Bindings
    from stepsim.hardware import Machine as HardwareMachine
    from stepsim.simulation.hardware_level.programs import OnHardware

__all__ = ["MEMBERS", "ensemble", "ensemble_of", "hardware_ensemble"]

MEMBERS = Range(1024, "of an ensemble")


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
    level: Literal["tile", "hardware"] = "tile",
    hardware: HardwareMachine | None = None,
) -> Ensemble:
    """Simulate a program and disturbed copies of it, for the spread of its cycles.

    Parameters
    ----------
    program : finished, or prepared with its machine and depths.
    machine, bindings, fifo_depth : as :func:`simulate` takes them.
    runs : number of members, beside the nominal run.
    seed : that members are drawn by; the same seed gives the same members.
    bounds : least and largest change by name, both included; a number goes from 0, and 0 leaves a
        disturbance out. By default all that apply, within the bounds of docs/ensembles.md.
    limits : when to give up a run.
    threads : that run at the same time; by default as many as there are processors for this
        process.
    level, hardware : as :func:`simulate` takes them; at the hardware level the values of its
        machine are disturbed.

    Returns
    -------
    Ensemble
        Median, p5, p95, least, most and the nominal run, in cycles. Members that deadlock, fail or
        hit a limit are left out of these and counted in ``lost``.

    Raises
    ------
    ArgError
        An argument is of the wrong type or out of range, a disturbance does not apply, or the
        nominal run does not end well.
    LoweringError, MachineError
        As of :func:`simulate`.

    Example
    -------
    >>> with st.Program("copy") as program:
    ...     out = st.linear_store(st.linear_load(st.spec(64, 64), tile=(16, 64)), "out")
    >>> found = st.ensemble(program, runs=8)
    >>> found.nominal, len(found.cycles), found.p5 <= found.median <= found.p95
    (254, 8, True)
    """
    options: Any = {"runs": runs, "seed": seed, "bounds": bounds, "threads": threads}
    if is_at_hardware(
        "ensemble", program, level, limits,
        machine=machine is not None, bindings=bindings is not None,
        fifo_depth=fifo_depth is not None,
    ):  # fmt: skip
        assert isinstance(program, Program)
        most = None if limits is None else limits.max_cycles
        return hardware_ensemble(program, hardware, max_cycles=most, **options)
    refuse_hardware("ensemble", hardware)
    prepared = as_prepared("ensemble", program, machine, fifo_depth)
    indices = check_bindings(prepared.program, bindings)
    return ensemble_of(prepared, indices, limits=limits, **options)


Ending = tuple[str, str, int | None]
"""Status, reason and cycles of a run."""


def ensemble_of(
    prepared: Prepared,
    indices: Bindings,
    *,
    runs: int,
    seed: int = 0,
    bounds: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    threads: int | None = None,
) -> Ensemble:
    """As `ensemble`, of a prepared program with checked indices."""
    check_limits(_where(prepared.program), limits)
    return _ensemble(
        (prepared.program, prepared.machine.name, prepared),
        TILE,
        partial(_tile_runs, indices=indices, limits=limits),
        runs=runs,
        seed=seed,
        bounds=bounds,
        threads=threads,
    )


def hardware_ensemble(
    program: Program,
    machine: HardwareMachine | None = None,
    *,
    runs: int,
    seed: int = 0,
    bounds: Mapping[str, Any] | None = None,
    max_cycles: int | None = None,
    threads: int | None = None,
) -> Ensemble:
    """As `ensemble`, at the hardware level.

    Raises
    ------
    ArgError
        As of :func:`ensemble`.
    LoweringError
        Operators have no hardware unit, or tiles are of another size than the machine's.
    """
    from stepsim.simulation.hardware_level.disturbances import HARDWARE
    from stepsim.simulation.hardware_level.programs import on_hardware

    what = on_hardware(program, machine)
    return _ensemble(
        (program, what.machine.name, what),
        HARDWARE,
        partial(_hardware_runs, max_cycles=max_cycles),
        runs=runs,
        seed=seed,
        bounds=bounds,
        threads=threads,
    )


def _where(program: Program) -> str:
    return f"program '{program.name}', ensemble:"


def _ensemble(
    subject: tuple[Program, str, Any],
    entries: Sequence[Disturbance],
    run: Callable[[Sequence[Any], int], list[Ending]],
    *,
    runs: int,
    seed: int,
    bounds: Mapping[str, Any] | None,
    threads: int | None,
) -> Ensemble:
    """The ensemble of what runs on a machine of some name, ``run`` being how, on some threads."""
    program, machine, what = subject
    where = _where(program)
    runs = MEMBERS.checked(f"{where} runs", runs)
    seed = SEED.checked(f"{where} seed", seed)
    count = usable_cpus() if threads is None else THREADS.checked(f"{where} threads", threads)
    chosen = bounds_of(entries, bounds, f"{where} bounds", what)
    members = [_member(what, chosen, seed, number) for number in range(runs)]
    nominal, *others = run([what, *members], count)
    status, reason, cycles = nominal
    if status != "ok" or cycles is None:
        raise ArgError(
            f"{where} the nominal run ended with status {status}, so that there is nothing to "
            f"compare disturbed runs with: {reason}"
        )
    return Ensemble(
        program.name,
        machine,
        cycles,
        tuple(each for _, _, each in others),
        tuple(each for each, _, _ in others),
        seed,
        {one.name: pair for one, pair in chosen.items()},
        {one.name: one.about for one in chosen},
    )


def _member(what: Any, chosen: Mapping[Disturbance, Bounds], seed: int, number: int) -> Any:
    """One member: what runs, with what was drawn for it."""
    made = what
    for one, bounds in chosen.items():
        made = one.apply(made, one.drawn(seed, number, bounds, what))
    return made


def _tile_runs(
    members: Sequence[Prepared], threads: int, *, indices: Bindings, limits: Limits | None
) -> list[Ending]:
    """How every member ended at the level of tiles."""
    one = {table: array[np.newaxis] for table, array in indices.items()}
    many = [ManyRuns(_bare(member), 1, one, limits, units=False) for member in members]
    totals = [
        each.totals(found, 0) for each, found in zip(many, run_all(many, threads), strict=True)
    ]
    return [
        ("ok", "", run.cycles) if run.status == "ok" else (run.status, run.reason, None)
        for run in totals
    ]


def _bare(prepared: Prepared) -> Prepared:
    """The program whose runs are asked for their cycles only."""
    made = copy.copy(prepared)
    vars(made).update(energy=None, fit=None)
    return made


def _hardware_runs(
    members: Sequence[OnHardware], threads: int, *, max_cycles: int | None
) -> list[Ending]:
    """How every member ended at the hardware level."""
    from concurrent.futures import ThreadPoolExecutor

    from stepsim.simulation.hardware_level.programs import STATUS

    def run(member: OnHardware) -> Ending:
        done = stepsim.hardware.simulate(member.network, member.machine, max_cycles=max_cycles)
        ended = STATUS[done.status]
        return (ended, "", done.cycles) if ended == "ok" else (ended, done.message, None)

    if threads == 1:
        return [run(member) for member in members]
    with ThreadPoolExecutor(threads) as pool:
        try:
            return list(pool.map(run, members))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
