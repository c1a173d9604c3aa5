"""``what_if``: the gains of changes to a machine, a program or its routing, by rerunning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations, product
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepsim.arguments import Range, shown
from stepsim.deferred import deferred
from stepsim.errors import ArgError, MachineError
from stepsim.explain.changes.candidates import Change, relaxations
from stepsim.explain.changes.cost import ENOUGH, cost_of, nearly_equal, ranks_of, size_of
from stepsim.explain.changes.prediction import Work, predicted_cycles
from stepsim.explain.changes.text import what_if_text
from stepsim.explain.changes.variants import combined, of_variant
from stepsim.explain.changes.whole_program import WHOLE, whole_program
from stepsim.explain.path import CriticalPath
from stepsim.explain.speed_of_light import SpeedOfLight, busiest_memory, speed_of_light
from stepsim.explain.wait_graph import WaitGraph
from stepsim.graph import Program, check_bindings
from stepsim.lowering import timing_of
from stepsim.machine import Machine
from stepsim.processes import thread_count
from stepsim.results import ENDED, field, schema
from stepsim.simulation import (
    FifoDepth,
    ImageRun,
    Limits,
    Prepared,
    Totals,
    Variant,
    as_prepared,
    check_limits,
    checked_variants,
    excess_of,
    run_all,
    variant_runs,
)

if TYPE_CHECKING:
    from stepsim.noc import Placement

pa: Any = deferred("pyarrow")

_CANDIDATES: Final = 8
"""Most changes that are tried in pairs."""

_ONE_BY_ONE: Final = 6
_MOST: Final = Range(1000, "groups of operators, and FIFOs, that are changed one by one", low=0)

_COLUMNS: Final = (
    ("place", "int64", "", "place among the changes, the best first"),
    ("change", "string", "", "name of the change"),
    ("kind", "string", "", "resource that it relaxes; combined or custom"),
    ("target", "string", "", "operators or FIFOs that it changes; empty for the machine"),
    ("description", "string", "", "what to do to have it"),
    ("buildable", "bool", "", "false for a change that only gives a bound, or no longer fits"),
    ("status", "string", "", "ok, infeasible, deadlock, failed or limit"),
    ("cycles", "int64", "cycles", "length of the run with the change; null without an end"),
    ("gain_cycles", "int64", "cycles", "by how much the run is shorter"),
    ("gain", "float64", "fraction", "gain_cycles / cycles without the change"),
    ("predicted_cycles", "int64", "cycles", "as the recorded waits predict; null without a path"),
    ("prediction_error", "float64", "fraction", "predicted_cycles / cycles - 1"),
    ("cost", "float64", "", "what it costs by the machine, in its costs.unit; null without prices"),
    ("gain_per_cost", "float64", "cycles", "gain_cycles / cost; null unless it costs something"),
)
_NEVER_NULL: Final = (
    "place", "change", "kind", "target", "description", "buildable", "status",
)  # fmt: skip


@dataclass(frozen=True)
class WhatIf:
    """Gains of changes. Made by :func:`what_if`.

    Attributes
    ----------
    program : name of the program.
    cycles : cycles of the run without a change.
    table : one row for each change, best first; columns ``place``, ``change``, ``kind``,
        ``target``, ``description``, ``buildable``, ``status``, ``cycles``, ``gain_cycles``,
        ``gain``, ``predicted_cycles``, ``prediction_error``, ``cost`` and ``gain_per_cost``.
    changes : the changes, in the order of the table.
    variants : the same as variants, by name: ``st.simulate_many(..., variants=...)`` takes them.
    cost_unit : unit of costs; None if the machine has none.
    runs : number of runs with changes, those of searches included: at most
        130 + 6 ``most``, and usually a few dozen.
    """

    program: str
    cycles: int
    table: pa.Table
    changes: tuple[Change, ...]
    variants: Mapping[str, Variant]
    cost_unit: str | None = None
    runs: int = 0

    def to_dict(self) -> dict[str, Any]:
        """All fields, as plain values for JSON."""
        return {
            "program": self.program,
            "cycles": self.cycles,
            "cost_unit": self.cost_unit,
            "runs": self.runs,
            "changes": self.table.to_pylist(),
        }

    def text(self, *, every: bool = False) -> str:
        """A table of at most 80 columns of changes that gain at least 0.1 %, or of ``every``
        change."""
        rows = self.table.to_pylist()
        return what_if_text(rows, self.program, self.cycles, self.cost_unit, every=every)

    def __str__(self) -> str:
        return self.text()


def what_if(
    program: Program | Prepared,
    machine: Machine | str | None = None,
    *,
    bindings: Mapping[Any, Any] | None = None,
    fifo_depth: FifoDepth = None,
    changes: Iterable[Variant] | None = None,
    pairs: bool | None = None,
    most: int | None = None,
    limits: Limits | None = None,
    threads: int | None = None,
    path: CriticalPath | None = None,
    place: Placement | str | PathLike[str] | None = None,
) -> WhatIf:
    """Relax each resource of a run in turn, and run the program again with every change.

    The changes are: twice the HBM bandwidth, and without limit; twice the channels; half the HBM
    latency, and none; twice the on-chip bandwidth, and without limit; twice the compute of
    operators, of all lanes such as experts together, and of all operators, and without limit; 4, 16
    and 64 times the requests per cycle of all loads and stores, and the depth of all FIFOs; all
    FIFOs unbounded; the FIFOs with the most back-pressure twice as deep, and unbounded; the fewest
    FIFOs that save nearly as much as all of them unbounded, as deep as necessary; a routing
    that gives all experts the same load; of a placed program twice the link width, and without
    limit, half the router delay and no latency of the network, one operator at another place, and
    the placement that a search finds; on several chips twice the bandwidth of the links between
    them, and without limit, and half their latency and none.

    Parameters
    ----------
    program : a finished program, or a prepared one, which already has its machine and depths.
    machine, bindings, fifo_depth, place : as in :func:`~stepsim.simulate`.
    changes : variants to try instead of these.
    pairs : also try two changes at once, except pairs that no machine can combine; by default if no
        single change gains 20 %.
    most : number of groups of operators, and of FIFOs, that are changed one by one, 6 by default;
        not allowed with ``changes``.
    limits : when to stop a run; its row then has status "limit".
    threads : runs at the same time; by default the number of processors available to this process.
    path : critical path of the same run, for predictions next to the measured cycles.

    Raises
    ------
    ArgError
        The run without a change is not ok; the path is that of another run; a machine or
        depth is given with a prepared program; or an argument is wrong.
    LoweringError
        The tokens of a run do not fit the memory of this machine.
    MachineError
        A machine is unknown or invalid.
    """
    prepared = as_prepared("what_if", program, machine, fifo_depth, place)
    where = f"program '{prepared.program.name}', what_if:"
    check_limits(where, limits)
    if most is not None and changes is not None:
        raise ArgError(
            f"{where} most={shown(most)} is for the changes that what_if makes itself, and changes "
            "are given; leave one of them out"
        )
    most = _MOST.checked(f"{where} most", _ONE_BY_ONE if most is None else most)
    count = thread_count(where, threads)
    if pairs is not None and pairs is not True and pairs is not False:
        raise ArgError(f"{where} pairs must be True, False or None, found {shown(pairs)}")
    indices = check_bindings(prepared.program, bindings)
    done = prepared.execute(indices, limits=limits, record="paces" if path is not None else False)
    if done.totals.status != "ok":
        raise ArgError(
            f"{where} changes are compared with a run with status ok, and this one has status "
            f"{done.totals.status}: {done.totals.reason}"
        )
    if path is not None:
        _check_path(where, path, done)
    asked = None
    if changes is not None:
        asked = [of_variant(one, prepared.machine) for one in checked_variants(changes)]
    return measured(
        prepared, indices, done,
        asked=asked, pairs=pairs, most=most, limits=limits, threads=count,
        recorded=None if path is None else done,
    )  # fmt: skip


def _check_path(where: str, path: object, done: ImageRun) -> None:
    """Refuse anything but a path of this run: other predictions would be meaningless."""
    how = "take that of st.explain.critical_path, of this program with these bindings and no limits"
    if not isinstance(path, CriticalPath):
        raise ArgError(f"{where} path must be a CriticalPath or None, found {shown(path)}; {how}")
    if path.status != "ok":
        raise ArgError(
            f"{where} path is that of a run that ended with {path.status}, which covers a part "
            f"of the run only; {how}"
        )
    if path.cycles != done.totals.cycles:
        raise ArgError(
            f"{where} path is that of another run, of {path.cycles:,} cycles, and this one takes "
            f"{done.totals.cycles:,}; {how}"
        )
    others = set(path.segments["operator"].unique().to_pylist()) - set(done.image.unit_names)
    if others:
        raise ArgError(
            f"{where} path is that of another program: {shown(min(others))} is not among the "
            f"operators of this one; {how}"
        )


def measured(
    prepared: Prepared,
    indices: Mapping[Any, Any],
    done: ImageRun,
    *,
    asked: Sequence[Change] | None = None,
    pairs: bool | None = None,
    most: int,
    limits: Limits | None,
    threads: int,
    recorded: ImageRun | None,
    light: SpeedOfLight | None = None,
    progress: Callable[[str], None] = lambda done: None,
) -> WhatIf:
    """Like `what_if`, for an existing run and checked arguments.

    Parameters
    ----------
    recorded : the same run, recorded with paces, for predictions.
    light : lower bounds of the run, if known.
    progress : called with the number of runs that are done, in words.
    """
    unfit = bool(excess_of(prepared, indices))
    runs = _Runs(prepared, indices, limits, threads, unfit, progress)
    if asked is None:
        asked = [
            *relaxations(prepared, indices, done, most=most, limits=limits, ran=runs.count),
            *whole_program(prepared, done),
        ]
    found = runs.of(asked)
    cycles = done.totals.cycles
    if pairs or (pairs is None and not _is_enough(found, cycles)):
        tried = runs.of(_pairs(found, prepared.machine))
        found += tried + runs.of(_lesser(tried, found, prepared.machine))
    predict = None
    if recorded is not None:
        light = light or speed_of_light(prepared, indices, done=done, limits=limits)
        predict = _predictor(prepared, recorded, light)
    return _what_if_of(prepared, done, found, runs.made, predict)


_Run = tuple[Change, Variant, Totals]


class _Runs:
    """Runs of changes of one program, made together, and their number."""

    def __init__(
        self,
        prepared: Prepared,
        indices: Mapping[Any, Any],
        limits: Limits | None,
        threads: int,
        unfit: bool,
        progress: Callable[[str], None],
    ) -> None:
        self.made = 0
        self._unfit = unfit
        self._progress = progress
        self._prepared, self._limits, self._threads = prepared, limits, threads
        self._indices = {table: array[np.newaxis] for table, array in indices.items()}

    def count(self, more: int = 1) -> None:
        """Count runs that were made elsewhere."""
        self.made += more

    def of(self, changes: Sequence[Change]) -> list[_Run]:
        """The outcome of every change; one that no longer fits the machine only gives a bound."""
        if not changes:
            return []
        self.count(len(changes))
        variants = [change.variant(self._prepared.machine) for change in changes]
        many = [
            variant_runs(self._prepared, variant, 1, self._indices, self._limits)
            for variant in variants
        ]
        outcomes = run_all(
            many, self._threads, lambda done, of: self._progress(f"{done} of {of} runs done")
        )
        totals = [each.totals(one, 0) for each, one in zip(many, outcomes, strict=True)]
        return [
            (
                replace(change, buildable=False)
                if one.status == "infeasible" and not self._unfit
                else change,
                variant,
                one,
            )
            for change, variant, one in zip(changes, variants, totals, strict=True)
        ]


def _is_enough(found: Iterable[_Run], cycles: int) -> bool:
    return any(
        change.buildable and totals.status in ENDED and cycles - totals.cycles >= ENOUGH * cycles
        for change, _, totals in found
    )


def _pairs(measured: Sequence[_Run], machine: Machine) -> list[Change]:
    """Two changes at once: those of the user, or the strongest of each kind that can be built."""
    kinds: dict[tuple[str, str], list[_Run]] = {}
    for one in measured:
        change, _, totals = one
        if change.kind == "custom":
            kinds["custom", change.name] = [one]
        elif change.buildable and totals.status in ENDED:
            # Few deep FIFOs and a program of deep FIFOs may each help where the other does not.
            whole = WHOLE if change.kind == "fifo_depth" and change.target == WHOLE else ""
            kinds.setdefault((change.kind, whole), []).append(one)
    chosen = [_strongest(runs) for runs in kinds.values()]
    pairs = [
        (one, other)
        for one, other in combinations(chosen[:_CANDIDATES], 2)
        if one.kind != other.kind or one.kind == "custom"
    ]
    return list(_combined(pairs, machine))


def _strongest(runs: Sequence[_Run]) -> Change:
    """The change of a kind that saves most; if none saves more than another, the largest one.

    Of FIFOs one by one, that is the one that stalls its producer longest.
    """
    shortest = min(runs, key=lambda run: run[2].cycles)
    change, _, totals = shortest
    if change.kind == "fifo_depth" and change.target != WHOLE:
        return change
    return next(
        one
        for one, _, other in reversed(runs)
        if nearly_equal(other.cycles / max(1, totals.cycles), 1)
    )


def _lesser(tried: Sequence[_Run], found: Sequence[_Run], machine: Machine) -> list[Change]:
    """The best of some pairs with smaller steps of its changes of the whole program."""
    ended = [one for one in tried if one[0].buildable and one[2].status in ENDED]
    if not ended:
        return []
    best = min(ended, key=lambda run: run[2].cycles)[0]
    parts = [change for change, _, _ in found if change.name in best.parts]
    steps = [
        [one for one, _, _ in found if part.target == WHOLE == one.target and one.kind == part.kind]
        or [part]
        for part in parts
    ]
    pairs = [
        pair for pair in product(*steps) if [one.name for one in pair] != [p.name for p in parts]
    ]
    return list(_combined(pairs, machine))


def _combined(pairs: Iterable[Sequence[Change]], machine: Machine) -> Iterator[Change]:
    for pair in pairs:
        with suppress(MachineError):  # two machines that cannot be combined
            yield combined(machine, *pair)


def _what_if_of(
    prepared: Prepared,
    done: ImageRun,
    found: Sequence[_Run],
    made: int,
    predict: Callable[[Change], int | None] | None,
) -> WhatIf:
    cycles = done.totals.cycles
    rows = []
    for change, _, totals in found:
        after = totals.cycles if totals.status in ENDED else None
        gain = None if after is None else cycles - after
        cost, guess = cost_of(prepared, change), predict(change) if predict else None
        rows.append(
            {
                "change": change.name, "kind": change.kind, "target": change.target,
                "description": change.apply, "buildable": change.buildable,
                "status": totals.status, "cycles": after, "gain_cycles": gain,
                "gain": None if gain is None or not cycles else gain / cycles,
                "predicted_cycles": guess,
                "prediction_error": guess / after - 1 if guess is not None and after else None,
                "cost": cost,
                "gain_per_cost": gain / cost if gain is not None and cost and cost > 0 else None,
            }
        )  # fmt: skip
    places = ranks_of(rows, [size_of(change) for change, _, _ in found])
    order = sorted(range(len(rows)), key=places.__getitem__)
    columns = [field(*one) for one in _COLUMNS]
    form = schema("what_if", columns, _NEVER_NULL)
    table = pa.Table.from_pylist([{**rows[i], "place": places[i]} for i in order], schema=form)
    costs = prepared.machine.costs
    return WhatIf(
        prepared.program.name,
        cycles,
        table,
        tuple(found[i][0] for i in order),
        {found[i][1].name: found[i][1] for i in order},
        None if costs is None else costs.unit,
        made,
    )


def _predictor(
    prepared: Prepared, recorded: ImageRun, light: SpeedOfLight
) -> Callable[[Change], int | None]:
    """A function that predicts the cycles of a change from the waits of the run."""
    waits = WaitGraph(recorded, prepared.timing)
    parts = (light.work[name].tolist() for name in ("compute", "onchip", "neither"))
    each = zip(recorded.tables().unit_columns["busy"].tolist(), *parts, strict=True)
    names = recorded.image.unit_names
    works = {name: Work(*cycles) for name, cycles in zip(names, each, strict=True)}
    _, requests = busiest_memory(prepared, recorded)

    def predict(change: Change) -> int | None:
        machine = change.variant(prepared.machine).machine or prepared.machine
        after = timing_of(machine)  # type: ignore[arg-type]
        return predicted_cycles(waits, change, after, works, requests)

    return predict
