"""Members of an ensemble: drawn by seed, run in addition to the nominal run, and collected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from stepsim.arguments import Range
from stepsim.ensembles.disturbances import Disturbance, bounds_of, checked_bounds
from stepsim.ensembles.ensemble import Ensemble
from stepsim.errors import ArgError
from stepsim.processes import thread_count

_MEMBERS: Final = Range(1024, "of an ensemble")
_SEED: Final = Range(2**128 - 1, "that members are drawn by", low=0)

_What = TypeVar("_What")


class Ending(NamedTuple):
    """How a run ended: its status, its cycles if that is ``ok``, and else the reason."""

    status: str
    reason: str
    cycles: int | None


def check_members(
    where: str, entries: Sequence[Disturbance], *, runs: int, seed: int, bounds: object
) -> None:
    """Check the arguments of an ensemble as far as they can be checked without the program.

    Raises
    ------
    ArgError : an argument is of the wrong type or out of range, or a disturbance is unknown.
    """
    _MEMBERS.checked(f"{where} runs", runs)
    _SEED.checked(f"{where} seed", seed)
    checked_bounds(entries, bounds, f"{where} bounds")


def disturbed_runs(
    program: str,
    machine: str,
    what: _What,
    entries: Sequence[Disturbance],
    run: Callable[[Sequence[_What], int], Sequence[Ending]],
    *,
    runs: int,
    seed: int = 0,
    bounds: Mapping[str, int | tuple[int, int]] | None = None,
    threads: int | None = None,
) -> Ensemble:
    """Run a program and disturbed copies of it.

    Parameters
    ----------
    program, machine : names, for messages and the ensemble.
    what : is run as it is, and with the changes that are drawn for each member.
    entries : all disturbances, in the order in which changes are applied.
    run : runs all of a list on some number of threads.
    runs : number of members, in addition to the nominal run.
    seed : seed of the members.
    bounds : least and largest change by name; None for those of the entries.
    threads : number of threads; None for as many as this process may use.

    Raises
    ------
    ArgError : an argument is of the wrong type or out of range, a disturbance does not apply, or
        the nominal run does not succeed.
    """
    where = f"program '{program}', ensemble:"
    runs = _MEMBERS.checked(f"{where} runs", runs)
    seed = _SEED.checked(f"{where} seed", seed)
    count = thread_count(where, threads)
    chosen = bounds_of(entries, bounds, f"{where} bounds", what)
    members = []
    for number in range(runs):
        member = what
        for one, pair in chosen.items():
            member = one.apply(member, one.drawn(seed, number, pair, what))
        members.append(member)
    nominal, *others = run([what, *members], count)
    if nominal.status != "ok" or nominal.cycles is None:
        raise ArgError(
            f"{where} the nominal run ended with status {nominal.status}, so that there is nothing "
            f"to compare disturbed runs with: {nominal.reason}"
        )
    return Ensemble(
        program,
        machine,
        nominal.cycles,
        tuple(one.cycles for one in others),
        tuple(one.status for one in others),
        seed,
        {one.name: pair for one, pair in chosen.items()},
        {one.name: one.about for one in chosen},
    )
