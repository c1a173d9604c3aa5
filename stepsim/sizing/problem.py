"""What is sized: images with the sized FIFOs unbounded, and the depths that were found for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import is_number, shown
from stepsim.errors import ArgError, EvaluationError, StepSimError
from stepsim.lowering import Image, TimingParams
from stepsim.results import ENDED
from stepsim.simulation import (
    MEMORY_TAIL,
    DepthRuns,
    ImageRun,
    Limits,
    largest_tokens,
    run_depths,
    run_image,
)
from stepsim.sizing.schedule import delayed_depths, peak_depths, stamps_of
from stepsim.sizing.search import Shrinking, repaired
from stepsim.sizing.trials import Depths, Trials

if TYPE_CHECKING:
    from stepsim.kernels import Execution

__all__ = ["Found", "Problem", "Runs", "checked_slowdown"]

_EFFORT = 2e7
"""Firings of all runs of a search together, about; a small program takes few of them each."""

_FEWEST, _MOST = 80, 6000
"""Runs of a search, whatever the program. With 80 runs the FIFOs of the published decoders take 2
to 12 % more bytes than with 400, with 40 runs 4 to 17 %, and with 160 runs up to 7 %."""


@dataclass(frozen=True, slots=True)
class Found:
    """Depths of the sized FIFOs.

    Attributes
    ----------
    depths : tokens, in the order of the sized FIFOs.
    cycles : of the runs with them, by binding.
    before, simulations : runs made until depths were enough, and in all.
    proved : no smaller depths are enough, if deeper FIFOs never make a run slower.
    """

    depths: Depths
    cycles: tuple[int, ...]
    before: int
    simulations: int
    proved: bool


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Runs of one program whose FIFOs are to be sized.

    Attributes
    ----------
    name : of the program, for messages.
    images : of all runs, with the sized FIFOs unbounded.
    timing : what they were laid out for.
    sized : numbers of the FIFOs to be sized.
    alike : sized FIFOs that do the same in different places have the same number.
    bounds : bytes of a token of every FIFO, where its type tells; else 0.
    keep : FIFOs whose tokens runs keep, for ``checks``.
    checks : what may object to a run that is ok, by run.
    limits : of every run.
    """

    name: str
    images: Sequence[Image]
    timing: TimingParams
    sized: NDArray[np.int64]
    alike: NDArray[np.int64]
    bounds: NDArray[np.int64]
    checks: Sequence[Callable[[Execution], StepSimError | None] | None]
    keep: frozenset[int] = frozenset()
    limits: Limits = field(default_factory=Limits)


class Problem:
    """The search for the least depths with which all runs are in time.

    Attributes
    ----------
    cycles : of the unbounded runs.
    token_bytes : size of a token of every FIFO, at least 1.
    peaks : depths of the sized FIFOs with which the unbounded runs are the same.
    most : depths that are as good as unbounded.

    Raises
    ------
    EvaluationError
        An unbounded run is not ok.
    """

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        made = [self._unbounded(number) for number in range(len(runs.images))]
        self._stamps = [stamps_of(run) for run in made]
        self.cycles = tuple(run.totals.cycles for run in made)
        sizes = runs.bounds
        if not (sizes > 0).all():
            largest = np.max([largest_tokens(run) for run in made], 0)
            sizes = np.where(sizes > 0, sizes, largest)
        self.token_bytes = np.maximum(sizes, 1)
        peaks = np.max([peak_depths(stamps) for stamps in self._stamps], 0)
        sent = [[len(times) for times in stamps.sent] for stamps in self._stamps]
        self.peaks = peaks[runs.sized]
        self.most = np.maximum(np.max(sent, 0), peaks)[runs.sized]
        steps = sum(run.totals.engine_steps for run in made)
        self._budget = int(np.clip(_EFFORT / (steps + 1000), _FEWEST, _MOST))

    def solved(
        self,
        slowdown: float,
        start: Depths | None = None,
        budget: int | None = None,
        planned: Depths | None = None,
    ) -> Found:
        """The least depths with which no run takes longer than ``1 + slowdown`` times unbounded.

        Parameters
        ----------
        start : depths that are enough, to begin with if they are smaller than what is planned.
        budget : runs that shrinking makes at most.
        planned : depths that are repaired and shrunk, in place of those of the linear programs.
        """
        targets = [self.target(cycles, slowdown) for cycles in self.cycles]
        runs, made = self.runs, len(self.runs.images)
        trials = Trials(self._runners(), targets, runs.sized, runs.limits)
        sizes = self.token_bytes[runs.sized]
        if planned is None:
            planned = self._planned(targets)
        depths = repaired(trials, planned, self.peaks, self.most)
        before = trials.simulations
        if start is not None and (start * sizes).sum() < (depths * sizes).sum():
            depths = start if trials.enough(start) else depths
        budget = self._budget if budget is None else budget
        shrinking = Shrinking(trials, sizes, self.most, runs.alike, budget)
        depths = shrinking.least(depths)
        last = trials.trial(depths)
        if not last.enough:
            raise EvaluationError(
                f"program '{runs.name}': not decided which depths are enough: a run reaches one "
                "of the limits; raise it"
            )
        return Found(
            depths,
            last.cycles,
            made + before,
            made + trials.simulations,
            shrinking.proved and not self._is_cut(max(targets)),
        )

    def _is_cut(self, target: int) -> bool:
        """Whether a run may have ended at a limit that is not the target."""
        limits = self.runs.limits
        others = limits.max_steps is not None or limits.max_wall_seconds is not None
        return others or (limits.max_cycles is not None and limits.max_cycles < target)

    @staticmethod
    def target(cycles: int, slowdown: float) -> int:
        """Cycles that a run may take."""
        return int(min(cycles * (1 + slowdown) + 1e-9, 2.0**61))

    def run(self, depths: Sequence[Depths]) -> list[DepthRuns]:
        """Run all bindings with depths of the sized FIFOs, however long it takes."""
        return [runner(depths, self.runs.limits) for runner in self._runners()]

    def _planned(self, targets: Sequence[int]) -> Depths:
        """What the linear programs of all runs need."""
        sized = self.runs.sized
        fixed = self.runs.images[0].channels["cap"].copy()
        fixed[sized] = 0
        planned = [
            delayed_depths(stamps, fixed, self.token_bytes, target, MEMORY_TAIL)
            for stamps, target in zip(self._stamps, targets, strict=True)
        ]
        found: Depths = np.max(planned, 0)[sized]
        return found

    def _runners(self) -> list[Callable[[Sequence[Depths], Limits], DepthRuns]]:
        return [self._runner(number) for number in range(len(self.runs.images))]

    def _runner(self, number: int) -> Callable[[Sequence[Depths], Limits], DepthRuns]:
        runs, sized = self.runs, self.runs.sized.tolist()

        def run(choices: Sequence[Depths], limits: Limits) -> DepthRuns:
            rows = [dict(zip(sized, depths.tolist(), strict=True)) for depths in choices]
            image, check = runs.images[number], runs.checks[number]
            return run_depths(image, rows, limits=limits, keep=runs.keep, check=check)

        return run

    def _unbounded(self, number: int) -> ImageRun:
        """One run with unbounded FIFOs that kept all tokens."""
        runs = self.runs
        done = run_image(
            runs.images[number],
            runs.timing,
            limits=runs.limits,
            keep=True,
            check=runs.checks[number],
        )
        if done.totals.status == "limit":
            raise EvaluationError(
                f"program '{runs.name}': not decided which depths are enough: with all FIFOs that "
                f"are sized unbounded a run is {done.totals.reason}; raise this limit"
            )
        if done.totals.status not in ENDED:
            which = f" of bindings[{number}]" if len(runs.images) > 1 else ""
            raise EvaluationError(
                f"program '{runs.name}': no depth of the FIFOs that are sized helps: with all of "
                f"them unbounded the run{which} ends with status {done.totals.status}: "
                f"{done.totals.reason}"
            )
        return done


def checked_slowdown(what: str, slowdown: object) -> float:
    """A slowdown as a float.

    Raises
    ------
    ArgError
        It is no number from 0.
    """
    if not (is_number(slowdown) and float(slowdown) >= 0):  # type: ignore[arg-type]
        raise ArgError(
            f"{what} must be a number from 0, as 0.01 for runs that take at most 1 % longer than "
            f"with unbounded FIFOs, found {shown(slowdown)}"
        )
    return float(slowdown)  # type: ignore[arg-type]
