"""Drive the engine over the runs of a batch: limits by the clock, growing arena, stopped runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepsim.frozen import frozen
from stepsim.kernels.batch.layout import BATCH, TOTALS, UNIT_TOTALS, Batch
from stepsim.kernels.catalog import UNIT
from stepsim.kernels.driver import (
    PAUSE_STEPS,
    Asked,
    Execution,
    ImageArrays,
    Working,
    executed,
    keep_more_paces,
    records,
    set_looks,
    with_more_slots,
    working,
)
from stepsim.kernels.engines import engine_of
from stepsim.kernels.layout import CHANNEL, GLOBAL, INFINITY, RunState


@frozen
class BatchTotals:
    """What the runs of a batch amount to.

    Attributes
    ----------
    totals : record of TOTALS of every run.
    units : records of UNIT_TOTALS ``[runs, units]``; no columns unless wanted.
    wall_seconds : time of the engine for each run; calls are shared among their runs by the work.
    """

    totals: NDArray[np.void]
    units: NDArray[np.void]
    wall_seconds: NDArray[np.float64]

    @classmethod
    def zeros(cls, runs: int, units: int) -> BatchTotals:
        """Room for some runs, and for so many units of each."""
        return cls(np.zeros(runs, TOTALS), np.zeros((runs, units), UNIT_TOTALS), np.zeros(runs))

    def part(self, first: int, end: int) -> BatchTotals:
        """The same memory, of consecutive runs."""
        return BatchTotals(
            self.totals[first:end], self.units[first:end], self.wall_seconds[first:end]
        )


def execute_batch(
    image: ImageArrays,
    places: NDArray[np.int64],
    values: NDArray[np.int64],
    *,
    max_cycles: int = INFINITY,
    max_steps: int = INFINITY,
    max_wall_seconds: float = float("inf"),
    history: Collection[int] = (),
    depths: NDArray[np.int64] | None = None,
    into: BatchTotals | None = None,
    every: bool = False,
    on_stop: Callable[[int, Execution], None],
    on_error: Callable[[int, Exception], None],
    cancelled: Callable[[], bool] = lambda: False,
    pause_steps: int = PAUSE_STEPS,
) -> BatchTotals:
    """Run an image from its start once for every row of ``values``.

    Limits and ``history`` are those of :func:`stepsim.kernels.driver.execute`, for each run.

    Parameters
    ----------
    places, values : places of parameters that differ, and ``[runs, places]`` what they are.
    depths : tokens that every channel holds in every run ``[runs, channels]``, INFINITY where it is
        unbounded; needs ``every``.
    into : zeros to write to; with room for units, what every unit did is written down.
    every : stop after every run.
    on_stop : called with the number of a run that did not end well, or of every run, and the state
        it left, which is good until the call returns.
    on_error : called with the number of a run that cannot be made, as when its tokens do not fit
        the memory of this machine, and why; the other runs are made.
    cancelled : asked a few times per second; the runs that are left are not made.
    pause_steps : work between two calls of these; results do not depend on it.
    """
    work = working(image, max_cycles=max_cycles, max_steps=max_steps, history=history or False)
    # Runs write to it, and image and copy may be the same array.
    work = work._replace(state=work.state._replace(parameters=image.params.copy()))
    runs = len(values)
    if into is None:
        into = BatchTotals.zeros(runs, 0)
    batch = Batch(
        image=work.words[: work.fixed].copy(),
        words=work.words,
        places=places,
        # A copy, which nobody changes while the engine reads it, of the type it expects.
        values=np.array(values, np.int64, order="C").reshape(-1),
        memory_table=image.memory_table.copy(),
        control=records(np.zeros(1, BATCH)),
        totals=records(into.totals),
        units=records(into.units.reshape(-1)),
    )
    set_depths = None if depths is None else _depth_setter(batch.image, work, depths)
    control = batch.control[0]
    control.runs, control.fixed = runs, work.fixed
    control.every, control.wants_units = int(every), int(into.units.size > 0)
    clock = _Clock(into)
    timed_out, asked = -1, Asked()
    run = engine_of(image.memory_model, image.carries)
    run.make_ready()  # before the clock starts
    while control.run < runs and not cancelled():
        control.budget = pause_steps
        first, begin = int(control.run), time.perf_counter()
        if set_depths is not None and not control.begun:
            set_depths(first)
        # Whatever goes wrong in one run must not take the others along.
        try:
            ended = RunState(run(work.state, batch))
        except Exception as error:
            on_error(int(control.run), error)
            _next(control)
            continue
        at = min(int(control.run), runs - 1)
        clock.share(first, at, time.perf_counter() - begin)
        if ended is RunState.STOPPED:
            final = RunState(int(batch.totals[at].ended))
            on_stop(at, executed(work.state, final, float(clock.seconds[at]), at == timed_out))
            _next(control)
        elif control.begun and clock.seconds[at] > max_wall_seconds:
            timed_out, control.given_up = at, 1
        elif ended is RunState.NO_SPACE:
            try:
                work = with_more_slots(work)
            except Exception as error:
                on_error(at, error)
                _next(control)
            else:
                batch = batch._replace(words=work.words)
        elif ended is RunState.NO_PACES and asked.again(image, work).events > asked.events:
            # As below; what a network on chip lacks room for has a place in front of the slots.
            asked = asked.again(image, work)
            try:
                work = working(
                    image, max_cycles=max_cycles, max_steps=max_steps, history=history or False,
                    asked=asked,
                )  # fmt: skip
            except Exception as error:
                on_error(at, error)
                _next(control)
                continue
            work = work._replace(state=work.state._replace(parameters=image.params.copy()))
            batch = batch._replace(image=work.words[: work.fixed].copy(), words=work.words)
            control.fixed, control.begun = work.fixed, 0
            if depths is not None:
                set_depths = _depth_setter(batch.image, work, depths)
            clock.begin_again(at)
        elif ended is RunState.NO_PACES:
            # What is asked for was not kept: begin again, and keep it.
            try:
                paces = keep_more_paces(*_beginning(batch, work), asked.paces + 1)
            except Exception as error:
                on_error(at, error)
                _next(control)
                continue
            asked = asked._replace(paces=asked.paces + 1)
            work = work._replace(state=work.state._replace(paces=paces))
            control.begun = 0
            clock.begin_again(at)
    return into


def _beginning(batch: Batch, work: Working) -> tuple[Any, Any, Any]:
    """The units, FIFOs and globals that every run begins with."""
    units = GLOBAL.itemsize // 8
    channels = units + work.state.units.nbytes // 8
    end = channels + work.state.channels.nbytes // 8
    image = batch.image
    return (
        image[units:channels].view(UNIT), image[channels:end].view(CHANNEL),
        image[:units].view(GLOBAL),
    )  # fmt: skip


def _depth_setter(
    image: NDArray[np.int64], work: Working, depths: NDArray[np.int64]
) -> Callable[[int], None]:
    """Writes the depths of a run to the words that it begins with."""
    # A view of the same place: that of the state has grown by what was sent.
    first = (work.state.channels.ctypes.data - work.words.ctypes.data) // 8
    end = first + work.state.channels.nbytes // 8
    channels = image[first:end].view(CHANNEL)
    rings = channels["mask"] + 1
    kept = channels["keep"] != 0

    def write(run: int) -> None:
        row = depths[run]
        channels["cap"] = row
        channels["grow_at"] = np.where((rings >= row) & ~kept, INFINITY, rings)
        set_looks(channels)

    return write


def _next(control: Any) -> None:
    control.run += 1
    control.begun = 0


class _Clock:
    """Shares the time of calls among their runs."""

    def __init__(self, into: BatchTotals) -> None:
        self._effort = into.totals["effort"]
        self._paid = np.zeros(len(into.totals), np.int64)  # effort that earlier calls made
        self.seconds = into.wall_seconds

    def begin_again(self, run: int) -> None:
        """A run is made from its start once more."""
        self._paid[run] = 0

    def share(self, first: int, last: int, seconds: float) -> None:
        """A call took so long, in which these runs were made or went on."""
        made = slice(first, last + 1)
        effort = self._effort[made] - self._paid[made]
        self._paid[made] = self._effort[made]
        if effort.any():
            self.seconds[made] += seconds * (effort / effort.sum())
