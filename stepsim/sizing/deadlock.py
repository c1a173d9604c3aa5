"""``fix_deadlock``: the least FIFO depths with which a deadlocked program runs to completion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from itertools import combinations_with_replacement
from math import comb
from os import PathLike
from typing import Any, Final, Literal

import numpy as np

from stepsim.arguments import Range, counted, is_number, shown
from stepsim.errors import ArgError
from stepsim.graph import Program, check_bindings
from stepsim.machine import Machine
from stepsim.results import Diagnosis, flows_text
from stepsim.simulation import (
    FifoDepth,
    ImageRun,
    Limits,
    Prepared,
    Rerun,
    as_prepared,
    check_limits,
    save_fix,
)
from stepsim.sizing.deadlock_runs import DeadlockRuns, order_matters
from stepsim.sizing.judge import Depths, SearchEnded
from stepsim.sizing.search import Search
from stepsim.typed import typed

_SHARE_OF_PROOF: Final = 0.75
"""Share of the runs and the time after which the search turns to depths for full speed."""

_MOST_LISTED: Final = 6
_MOST_RUNS: Final = 4000
_MOST_SECONDS: Final = 60.0
_RUNS: Final = Range(2**31 - 1, "that a search may make")


@dataclass(frozen=True, slots=True)
class DeadlockFix:
    """The least change of FIFO depths that resolves a deadlock. Made by :func:`fix_deadlock`.

    Attributes
    ----------
    program : name of the program.
    status : "no deadlock", "fixed", "no depth helps", or "not found" where the search ended early.
    diagnosis : why the run got stuck; None for a run that does not get stuck.
    depths : depths of the FIFOs that must be deeper, by name; empty unless fixed.
    added : total number of tokens that these FIFOs hold more than now.
    is_least : whether it is proved that no smaller number of added tokens resolves the deadlock.
    cycles : length of the run with these depths; None where no depths help.
    consumers : the unit that receives from each FIFO that is named in the depths.
    full_speed : depths of all FIFOs that must be deeper for the run to be as fast as with
        unbounded FIFOs, by name; empty where the search ended before that.
    full_speed_is_minimal : with any one of these FIFOs one token less deep, and the others as they
        are, the run takes longer. False where the search ended before that was shown for all.
    unbounded_cycles : length of the run with all FIFOs unbounded; None where it is not ok.
    reason : why no depth helps, or why the search ended early; else empty.
    runs : how many runs the search took.
    rerun : the run that got stuck; None in other processes.
    """

    program: str
    status: Literal["no deadlock", "fixed", "no depth helps", "not found"]
    diagnosis: Diagnosis | None = None
    depths: Mapping[str, int] = field(default_factory=dict)
    added: int = 0
    is_least: bool = False
    cycles: int | None = None
    full_speed: Mapping[str, int] = field(default_factory=dict)
    full_speed_is_minimal: bool = False
    unbounded_cycles: int | None = None
    reason: str = ""
    runs: int = 0
    consumers: Mapping[str, str] = field(default_factory=dict)
    rerun: Rerun | None = field(default=None, repr=False, compare=False)

    @typed
    def save(self, path: str | PathLike[str]) -> None:
        """Write the least fix, for ``fix=`` of :func:`simulate` and ``--fix`` of ``stepsim run``.

        The program with the fix takes exactly ``cycles``.

        Raises
        ------
        ArgError
            No depths end the deadlock, or the fix was found in another process.
        OutputError
            The file cannot be written.
        """
        if self.status != "fixed":
            raise ArgError(f"program '{self.program}': nothing to write; {self.sentences[0]}")
        if self.rerun is None:
            raise ArgError(
                f"program '{self.program}': writing the fix needs the program, which other "
                "processes do not have; save it where it was found"
            )
        base = self.rerun.prepared
        about = {"change": "the least fix of a deadlock", "cycles": [self.cycles]}
        save_fix(path, base.changed(fifo_depths=self.depths), base, about)

    def to_dict(self) -> dict[str, Any]:
        """All fields except the diagnosis, as plain values for JSON."""
        without = ("program", "diagnosis", "rerun")
        names = [one.name for one in fields(self) if one.name not in without]
        found = {name: getattr(self, name) for name in names}
        named = ("depths", "full_speed", "consumers")
        return {**found, **{name: dict(getattr(self, name)) for name in named}}

    @property
    def sentences(self) -> tuple[str, ...]:
        """The fix in words, without the diagnosis."""
        if self.status == "no deadlock":
            return (f"{self.program} does not deadlock",)
        if self.status == "no depth helps":
            return (f"no FIFO depth resolves this deadlock: {self.reason}",)
        if self.status == "not found":
            return (f"no fix found in {counted(self.runs, 'run')}: {self.reason}",)
        least = "least fix" if self.is_least else f"fix, not proved to be the least ({self.reason})"
        lines = [
            f"{least}: {counted(self.added, 'more token')}, {self._listed(self.depths)}; the run "
            f"then takes {self.cycles:,} cycles"
        ]
        unbounded = f"{self.unbounded_cycles:,} cycles, as with all FIFOs unbounded"
        if not self.full_speed:
            lines.append(f"full speed: {unbounded}; run `stepsim size` to find depths for it")
        elif self.full_speed == self.depths:
            lines.append("this is full speed: deeper FIFOs make it no faster")
        else:
            more = "" if self.full_speed_is_minimal else "; smaller depths may do"
            lines.append(f"full speed: {unbounded}, with {self._listed(self.full_speed)}{more}")
        return tuple(lines)

    def _listed(self, depths: Mapping[str, int]) -> str:
        """``x -> add of depth 8``, with the name of a FIFO that is alone, and lanes as one."""
        by_depth: dict[int, list[tuple[str, str]]] = {}
        for fifo, depth in depths.items():
            by_depth.setdefault(depth, []).append((fifo, self.consumers.get(fifo, "?")))
        parts = []
        for depth, fifos in by_depth.items():
            name = f" ('{fifos[0][0]}')" if len(fifos) == 1 else ""
            parts.append(f"{flows_text(fifos, _MOST_LISTED)}{name} of depth {depth:,}")
        more = len(parts) - _MOST_LISTED
        shown = parts if more <= 0 else [*parts[:_MOST_LISTED], f"{more} more depths"]
        return " and ".join(shown)

    def __str__(self) -> str:
        diagnosis = () if self.diagnosis is None else (str(self.diagnosis),)
        return "\n".join((*diagnosis, *self.sentences))


def fix_deadlock(
    program: Program | Prepared,
    machine: Machine | str | None = None,
    *,
    bindings: Mapping[Any, Any] | None = None,
    fifo_depth: FifoDepth = None,
    limits: Limits | None = None,
    max_runs: int = _MOST_RUNS,
    max_seconds: float | None = _MOST_SECONDS,
) -> DeadlockFix:
    """Find the fewest added FIFO slots with which a deadlocked program runs to completion.

    Depths are found by running the program, and every returned depth has been run. The number of
    runs for a FIFO grows with the logarithm of its depth. FIFOs in a row with one-to-one
    operators between them count as one, the first; other FIFOs that can substitute for each other
    take up to one search per token.

    Parameters
    ----------
    program : a finished program, or a prepared one, which has its machine and depths already.
    machine, bindings, fifo_depth, limits : as in :func:`~stepsim.simulate`; the limits
        apply to every run.
    max_runs, max_seconds : limits of the whole search; None leaves its time unbounded. At a limit
        the result so far is returned, with ``is_least`` or ``full_speed_is_minimal`` False, or the
        status "not found".

    Raises
    ------
    ArgError
        The run ends with a failure or at a limit instead of a deadlock, an argument is wrong, or
        a machine or depth is given with a prepared program.
    LoweringError, MachineError
        As :func:`~stepsim.simulate`.

    Example
    -------
    >>> with st.Program("center", compute_bw=1024, fifo_depth=2) as program:
    ...     x = st.linear_load(st.spec(64, 512), tile=(16, 64))
    ...     total = x.accum(st.fn.add, rank=1)
    ...     st.map(st.fn.add, x, total.unsqueeze(0).expand(8)).consume()
    >>> st.fix_deadlock(program).depths
    {'linear_load#0>1': 8}
    """
    program = as_prepared("fix_deadlock", program, machine, fifo_depth)
    name = program.program.name
    where = f"program '{name}', fix_deadlock:"
    check_limits(where, limits)
    max_runs = _RUNS.checked(f"{where} max_runs", max_runs)
    if max_seconds is not None and not (is_number(max_seconds) and 0 < max_seconds < math.inf):
        raise ArgError(f"{where} max_seconds must be a number above 0, found {shown(max_seconds)}")
    indices = check_bindings(program.program, bindings)
    first = program.execute(indices, limits=limits)
    status = first.totals.status
    if status == "ok":
        return DeadlockFix(name, "no deadlock", cycles=first.totals.cycles, runs=1)
    if status != "deadlock":
        raise ArgError(
            f"{where} the run ends with {status}, not with a deadlock: {first.totals.reason}"
        )
    return fix_of(program, indices, first, limits, max_runs, max_seconds)


def fix_of(
    prepared: Prepared,
    bindings: Mapping[Any, Any] | None,
    first: ImageRun,
    limits: Limits | None = None,
    max_runs: int = _MOST_RUNS,
    max_seconds: float | None = _MOST_SECONDS,
) -> DeadlockFix:
    """As `fix_deadlock`, for a ``first`` run that ended in a deadlock."""
    indices = check_bindings(prepared.program, bindings)
    runs = DeadlockRuns(prepared, indices, limits, max_runs, max_seconds)
    runs.made = 1
    found = _found(runs, prepared.program.name, first, order_matters(prepared))
    readers = {fifo: unit.name for unit in prepared.wiring.units for fifo in unit.inputs}
    named = dict.fromkeys([*found.depths, *found.full_speed])
    consumers = {name: readers[prepared.fifo_numbers[name]] for name in named}
    return replace(found, runs=runs.made, consumers=consumers, rerun=Rerun(prepared, indices))


def _found(runs: DeadlockRuns, name: str, first: ImageRun, by_arrival: bool) -> DeadlockFix:
    firsts = list(dict.fromkeys(runs.rows.values()))
    try:
        free = runs.executed(dict.fromkeys(runs.depths))
        if free.totals.status != "ok":
            reason = _hopeless(free)
            return DeadlockFix(name, "no depth helps", first.diagnosis, reason=reason)
        search = runs.search(firsts, free)
        enough = search.repaired(np.array([runs.depths[one] for one in firsts]), runs.left)
    except SearchEnded as ended:
        return DeadlockFix(name, "not found", first.diagnosis, reason=str(ended))
    least, reason = False, ""
    runs.spend(_SHARE_OF_PROOF)
    try:
        search.prove_least(enough)
        least = _is_least_of_all(search, runs) if by_arrival else search.proved
    except SearchEnded as ended:
        reason = str(ended)
    runs.spend(1)
    depths = _deeper(runs, firsts, search.best)
    added = sum(depth - runs.depths[one] for one, depth in depths.items())
    (cycles,) = search.trials.trial(search.best).cycles
    fix = DeadlockFix(
        name, "fixed", first.diagnosis, depths, added, least, cycles,
        unbounded_cycles=free.totals.cycles, reason=reason,
    )  # fmt: skip
    fast, minimal = _full_speed(runs, free, depths)
    return replace(fix, full_speed=fast, full_speed_is_minimal=minimal)


def _is_least_of_all(search: Search, runs: DeadlockRuns) -> bool:
    """Try all choices with fewer tokens than the best; results depend on the order of arrival."""
    floors = search.problem.floors
    assert floors is not None
    fewer = search.problem.cost(search.best - floors) - 1
    if comb(len(floors) + fewer, fewer) > runs.left:
        raise SearchEnded("the result depends on which token arrives first")
    for tokens in range(1, fewer + 1):
        for fifos in combinations_with_replacement(range(len(floors)), tokens):
            depths = floors + np.bincount(fifos, minlength=len(floors))
            if search.trials.enough(depths):
                search.best = depths
                return True
    return True


def _full_speed(
    runs: DeadlockRuns, free: ImageRun, depths: Mapping[str, int]
) -> tuple[dict[str, int], bool]:
    """Depths with which the run is as fast as with unbounded FIFOs, and whether all are needed.

    Starting from unbounded FIFOs, as many as possible return to ``depths`` or to their present
    depth, and the others go as low as they can, the last ones first: a token may be worth several
    further down. Then each is reduced until none can be reduced further. The result is empty where
    the search ended before that.
    """
    names = list(runs.depths)
    search = runs.search(names, free, free.totals.cycles)
    own = search.problem.floors
    assert own is not None
    minimal = found = False
    with suppress(SearchEnded):
        back = np.array([depths.get(name, runs.depths[name]) for name in names])
        search.make_small_in_parts(back, range(len(names))[::-1])
        found = True
        while not minimal:
            before = search.best
            search.make_small(own)
            minimal = bool((search.best == before).all())
    return (_deeper(runs, names, search.best) if found else {}), minimal


def _deeper(runs: DeadlockRuns, names: Sequence[str], depths: Depths) -> dict[str, int]:
    """The FIFOs that are deeper than in the program."""
    pairs = zip(names, depths.tolist(), strict=True)
    return {name: depth for name, depth in pairs if depth > runs.depths[name]}


def _hopeless(free: ImageRun) -> str:
    """Why a run with unbounded FIFOs is not ok."""
    stuck = free.diagnosis
    assert stuck is not None  # every run that is not ok has one
    if stuck.failures:
        return f"with all FIFOs unbounded, {stuck.failures[0]}"
    if stuck.status != "deadlock":
        return f"with all FIFOs unbounded, {stuck.summary}"
    if stuck.circular_wait:
        waits = "; ".join(str(wait) for wait in stuck.circular_wait)
        several = "a circular wait for tokens"
        who = several if len(stuck.circular_wait) > 1 else "an operator waits for its own token"
        return f"with all FIFOs unbounded, {who}: {waits}"
    return f"with all FIFOs unbounded, a unit waits for a token never sent: {stuck.waits[0]}"
