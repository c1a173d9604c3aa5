"""Methods of sizing FIFOs side by side, each judged by runs of the program itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from stepsim.arguments import shown
from stepsim.design.search.group_sizing import GroupSizing
from stepsim.errors import ArgError, did_you_mean
from stepsim.results import ENDED
from stepsim.sizing import Depths, Judge, Trials, annealed_depths, random_depths

__all__ = ["METHODS", "SizingRow", "fifo_table"]


@dataclass(frozen=True, slots=True)
class SizingRow:
    """A method and what it gives.

    Attributes
    ----------
    slots, bytes : of the FIFOs that are sized.
    status : of the run with these depths.
    cycles : None unless it is ok.
    slowdown : against unbounded FIFOs.
    runs : that the method made.
    """

    method: str
    slots: int
    bytes: int
    status: str
    cycles: int | None
    slowdown: float | None
    runs: int


class _Judge:
    """Runs with depths, counted."""

    def __init__(self, sizing: GroupSizing) -> None:
        self.sizing, problem = sizing, sizing.problem
        target = problem.target(problem.cycles[0], sizing.left)
        self.sizes = problem.token_bytes[problem.runs.sized]
        self.trials = Trials(
            [lambda rows, limits: problem.run(rows)[0]], [target], problem.runs.sized,
            problem.runs.limits,
        )  # fmt: skip
        self.peaks: Depths = np.maximum(problem.peaks, 1)

    def enough(self, depths: Depths | Sequence[int]) -> bool:
        return self.trials.enough(np.asarray(depths, np.int64))

    def cost(self, depths: Depths | Sequence[int]) -> int:
        return int((np.asarray(depths, np.int64) * self.sizes).sum())

    @property
    def runs(self) -> int:
        return self.trials.simulations


def _greedy(judge: _Judge, random: Random, runs: int) -> Depths:
    """Every FIFO in turn as small as the others let it be, those with most bytes first."""
    depths: Depths = judge.peaks.copy()
    for fifo in np.argsort(-depths * judge.sizes, kind="stable").tolist():
        low, high = 1, int(depths[fifo])
        while low < high and judge.runs < runs:
            middle = (low + high) // 2
            tried = depths.copy()
            tried[fifo] = middle
            if judge.enough(tried):
                high = middle
            else:
                low = middle + 1
        depths[fifo] = high
    return depths


def _by(
    search: Callable[[Judge, Sequence[int], Random, int], Sequence[int]],
) -> Callable[[_Judge, Random, int], Depths]:
    def depths(judge: _Judge, random: Random, runs: int) -> Depths:
        return np.array(search(judge, judge.peaks.tolist(), random, runs), np.int64)

    return depths


def _planned(method: str) -> Callable[[_Judge, Random, int], Depths]:
    def depths(judge: _Judge, random: Random, runs: int) -> Depths:
        found = judge.sizing.planned(method)  # type: ignore[arg-type]
        assert found is not None
        return found

    return depths


def _solved(budget: int | None) -> Callable[[_Judge, Random, int], Depths]:
    def depths(judge: _Judge, random: Random, runs: int) -> Depths:
        sizing = judge.sizing
        found = sizing.problem.solved(sizing.left, budget=budget, planned=sizing.planned("lp"))
        judge.trials.simulations += found.simulations
        return found.depths

    return depths


METHODS: dict[str, Callable[[_Judge, Random, int], Depths]] = {
    "all T": lambda judge, random, runs: np.maximum(judge.sizing.problem.most, 1),
    "all 2": lambda judge, random, runs: np.full_like(judge.peaks, 2),
    "peak": lambda judge, random, runs: judge.peaks,
    "greedy": _greedy,
    "random": _by(random_depths),
    "annealing": _by(annealed_depths),
    "lp normal": _planned("normal"),
    "lp effective": _planned("lp"),
    "lp conservative": _planned("conservative"),
    "lp + repair": _solved(0),
    "lp + repair + shrink": _solved(None),
}
"""Methods by name; the menu of FIFOAdvisor (ASP-DAC 2026), and ours."""


def fifo_table(
    sizing: GroupSizing, methods: Sequence[str] = tuple(METHODS), *, runs: int = 100, seed: int = 0
) -> tuple[SizingRow, ...]:
    """A row for every method.

    Parameters
    ----------
    runs : that greedy, random search and annealing make at most.
    seed : of what is random.

    Raises
    ------
    ArgError : there is no such method.
    """
    rows = []
    for method in methods:
        if method not in METHODS:
            near = did_you_mean(str(method), METHODS)
            raise ArgError(f"fifo_table: there is no method {shown(method)}{near}")
        judge = _Judge(sizing)
        depths = METHODS[method](judge, Random(seed), runs)
        made = judge.runs
        run = sizing.problem.run([depths])[0]
        ok = run.status[0] in ENDED
        cycles = int(run.cycles[0]) if ok else None
        rows.append(
            SizingRow(
                method, int(depths.sum()), judge.cost(depths), run.status[0], cycles,
                None if cycles is None else cycles / sizing.unbounded - 1, made,
            )
        )  # fmt: skip
    return tuple(rows)
