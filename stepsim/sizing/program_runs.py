"""FIFOs of programs: measurements of unbounded runs, and runs with other depths as judges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
from stepsim.sizing.judge import STUCK, Depths, Judge, Verdict
from stepsim.sizing.recorded import Stamps, delayed_depths, slots_needed, stamps_of, times_of
from stepsim.sizing.search import Found, Problem, solved

if TYPE_CHECKING:
    from stepsim.kernels import Execution

_EFFORT = 2e7
"""Approximate firings of all runs of a search together; a run of a small program takes few."""

_FEWEST, _MOST = 80, 6000
"""Most runs of a search of any program. With 80 runs the FIFOs of the published decoders take 2
to 12 % more bytes than with 400, with 40 runs 4 to 17 %, and with 160 runs up to 7 %."""


@dataclass(eq=False)
class ProgramRuns:
    """Runs of one program; the unbounded runs are made on construction.

    Attributes
    ----------
    name : of the program, for messages.
    images : of all runs, with the sized FIFOs unbounded.
    timing : the timing that they were laid out for.
    sized : numbers of the FIFOs to be sized.
    alike : class of every sized FIFO; FIFOs with the same role in different places share one.
    bounds : bytes of a token of every FIFO, where its type states them; else 0.
    keep : FIFOs whose tokens runs keep, for ``checks``.
    checks : further checks of a run that is ok, by run.
    limits : of every run.
    timetables : the unbounded runs keep the tokens of all FIFOs, which :meth:`planned` needs;
        otherwise those of the sized FIFOs, if the sizes of tokens are stated, in less memory.
    cycles : of the unbounded runs.
    token_bytes : size of a token of every FIFO, at least 1.
    peaks : depths of the sized FIFOs that reproduce the unbounded runs exactly.
    most : depths that are as good as unbounded.
    steps : of the engine in the unbounded runs together.

    Raises
    ------
    EvaluationError
        An unbounded run is not ok.
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
    timetables: bool = True
    cycles: tuple[int, ...] = field(init=False)
    token_bytes: NDArray[np.int64] = field(init=False)
    peaks: Depths = field(init=False)
    most: Depths = field(init=False)
    steps: int = field(init=False)
    _stamps: list[Stamps] = field(init=False)
    _budget: int = field(init=False)

    def __post_init__(self) -> None:
        sizes = self.bounds
        stated = bool((sizes > 0).all())
        some = stated and not self.timetables
        keep = {*self.sized.tolist(), *self.keep} if some else True
        made = [self._unbounded(number, keep) for number in range(len(self.images))]
        self._stamps = [] if some else [stamps_of(run) for run in made]
        self.cycles = tuple(run.totals.cycles for run in made)
        if not stated:
            # Those of carriers follow those of the program.
            largest = np.max([largest_tokens(run)[: len(sizes)] for run in made], 0)
            sizes = np.where(sizes > 0, sizes, largest)
        self.token_bytes = np.maximum(sizes, 1)
        numbers = self.sized.tolist()
        every = [[times_of(run, fifo) for fifo in numbers] for run in made]
        peaks = [[slots_needed(sent, freed) for sent, _, freed in run] for run in every]
        sent = [[len(times) for times, _, _ in run] for run in every]
        self.peaks = np.max(np.array(peaks, np.int64), 0)
        self.most = np.maximum(np.max(np.array(sent, np.int64), 0), self.peaks)
        self.steps = sum(run.totals.engine_steps for run in made)
        self._budget = int(np.clip(_EFFORT / (self.steps + 1000), _FEWEST, _MOST))

    def targets(self, slowdown: float) -> list[int]:
        """Cycles that the runs may take: ``1 + slowdown`` times those of the unbounded ones."""
        return [int(min(each * (1 + slowdown) + 1e-9, 2.0**61)) for each in self.cycles]

    def problem(self, slowdown: float) -> Problem:
        """The sized FIFOs, and the judges of whether their depths are enough."""
        return Problem(
            judges=[
                self._judge(number, target) for number, target in enumerate(self.targets(slowdown))
            ],
            weights=self.token_bytes[self.sized],
            peaks=self.peaks,
            most=self.most,
            alike=self.alike,
        )

    def planned(self, slowdown: float) -> Depths:
        """The depths that the timetables of all runs require, where those were kept."""
        assert self._stamps or not self.images, "made without timetables"
        fixed = self.images[0].channels["cap"].copy()
        fixed[self.sized] = 0
        planned = [
            delayed_depths(stamps, fixed, self.token_bytes, target, MEMORY_TAIL)
            for stamps, target in zip(self._stamps, self.targets(slowdown), strict=True)
        ]
        found: Depths = np.max(planned, 0)[self.sized]
        return found

    def solved(
        self,
        slowdown: float,
        start: Depths | None = None,
        budget: int | None = None,
        planned: Depths | None = None,
        shallow: Sequence[Depths] = (),
        raised: Depths | None = None,
    ) -> Found:
        """The least depths with which no run takes longer than allowed.

        Parameters
        ----------
        start : depths known to be enough; the search starts there if they are below the plan.
        budget : largest number of runs for shrinking.
        planned : depths to repair and shrink, in place of those of `planned`.
        shallow : depths to shrink in place of them where they are enough, in order.
        raised : depths of FIFOs of shallow ones that are full in a deadlock.
        """
        found = solved(
            self.problem(slowdown),
            self.planned(slowdown) if planned is None else planned,
            start=start,
            shallow=shallow,
            raised=raised,
            budget=self._budget if budget is None else budget,
        )
        if found is None:
            raise EvaluationError(
                f"program '{self.name}': cannot decide which depths are enough, as a run reached "
                "one of the limits; raise it"
            )
        made = len(self.images)
        return replace(
            found,
            before=made + found.before,
            simulations=made + found.simulations,
            proved=found.proved and not self._is_cut(max(self.targets(slowdown))),
        )

    def run(self, depths: Sequence[Depths]) -> list[DepthRuns]:
        """Runs of all bindings with each of the given depths of the sized FIFOs, however long."""
        return [self._runs(number, depths, self.limits) for number in range(len(self.images))]

    def _is_cut(self, target: int) -> bool:
        """Whether a run may have ended at a limit that is not the target."""
        limits = self.limits
        others = limits.max_steps is not None or limits.max_wall_seconds is not None
        return others or (limits.max_cycles is not None and limits.max_cycles < target)

    def _judge(self, number: int, target: int) -> Judge:
        bound = self.limits.max_cycles
        limits = replace(self.limits, max_cycles=min(target, bound or target))

        def judge(depths: Depths) -> Verdict:
            runs = self._runs(number, [depths], limits)
            status, cycles = runs.status[0], int(runs.cycles[0])

            def held() -> NDArray[np.int64]:
                waited: NDArray[np.int64] = runs.producer_wait[0][self.sized]
                if status != "deadlock":
                    return waited
                return np.where(runs.blocked[0][self.sized], STUCK, waited)

            return Verdict(status in ENDED and cycles <= target, cycles, held)

        return judge

    def _runs(self, number: int, depths: Sequence[Depths], limits: Limits) -> DepthRuns:
        sized = self.sized.tolist()
        rows = [dict(zip(sized, each.tolist(), strict=True)) for each in depths]
        image, check = self.images[number], self.checks[number]
        return run_depths(image, rows, limits=limits, keep=self.keep, check=check)

    def _unbounded(self, number: int, keep: bool | set[int]) -> ImageRun:
        """One run with unbounded FIFOs that kept the tokens of some FIFOs, or of all."""
        image, check = self.images[number], self.checks[number]
        done = run_image(image, self.timing, limits=self.limits, keep=keep, check=check)
        if done.totals.status == "limit":
            raise EvaluationError(
                f"program '{self.name}': cannot decide which depths are enough: with all sized "
                f"FIFOs unbounded, a run is {done.totals.reason}; raise this limit"
            )
        if done.totals.status not in ENDED:
            which = f" of bindings[{number}]" if len(self.images) > 1 else ""
            raise EvaluationError(
                f"program '{self.name}': no depth of the sized FIFOs helps: with all of them "
                f"unbounded, the run{which} ends with status {done.totals.status}: "
                f"{done.totals.reason}"
            )
        return done


def checked_slowdown(what: str, slowdown: object) -> float:
    """A slowdown as a float.

    Raises
    ------
    ArgError
        It is not a number of at least 0.
    """
    if not (is_number(slowdown) and float(slowdown) >= 0):  # type: ignore[arg-type]
        raise ArgError(
            f"{what} must be a number from 0, such as 0.01 for runs at most 1 % longer "
            f"than with unbounded FIFOs, found {shown(slowdown)}"
        )
    return float(slowdown)  # type: ignore[arg-type]
