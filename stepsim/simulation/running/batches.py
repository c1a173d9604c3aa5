"""Runs of one prepared program in batches: the engine iterates over the runs itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import LoweringError
from stepsim.frozen import frozen
from stepsim.graph import Routing
from stepsim.kernels import INFINITY, BatchTotals, Execution, execute_batch
from stepsim.lowering import Image
from stepsim.processes import in_threads
from stepsim.simulation.outcome.open_waits import book_open_waits
from stepsim.simulation.outcome.totals import Totals, peak_bandwidth, peak_bytes
from stepsim.simulation.outcome.verdict import kept_fifos
from stepsim.simulation.running.limits import Limits

if TYPE_CHECKING:
    from stepsim.simulation.outcome.energy import EnergyTotals, UnitEnergy
    from stepsim.simulation.programs.prepared import Prepared

_SLICES = 4
"""Slices of work for each thread, so that all end at about the same time."""


class Ending(NamedTuple):
    """How a run ended, as in `Totals`."""

    status: str
    limit: str
    reason: str


@frozen
class Outcomes:
    """The outcome of runs of one prepared program.

    Attributes
    ----------
    batch : totals of all runs.
    stopped : how the runs that are not ok ended, by their number.
    errors : of runs that could not be made, by their number.
    energy, unit_energy : joules by number of the run, in all and by unit where units are kept, on
        machines with a table of energies.
    """

    batch: BatchTotals
    stopped: Mapping[int, Ending]
    errors: Mapping[int, Exception]
    energy: Mapping[int, EnergyTotals]
    unit_energy: Mapping[int, UnitEnergy]


_WELL = Ending("ok", "", "")


class ManyRuns:
    """Runs of a prepared program with many bindings.

    Parameters
    ----------
    count : of runs.
    indices : checked indices ``[runs, rows, k]`` of every routing.
    units : write down what every unit did.
    """

    def __init__(
        self,
        prepared: Prepared,
        count: int,
        indices: Mapping[Routing, NDArray[np.int64]],
        limits: Limits | None,
        units: bool,
    ) -> None:
        self.prepared = prepared
        self.count = count
        self._indices = indices
        self._limits = limits or Limits()
        words = prepared.words(indices)
        self._words = words.reshape(count, -1) if words.size else np.zeros((count, 0), np.int64)
        self._totals = BatchTotals.zeros(count, prepared.unit_count if units else 0)
        self._stopped: dict[int, Ending] = {}
        self._errors: dict[int, Exception] = {}
        self._energy: dict[int, EnergyTotals] = {}
        self._unit_energy: dict[int, UnitEnergy] = {}

    def jobs(self, slices: int) -> Iterator[Callable[[Callable[[], bool]], None]]:
        """The work in pieces, to be done in any order by any thread; see `run_all`."""
        bounds = np.linspace(0, self.count, min(slices, self.count) + 1).astype(int).tolist()
        for first, end in pairwise(bounds):
            yield partial(self._run, first, end)

    def outcomes(self) -> Outcomes:
        """The outcome, once all work is done."""
        return Outcomes(self._totals, self._stopped, self._errors, self._energy, self._unit_energy)

    @property
    def image(self) -> Image:
        """The image of the first run, for all that the runs have in common."""
        return self.prepared.template.image(self._words[0])

    def totals(self, outcomes: Outcomes, run: int) -> Totals:
        """Totals of one run.

        Raises
        ------
        Exception
            The run could not be made.
        """
        if run in outcomes.errors:
            raise outcomes.errors[run]
        ended = outcomes.stopped.get(run, _WELL)
        record, timing = outcomes.batch.totals[run], self.prepared.timing
        requests, cycles = int(record["memory_requests"]), int(record["cycles"])
        return Totals(
            status=ended.status,
            limit=ended.limit,
            cycles=cycles,
            offchip_bytes=int(record["offchip_bytes"]),
            bus_bytes=requests * timing.request_bytes,
            memory_requests=requests,
            flops=int(record["flops"]),
            tokens=int(record["tokens"]),
            engine_steps=int(record["engine_steps"]),
            wall_seconds=float(outcomes.batch.wall_seconds[run]),
            peak_bandwidth=peak_bandwidth(timing),
            peak_bytes=peak_bytes(cycles, timing),
            reason=ended.reason,
            # The words of all runs would stay with those of one.
            image_of=partial(self.prepared.template.image, self._words[run].copy()),
            energy=outcomes.energy.get(run),
        )

    def _run(self, first: int, end: int, cancelled: Callable[[], bool]) -> None:
        prepared, bounds = self.prepared, self._limits
        words = self._words[first:end]
        history: Any = kept_fifos(prepared)  # or True, which the driver takes for everything

        def judge(run: int, execution: Execution) -> None:
            run += first
            image = prepared.template.image(self._words[run])
            if self._totals.units.size:
                cycles = int(self._totals.totals["cycles"][run])
                book_open_waits(self._totals.units[run], execution, cycles)
            indices = {table: array[run] for table, array in self._indices.items()}
            # An error in one run must not affect the others.
            try:
                totals, diagnosis = prepared.judge(image, execution, indices)
            except Exception as error:
                self._errors[run] = error
                return
            if totals.energy is not None:
                self._energy[run] = totals.energy
                if self._totals.units.size and totals.unit_energy is not None:
                    self._unit_energy[run] = totals.unit_energy
            if diagnosis is not None:
                self._stopped[run] = Ending(totals.status, totals.limit, totals.reason)

        def fail(run: int, error: Exception) -> None:
            what = str(error) or type(error).__name__
            refused = LoweringError(f"program '{prepared.program.name}': {what}")
            refused.__cause__ = error
            self._errors[first + run] = refused

        execute_batch(
            prepared.template.image(words[0]),
            prepared.template.places,
            words,
            max_cycles=bounds.max_cycles or INFINITY,
            max_steps=bounds.max_steps or INFINITY,
            max_wall_seconds=bounds.max_wall_seconds or float("inf"),
            history=history,
            into=self._totals.part(first, end),
            every=bool(prepared.program.assumptions) or prepared.is_accounted,
            on_stop=judge,
            on_error=fail,
            cancelled=cancelled,
        )


def run_all(
    many: Sequence[ManyRuns],
    threads: int,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Outcomes]:
    """Make all runs on some threads; the engine runs without the interpreter lock.

    An interrupt ends the threads within a fraction of a second. ``progress`` is called with the
    pieces of work that are done, and their number.
    """
    slices = 1 if threads == 1 else -(-_SLICES * threads // len(many))
    jobs = [job for each in many for job in each.jobs(slices)]
    in_threads(jobs, threads, lambda done: progress(done, len(jobs)))
    return [each.outcomes() for each in many]
