"""A comparison of FIFO sizing methods, on compiled programs and networks of stepping kernels.

Blanket depths, the peak of one unbounded run, greedy shrinking, random search and simulated
annealing are the methods of FIFOAdvisor (ASP-DAC 2026). The same runs judge all methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import exp
from random import Random

import numpy as np

from stepsim.arguments import shown
from stepsim.design import Compiled, GroupSizing, fifo_plan
from stepsim.errors import ArgError, CompileError, did_you_mean
from stepsim.reproduce.streamtensor.path_program import path_delays
from stepsim.reproduce.streamtensor.stepping_runs import (
    network_problem,
    run_network,
    solved_network,
)
from stepsim.results import ENDED
from stepsim.simulation import prepare
from stepsim.sizing import (
    Depths,
    Equalization,
    FifoNetwork,
    Found,
    Problem,
    Trials,
    depths_of_delays,
    intervals,
    lower_bounds,
    planned_depths,
)


@dataclass(frozen=True, slots=True)
class SizingRow:
    """A method and its result.

    Attributes
    ----------
    slots, bytes : totals of the sized FIFOs.
    status : of the run with these depths.
    cycles : of that run; None unless it is ok.
    slowdown : relative to unbounded FIFOs.
    runs : number of runs that the method made.
    """

    method: str
    slots: int
    bytes: int
    status: str
    cycles: int | None
    slowdown: float | None
    runs: int


@dataclass(frozen=True, slots=True)
class Task:
    """FIFOs that every method sizes.

    Attributes
    ----------
    problem : their costs and judges.
    planned : depths of the linear program, by the intervals of kernels.
    solved : computes repaired depths, shrunk by a number of runs at most.
    ended : cycles of a run with given depths; None where it does not complete.
    unbounded : cycles with unbounded FIFOs.
    published : depths of the program over paths, for networks only.
    """

    problem: Problem
    planned: Callable[[Equalization], Depths]
    solved: Callable[[int], Found]
    ended: Callable[[Depths], int | None]
    unbounded: int
    published: Callable[[], Depths] | None = None


_Method = Callable[[Task, Trials, Random, int], Depths]
"""Computes depths for a task, from its judges, random numbers and a maximum number of runs."""


def _peaks(task: Task, trials: Trials, random: Random, runs: int) -> Depths:
    trials.enough(task.problem.peaks)
    return task.problem.peaks


def greedy_depths(
    problem: Problem, trials: Trials, order: Sequence[int], runs: int | None = None
) -> Depths:
    """Shrink every FIFO in turn from its peak as far as the others allow.

    Parameters
    ----------
    order : of the FIFOs.
    runs : number of runs after which the rest stay unchanged; None is unbounded.
    """
    depths: Depths = problem.peaks.copy()
    for fifo in order:
        low, high = 1, int(depths[fifo])
        while low < high and (runs is None or trials.simulations < runs):
            tried = depths.copy()
            tried[fifo] = (low + high) // 2
            if trials.enough(tried):
                high = int(tried[fifo])
            else:
                low = int(tried[fifo]) + 1
        depths[fifo] = high
    return depths


def _greedy(task: Task, trials: Trials, random: Random, runs: int) -> Depths:
    """Greedy shrinking, FIFOs with most bytes first."""
    depths = _peaks(task, trials, random, runs)
    order = np.argsort(-depths * task.problem.weights, kind="stable").tolist()
    return greedy_depths(task.problem, trials, order, runs)


def _random(task: Task, trials: Trials, random: Random, runs: int) -> Depths:
    """Random depths up to the peaks; the cheapest that are enough."""
    problem = task.problem
    best, peaks = problem.peaks, problem.peaks.tolist()
    # A small network soon has all its choices known, and known ones need no run.
    for _ in range(10 * runs):
        if trials.simulations >= runs:
            break
        depths = np.array([random.randint(1, peak) for peak in peaks], np.int64)
        if problem.cost(depths) < problem.cost(best) and trials.enough(depths):
            best = depths
    return best


def _annealing(task: Task, trials: Trials, random: Random, runs: int) -> Depths:
    """From the peaks, change one FIFO at a time; costlier depths are accepted ever less often."""
    problem = task.problem
    best = here = problem.peaks
    warm = max(1.0, problem.cost(here) / 10)
    for step in range(runs if len(here) else 0):
        fifo = random.randrange(len(here))
        depths = here.copy()
        depths[fifo] = random.randint(1, int(problem.peaks[fifo]))
        more = problem.cost(depths) - problem.cost(here)
        heat = warm * (1 - step / runs)
        if more > 0 and random.random() >= exp(-more / heat):
            continue
        if trials.enough(depths):
            here = depths
            best = min(best, here, key=problem.cost)
    return best


def _published(task: Task, trials: Trials, random: Random, runs: int) -> Depths:
    assert task.published is not None  # left out of the table where it is
    return task.published()


def _planned(equalization: Equalization) -> _Method:
    return lambda task, trials, random, runs: task.planned(equalization)


def _solved(*, shrink: bool) -> _Method:
    def depths(task: Task, trials: Trials, random: Random, runs: int) -> Depths:
        found = task.solved(runs if shrink else 0)
        trials.simulations += found.simulations
        return found.depths

    return depths


METHODS: Mapping[str, _Method] = {
    "all T": lambda task, trials, random, runs: np.maximum(task.problem.most, 1),
    "all 2": lambda task, trials, random, runs: np.full_like(task.problem.peaks, 2),
    "peak": _peaks,
    "greedy": _greedy,
    "random": _random,
    "annealing": _annealing,
    "path lp": _published,
    "lp normal": _planned("normal"),
    "lp effective": _planned("effective"),
    "lp conservative": _planned("conservative"),
    "lp + repair": _solved(shrink=False),
    "lp + repair + shrink": _solved(shrink=True),
}
"""Methods by name."""


def method_table(
    task: Task, methods: Sequence[str] = tuple(METHODS), *, runs: int = 200, seed: int = 0
) -> tuple[SizingRow, ...]:
    """A row for every method.

    Parameters
    ----------
    runs : most runs of greedy, random search, annealing and shrinking each.
    seed : of the random numbers.

    Raises
    ------
    ArgError : there is no such method.
    """
    rows = []
    for method in methods:
        if method not in METHODS:
            near = did_you_mean(method, METHODS)
            raise ArgError(f"method_table: there is no method {shown(method)}{near}")
        if method == "path lp" and task.published is None:
            continue
        trials = Trials(task.problem.judges)
        depths = METHODS[method](task, trials, Random(seed), runs)
        cycles = task.ended(depths)
        slowdown = None if cycles is None else cycles / task.unbounded - 1
        rows.append(
            SizingRow(
                method, int(depths.sum()), task.problem.cost(depths),
                "deadlock" if cycles is None else "ok", cycles, slowdown, trials.simulations,
            )
        )  # fmt: skip
    return tuple(rows)


def network_task(network: FifoNetwork) -> Task:
    """The FIFOs of a network of stepping kernels.

    Conservative depths are the starting point of the repair: they are the smallest, and runs show
    where they are too small.
    """

    def planned(equalization: Equalization) -> Depths:
        return np.array(planned_depths(network, equalization), np.int64)

    def found(budget: int) -> Found:
        return solved_network(network, planned_depths(network, "conservative"), budget=budget)

    def published() -> Depths:
        """The published program over paths, with stand-alone intervals."""
        paces = intervals(network, "normal")
        delays = path_delays(network, lower_bounds(network, paces)).delays
        return np.array(depths_of_delays(network, [Fraction(d) for d in delays], paces), np.int64)

    def ended(depths: Depths) -> int | None:
        return run_network(network, depths).makespan

    return Task(network_problem(network), planned, found, ended, network.cycles, published)


def fifo_table(
    compiled: Compiled, group: int | None = None, *, runs: int = 100, seed: int = 0
) -> tuple[SizingRow, ...]:
    """The methods on the FIFOs of a group of a compiled model, judged by runs of its program.

    Parameters
    ----------
    group : number of the group; None is the only one.
    runs : most runs of greedy, random search and annealing each.

    Raises
    ------
    CompileError : the group has experts.
    """
    plan = compiled.plan
    made = compiled.programs[plan.group(group)]
    if made.routings:
        raise CompileError(
            f"fifo_table: group {made.group} of {plan.name} has experts, whose untyped streams "
            "the baselines cannot size; use stepsim.design.size_over_traces"
        )
    planned = fifo_plan(plan.graph, made.group, plan.measured, plan.machine)
    slowdown = float(plan.choices.get("slowdown", 0.005))
    sizing = GroupSizing(made, prepare(made.program, plan.machine), planned, slowdown)
    return method_table(_group_task(sizing), runs=runs, seed=seed)


def _group_task(sizing: GroupSizing) -> Task:
    def planned(equalization: Equalization) -> Depths:
        depths = sizing.planned("lp" if equalization == "effective" else equalization)
        assert depths is not None  # they come from rates
        return depths

    def found(budget: int) -> Found:
        most = None if budget else 0
        return sizing.runs.solved(sizing.left, budget=most, planned=planned("effective"))

    def ended(depths: Depths) -> int | None:
        (run,) = sizing.runs.run([depths])
        return int(run.cycles[0]) if run.status[0] in ENDED else None

    return Task(sizing.runs.problem(sizing.left), planned, found, ended, sizing.unbounded)
