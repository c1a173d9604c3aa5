"""``tune``: choose designs, simulate them, learn from the outcomes, and repeat.

A search is a function of its specification: the same outcomes lead to the same choices. To continue
one, it is repeated from the start, but designs in the store are not simulated again. So nothing
but rows has to survive a kill, and Optuna's study stays in memory.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stepsim.simulation import ensure_compiled
from stepsim.sweep.backends import Backend
from stepsim.sweep.running.run import (
    check_backend,
    check_jobs,
    close_backend,
    start_backend,
    sum_up,
)
from stepsim.sweep.running.signals import ended_by_signals
from stepsim.sweep.search.judging import Judge, is_violation
from stepsim.sweep.search.proposals import make_proposals
from stepsim.sweep.search.space import Place, Space
from stepsim.sweep.search.spec import TuneSpec
from stepsim.sweep.search.trials import Refused, TrialPlanner, Trials
from stepsim.sweep.spec.problems import listing
from stepsim.sweep.spec.reading import read_spec
from stepsim.sweep.storage.digests import MANIFEST
from stepsim.sweep.storage.manifest import load_manifest
from stepsim.sweep.storage.saving import Saving
from stepsim.sweep.storage.store import Store
from stepsim.typed import typed


@dataclass(frozen=True, slots=True)
class TuneProgress:
    """Progress of a search: the number of judged designs, and of designs on the front.

    ``seconds`` is the time since this start.
    """

    trials: int
    limit: int
    front: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Trial:
    """A design that was simulated.

    Attributes
    ----------
    number : of the design in the tables of the folder.
    design : its values by axis.
    values : its values by objective; empty if it failed.
    violated : constraints that it does not satisfy.
    failure : why it cannot be judged; empty if it can.
    pareto_optimal : no design that satisfies all constraints is at least as good in every objective
        and better in one.
    """

    number: int
    design: Mapping[str, Any]
    values: Mapping[str, float]
    violated: tuple[str, ...] = ()
    failure: str = ""
    pareto_optimal: bool = False


@dataclass(frozen=True, slots=True)
class Tuning:
    """Outcome of a search.

    Attributes
    ----------
    objectives : the objectives by which designs were judged.
    trials : designs that were simulated, in the order in which they were chosen.
    space : number of points of the space.
    refused : reason by design, for designs that cannot be built or violate a constraint on axes.
    computed : number of runs of this start; the others were stored already.
    unfinished : reason by chunk that lost its worker again and again.
    seconds : time of this start.
    """

    objectives: tuple[str, ...]
    trials: tuple[Trial, ...]
    space: int
    refused: Mapping[str, str]
    computed: int
    unfinished: Mapping[str, str]
    seconds: float

    @property
    def front(self) -> tuple[Trial, ...]:
        """The Pareto-optimal designs, the best in the first objective first."""
        best = [trial for trial in self.trials if trial.pareto_optimal]
        return tuple(sorted(best, key=lambda trial: trial.values[self.objectives[0]]))

    @typed
    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@typed
def tune(
    spec: TuneSpec | Mapping[str, Any] | str | Path,
    out: str | Path,
    *,
    jobs: int = 1,
    backend: str | Backend = "local",
    address: str | None = None,
    resume: bool = False,
    progress: Callable[[TuneProgress], None] | None = None,
) -> Tuning:
    """Search a design space into a folder, which is that of a sweep of the chosen designs.

    Which designs are chosen depends on the specification alone: neither on ``jobs``, nor on the
    backend, nor on how often the search was interrupted.

    Parameters
    ----------
    spec : YAML file or mapping: a sweep with a section ``search``.
    out, jobs, backend, address, resume : as in :func:`run_sweep`. A folder may also be continued
        with another ``search``, other axes, or more trials: what it holds is not run again.
    progress : called after every batch.

    Raises
    ------
    SweepError
        The specification is wrong, the folder holds something else, or Optuna is missing.
    OutputError, WorkerError, Ended
                As in :func:`run_sweep`.
    """
    begin = time.perf_counter()
    planner = TrialPlanner(read_spec(spec, TuneSpec))
    check_jobs(jobs)
    if isinstance(backend, str):
        check_backend(backend, address)
    trials = Trials(planner)
    if resume and (Path(out) / MANIFEST).exists():
        for design in load_manifest(Path(out)).get("designs", {}).values():
            trials.add(design)
    with ended_by_signals(), ExitStack() as closing:
        search = _Search(planner, trials)
        first = search.choose()
        if first is None:
            raise planner.refusal(search.nothing_left())
        store = Store(Path(out), trials.plan())
        store.check(resume=resume)
        if isinstance(backend, str):
            backend = start_backend(backend, jobs, address)
            closing.callback(close_backend, backend)
        ensure_compiled()
        closing.enter_context(store.open(resume=resume))
        trials.take_saved(store)
        saving = Saving(trials.plan(), store)
        computed = 0
        unfinished: dict[str, str] = {}
        batch: list[int] | None = first
        while batch is not None:
            plan = trials.plan()
            store.extend(plan)
            saving.extend(plan)
            before = saving.left
            unfinished |= trials.run(saving, backend)
            computed += before - saving.left
            search.learn(batch)
            if progress is not None:
                seconds = time.perf_counter() - begin
                progress(TuneProgress(len(search.judged), search.limit, search.front(), seconds))
            batch = search.choose()
        summary = sum_up(trials.plan(), store, unfinished, computed, begin)
        return Tuning(
            search.judge.objectives,
            search.outcome(),
            search.space.count,
            search.refused,
            computed,
            summary.unfinished,
            time.perf_counter() - begin,
        )


class _Search:
    """The loop without the folder: the next designs, and their outcomes."""

    def __init__(self, planner: TrialPlanner, trials: Trials) -> None:
        options = planner.spec.search
        self.space = Space.of(planner.spec.grid)
        self.judge = Judge(planner)
        self.limit = options.trials
        self.refused: dict[str, str] = {}
        self.judged: dict[int, Place | None] = {}
        """Designs of this search by number."""
        self._trials = trials
        self._listed = [dict(point) for point in planner.spec.points]
        self._batch = options.batch
        self._proposals = make_proposals(
            options.sampler,
            self.space,
            len(self.judge.objectives),
            seed=options.seed,
            batch=options.batch,
        )

    def choose(self) -> list[int] | None:
        """Numbers of the next designs to simulate; None when the search is over."""
        while len(self.judged) < self.limit:
            count = min(self._batch, self.limit - len(self.judged))
            listed, self._listed = self._listed[:count], self._listed[count:]
            chosen = [(design, self.space.place(design)) for design in listed] or [
                (self.space.design(place), place) for place in self._proposals.batch(count)
            ]
            if not chosen:
                return None
            batch = [n for design, place in chosen if (n := self._add(design, place)) is not None]
            if batch:
                return batch
        return None

    def nothing_left(self) -> str:
        """Why there is nothing to simulate: the number of designs refused for each reason."""
        counts = Counter(self.refused.values())
        reasons = [f"{reason}: {count:,} designs" for reason, count in counts.most_common()]
        key = "search.constraints" if all(map(is_violation, counts)) else "grid"
        return (
            f"{key}: none of the {len(self.refused):,} designs that were proposed can be "
            f"simulated; change the axes or the constraints:{listing(reasons)}"
        )

    def learn(self, batch: list[int]) -> None:
        """Report the outcomes of designs to the sampler."""
        for number in batch:
            self._tell(number, self.judged[number])

    def front(self) -> int:
        return sum(trial.pareto_optimal for trial in self.outcome())

    def outcome(self) -> tuple[Trial, ...]:
        """All designs of this search that were judged."""
        best = set(self.judge.front(self._trials, list(self.judged)))
        found = []
        for number in self.judged:
            judgment = self.judge.of(self._trials, number)
            found.append(
                Trial(
                    number,
                    self._trials.designs[number],
                    judgment.values,
                    judgment.violated,
                    judgment.failure,
                    number in best,
                )
            )
        return tuple(found)

    def _add(self, design: Mapping[str, Any], place: Place | None) -> int | None:
        """Add a design; None if it cannot be run, or is in this search already."""
        reason = self.judge.refusal(design)
        number = Refused(reason) if reason else self._trials.add(design)
        if isinstance(number, Refused):
            name = ", ".join(f"{key}={value}" for key, value in design.items())
            self.refused[name] = number.reason
            if place is not None:
                self._proposals.learn(place, None, allowed=False)
            return None
        if number in self.judged:
            self._tell(number, place)
            return None
        self.judged[number] = place
        return number

    def _tell(self, number: int, place: Place | None) -> None:
        if place is None:
            return
        judgment = self.judge.of(self._trials, number)
        self._proposals.learn(place, judgment.costs, allowed=not judgment.violated)
