"""The second half of every run: execute an image, then collect its results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

import stepsim.kernels
from stepsim.deferred import deferred
from stepsim.errors import StepSimError
from stepsim.frozen import frozen
from stepsim.graph import Function
from stepsim.kernels import INFINITY, Execution, execute
from stepsim.lowering import Image, TimingParams
from stepsim.results import Diagnosis, Events, Result, Tables
from stepsim.simulation.outcome.tables import tables_of
from stepsim.simulation.outcome.totals import Totals
from stepsim.simulation.outcome.verdict import verdict
from stepsim.simulation.running.limits import Limits

if TYPE_CHECKING:
    import pyarrow as pa

    from stepsim.simulation.recording import record
    from stepsim.simulation.recording.record import Record
else:
    record = deferred("stepsim.simulation.recording.record")

Recording = bool | Literal["paces"]
"""Whether a run is recorded; with "paces" so is the pace of its units."""


@frozen
class ImageRun:
    """One run of an image, and what can be read off it.

    Attributes
    ----------
    image : what ran.
    execution : the state that the engine left.
    totals : what the engine counted, with the verdict on the run.
    diagnosis : for a run that is not ok, why.
    record : of a run that was recorded, every wait of every unit.
    events : what happened when, of a recorded run that kept its tokens and is a result.
    """

    image: Image
    execution: Execution
    totals: Totals
    diagnosis: Diagnosis | None
    record: Record | None = None
    events: Events | None = None

    def units(self) -> pa.Table:
        """The stall breakdown of every unit."""
        return self.tables().units

    def tables(self) -> Tables:
        """The units and FIFOs, as tables that are made when they are asked for."""
        totals = self.totals
        return tables_of(self.image, self.execution, totals.cycles, self.events, totals.unit_energy)

    def result(self, name: str, provenance: Mapping[str, Any]) -> Result:
        """The complete result of the run, under the name of its program."""
        totals, channels = self.totals, self.execution.channels
        return Result(
            program=name,
            status=totals.status,
            cycles=totals.cycles,
            offchip_bytes=totals.offchip_bytes,
            bus_bytes=totals.bus_bytes,
            memory_requests=totals.memory_requests,
            flops=totals.flops,
            tokens=totals.tokens,
            undelivered_tokens=int((channels["sent"] - channels["removed"]).sum()),
            engine_steps=totals.engine_steps,
            wall_seconds=totals.wall_seconds,
            tables=self.tables(),
            peak_bandwidth=totals.peak_bandwidth,
            peak_bytes=totals.peak_bytes,
            provenance=provenance,
            diagnosis=self.diagnosis,
            events=self.events,
            energy=totals.energy,
        )

    def tokens(self, fifo: int) -> NDArray[np.void]:
        """All tokens of a FIFO in the order sent, if the run kept them."""
        record = self.execution.channels[fifo]
        begin = int(record["start"])
        return self.execution.slots[begin : begin + int(record["sent"])]


def run_image(
    image: Image,
    timing: TimingParams,
    *,
    limits: Limits | None = None,
    on_pause: Callable[[Any, Any, float], None] | None = None,
    keep: bool | Collection[int] = False,
    check: Callable[[Execution], StepSimError | None] | None = None,
    source: Callable[[int], str] = lambda unit: "",
    function: Callable[[int], Function | None] = lambda unit: None,
    record: Recording = False,
) -> ImageRun:
    """Run an image from its start.

    Parameters
    ----------
    timing : what the image was laid out for.
    on_pause : as in :func:`stepsim.kernels.driver.execute`.
    keep : keep the tokens of these FIFOs, or of all with True.
    check : may reject a successful execution, by the tokens that were kept.
    source : the user's line behind a unit number.
    function : its function of tiles, if it has one.
    record : record every wait.
    """
    bounds = limits or Limits()
    journal = _journal(record)
    execution = execute(
        image,
        max_cycles=bounds.max_cycles or INFINITY,
        max_steps=bounds.max_steps or INFINITY,
        max_wall_seconds=bounds.max_wall_seconds or float("inf"),
        on_pause=on_pause,
        history=keep or False,
        journal=journal,
    )
    totals, diagnosis = verdict(image, execution, timing, check, source, function)
    return ImageRun(image, execution, totals, diagnosis, _record(execution))


def _journal(record: Recording) -> stepsim.kernels.Journal | None:
    """An empty journal for a run that is recorded."""
    if not record:
        return None
    return stepsim.kernels.Journal(paces=record == "paces")


def _record(execution: Execution) -> Record | None:
    if execution.journal is None:
        return None

    return record.record_of(execution)
