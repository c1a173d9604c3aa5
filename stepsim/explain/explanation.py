"""Why a run takes as long as it does, and which changes would shorten it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepsim.explain.changes.runs import WhatIf, measured
from stepsim.explain.changes.suggestions import Suggestion, suggestions
from stepsim.explain.path import CriticalPath, path_of, port_names
from stepsim.explain.speed_of_light import SpeedOfLight, speed_of_light
from stepsim.explain.text import explanation_text
from stepsim.explain.verdict import Verdict, unfinished, verdict_of
from stepsim.graph import Program, check_bindings
from stepsim.machine import Machine
from stepsim.processes import usable_cpus
from stepsim.results import ENDED, Diagnosis, StallTree, place_of, stall_tree
from stepsim.simulation import (
    FifoDepth,
    ImageRun,
    Limits,
    Prepared,
    Rerun,
    excess_of,
    prepare,
)
from stepsim.sizing import DeadlockFix, fix_of

if TYPE_CHECKING:
    from stepsim.noc import Placement

_ONE_BY_ONE: Final = 3
"""Number of groups of operators, and of FIFOs, that are changed one by one."""
_FIX_SECONDS: Final = 20.0
"""Time limit for the least fix of a deadlock; `fix_deadlock` has no limit by default."""


@dataclass(frozen=True)
class Why:
    """What bounds a run, where its cycles went, and which changes were measured to help.

    ``str(...)`` is a text of at most 80 columns, the verdict first.

    Attributes
    ----------
    program, machine : names of the program and the machine.
    status, cycles : of the run.
    verdict : the verdict in one sentence.
    speed_of_light : lower bounds from each resource alone; None for a run that is not ok.
    stalls : where the cycles went.
    suggestions : changes of `what_if` that help and can be built, the best one first; empty for a
        run that is not ok.
    path : the critical path; None for a run that is not ok, unless it was requested, and if a
        limit stopped the recorded run.
    diagnosis : diagnosis of a run that is not ok.
    what_if : all changes that were tried; None for a run that is not ok.
    fix : for a deadlock, the fewest additional slots that resolve it, or why no depth does.
    """

    program: str
    machine: str
    status: str
    cycles: int
    verdict: Verdict
    speed_of_light: SpeedOfLight | None
    stalls: StallTree
    suggestions: tuple[Suggestion, ...]
    path: CriticalPath | None = None
    diagnosis: Diagnosis | None = None
    what_if: WhatIf | None = None
    fix: DeadlockFix | None = None

    def to_dict(self) -> dict[str, Any]:
        """All fields, as plain values for JSON."""
        light = self.speed_of_light
        return {
            "program": self.program,
            "machine": self.machine,
            "status": self.status,
            "cycles": self.cycles,
            "verdict": self.verdict.to_dict(),
            "speed_of_light": None if light is None else light.to_dict(),
            "suggestions": [one.to_dict() for one in self.suggestions],
            "what_if": None if self.what_if is None else self.what_if.to_dict(),
            "path": None if self.path is None else [one._asdict() for one in _parts(self.path)],
            "stalls": self.stalls.to_dict(),
            "diagnosis": None if self.diagnosis is None else self.diagnosis.to_dict(),
            "fix": None if self.fix is None else self.fix.to_dict(),
        }

    def __str__(self) -> str:
        return explanation_text(self)


def why(
    program: Program,
    machine: Machine | str = "sda-1024",
    *,
    bindings: Mapping[Any, Any] | None = None,
    fifo_depth: FifoDepth = None,
    limits: Limits | None = None,
    place: Placement | str | PathLike[str] | None = None,
) -> Why:
    """Simulate a program, and report what bounds it and what would help.

    The program is rerun a few dozen times with changes; ``suggestions`` has those that help.

    Parameters
    ----------
    program, machine, bindings, fifo_depth, place : as in :func:`stepsim.simulate`.
    limits : limits of every run.

    Returns
    -------
    Why
        A deadlock or failed run does not raise an error: it is the verdict.

    Raises
    ------
    ArgError, LoweringError, MachineError
        As for :func:`stepsim.simulate`.

    Example
    -------
    >>> with st.Program("rows") as program:
    ...     st.linear_load(st.spec(100, 32), tile=(1, 32), label="rows").consume()
    >>> st.why(program).verdict.kind
    'hbm_latency'
    """
    prepared = prepare(program, machine, fifo_depth=fifo_depth, place=place)
    return explain(prepared, bindings, limits=limits)


def explain(
    prepared: Prepared,
    bindings: Mapping[Any, Any] | None = None,
    *,
    limits: Limits | None = None,
    path: bool = False,
    progress: Callable[[str], None] = lambda done: None,
) -> Why:
    """Like `why`, for a prepared program.

    Parameters
    ----------
    path : whether to find the critical path even of a run that is not ok.
    progress : called with what is being done.
    """
    run = prepared.execute(bindings, limits=limits)
    totals, tables = run.totals, run.tables()
    stalls = stall_tree(tables.units, tables.fifos)
    about = (prepared.program.name, prepared.machine.name, totals.status, totals.cycles)

    def recorded() -> ImageRun:
        return prepared.execute(bindings, limits=limits, record="paces")

    if totals.status not in ENDED:
        assert run.diagnosis is not None  # every run that is not ok has one
        found_path = _path_of(prepared, recorded()) if path else None
        fix = None
        if totals.status == "deadlock":
            fix = fix_of(prepared, bindings, run, limits, max_seconds=_FIX_SECONDS)
        return Why(
            *about, unfinished(run.diagnosis), None, stalls, (), found_path, run.diagnosis, fix=fix
        )  # fmt: skip
    indices = check_bindings(prepared.program, bindings)
    unfit = run.diagnosis
    if unfit is None and (summary := excess_of(prepared, indices)):
        unfit = Diagnosis("infeasible", summary)
    progress("lower bounds of the run")
    light = speed_of_light(prepared, bindings, done=run, limits=limits)
    again: ImageRun | None = recorded()
    if again is not None and (again.totals.status, again.totals.cycles) != ("ok", totals.cycles):
        again = None  # a limit of wall time stopped the recorded run, and not the run itself
    progress("critical path")
    known = None if again is None else _path_of(prepared, again)
    progress("FIFOs to be changed")
    tried = measured(
        prepared, indices, run,
        most=_ONE_BY_ONE, limits=limits, threads=usable_cpus(), recorded=again, light=light,
        progress=progress,
    )  # fmt: skip
    found = suggestions(tried, Rerun(prepared, indices))
    parts = [] if known is None else _parts(known)
    verdict = verdict_of(light, tables.unit_columns, found, parts)
    name, machine, status, cycles = about
    status = status if unfit is None else unfit.status
    return Why(
        name, machine, status, cycles, verdict, light, stalls, found, known, unfit, what_if=tried
    )  # fmt: skip


def _path_of(prepared: Prepared, run: ImageRun) -> CriticalPath:
    return path_of(run, prepared.timing, port_names(prepared, run))


class _Part(NamedTuple):
    """What the critical path spends at an operator for a cause."""

    operator: str
    cause: str
    cycles: int


def _parts(path: CriticalPath) -> list[_Part]:
    """Cycles of the path by operator, without lanes, and cause; the longest first."""
    found: dict[tuple[str, str], int] = {}
    for row in path.totals().to_pylist():
        place = place_of(row["operator"])
        operator = place.operator if place.lane else row["operator"]
        key = (operator, row["cause"])
        found[key] = found.get(key, 0) + row["cycles"]
    parts = (_Part(*key, cycles) for key, cycles in found.items())
    return sorted(parts, key=lambda part: -part.cycles)
