"""Drive the engine: working copies of an image, growing arena, pauses for limits and progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

import numba
import numpy as np
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from stepsim.errors import LoweringError
from stepsim.kernels.engine import run
from stepsim.kernels.foreign import plugin_refusal
from stepsim.kernels.free_memory import free_bytes
from stepsim.kernels.layout import INFINITY, RunState, State, Status

__all__ = ["Execution", "ImageArrays", "execute", "state_of"]

_PAUSE_STEPS = 2_000_000
_FREE_LISTS = 48


class ImageArrays(Protocol):
    """The arrays of an image that the engine starts from."""

    @property
    def units(self) -> NDArray[np.void]: ...
    @property
    def channels(self) -> NDArray[np.void]: ...
    @property
    def slots(self) -> NDArray[np.void]: ...
    @property
    def params(self) -> NDArray[np.int64]: ...
    @property
    def scratch_words(self) -> int: ...
    @property
    def ports(self) -> NDArray[np.void]: ...
    @property
    def memory_table(self) -> NDArray[np.int64]: ...
    @property
    def globals(self) -> NDArray[np.void]: ...


@dataclass(slots=True)
class Execution:
    """Final (or interrupted) state of a run.

    Attributes
    ----------
    state : why the engine returned.
    units, channels, slots, globals : the engine's records.
    wall_seconds : time inside the engine, without compilation.
    timed_out : the wall-time limit ended the run.
    """

    state: RunState
    units: NDArray[np.void]
    channels: NDArray[np.void]
    slots: NDArray[np.void]
    globals: Any
    wall_seconds: float
    timed_out: bool = False
    params: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def finished(self) -> bool:
        """Whether every unit has ended."""
        ended = (self.units["state"] == Status.DONE) | (self.units["state"] == Status.FAILED)
        return bool(ended.all())


def _records(array: NDArray[np.void]) -> Any:
    return array.view(np.recarray)


def execute(
    image: ImageArrays,
    *,
    max_cycles: int = INFINITY,
    max_steps: int = INFINITY,
    max_wall_seconds: float = float("inf"),
    history: bool | Collection[int] = False,
    on_pause: Callable[[Any, NDArray[np.void], float], None] | None = None,
    pause_steps: int = _PAUSE_STEPS,
) -> Execution:
    """Run an image from its start.

    Parameters
    ----------
    max_cycles, max_steps, max_wall_seconds : limits; the state reached is returned.
    history : keep every token, so that all stamps can be read afterwards; or the numbers of the
        channels whose tokens are kept, without the contents of their buffers and tuples.
    on_pause : called with the globals record, the units and the seconds so far, a few times per
        second.
    pause_steps : firings between two pauses; results do not depend on it.
    """
    arrays = state_of(image, _arena_size(len(image.slots), len(image.channels)))
    g = arrays.globals[0]
    g.max_cycles = min(max_cycles, INFINITY)
    g.limit_steps = min(max_steps, INFINITY)
    g.history = int(history is True)
    if history is not False:
        channels = arrays.channels
        kept = slice(None) if history is True else list(history)
        channels["keep"][kept] = 1
        channels["grow_at"][kept] = channels["mask"][kept] + 1
    seconds = 0.0
    timed_out = False
    while True:
        g.pause_at = min(g.steps + pause_steps, g.limit_steps)
        _compile_for(arrays)
        begin = time.perf_counter()
        state = RunState(run(arrays))
        seconds += time.perf_counter() - begin
        if state is RunState.NO_SPACE:
            arrays = _with_more_slots(arrays)
        elif state is not RunState.PAUSED:
            break
        if seconds > max_wall_seconds:
            timed_out = True
            break
        if on_pause is not None:
            on_pause(g, arrays.units, seconds)
    return Execution(
        state,
        arrays.units.view(np.ndarray),
        arrays.channels.view(np.ndarray),
        arrays.slots.view(np.ndarray),
        g,
        seconds,
        timed_out,
        image.params,
    )


def state_of(image: ImageArrays, arena: int) -> State:
    """Working copies of the arrays of an image, with ``arena`` slots in all."""
    slots = np.zeros(arena, image.slots.dtype)
    slots[: len(image.slots)] = image.slots
    values = _records(image.globals.copy())
    g = values[0]
    g.arena_end = arena
    count = len(image.units)
    work_list = np.zeros(g.work_mask + 1, np.int64)
    work_list[:count] = np.arange(count)
    ports = image.ports.copy() if len(image.ports) else np.zeros(1, image.ports.dtype)
    return State(
        units=_records(image.units.copy()),
        channels=_records(image.channels.copy()),
        slots=_records(slots),
        # A read-only array is another type, for which the engine would be compiled once more.
        parameters=image.params if image.params.flags.writeable else image.params.copy(),
        scratch=np.zeros(image.scratch_words, np.int64),
        work_list=work_list,
        free_lists=np.full(_FREE_LISTS, -1, np.int64),
        calendar=np.zeros(count + 1, np.int64),
        ports=_records(ports),
        pending=np.zeros(len(ports) + 1, np.int64),
        active=np.zeros(len(ports) + 1, np.int64),
        free_at=np.zeros(g.memory_channels, np.int64),
        memory_table=image.memory_table.copy(),
        globals=values,
    )


def _with_more_slots(state: State) -> State:
    """The same state with twice the slots or more; with fewer where memory is short.

    Raises
    ------
    LoweringError
        They do not fit the memory of this machine.
    """
    g, slots = state.globals[0], state.slots
    each, there = slots.dtype.itemsize, free_bytes()
    needed = int(g.arena_top) + int(g.arena_need)
    if needed * each > there:
        raise LoweringError(
            "the tokens that wait in FIFOs and buffers do not fit the memory of this machine: "
            f"{needed * each / 2**30:.1f} GiB for {needed:,} tokens, {there / 2**30:.1f} GiB are "
            "free. Buffer fewer tiles, or limit the depth of the FIFOs"
        )
    # Doubling keeps the copies few.
    count = int(min(max(2 * len(slots), len(slots) + 2 * int(g.arena_need)), there / each))
    grown = np.zeros(count, slots.dtype)
    grown[: len(slots)] = slots
    g.arena_end = len(grown)
    return state._replace(slots=_records(grown))


def _arena_size(fixed: int, channels: int) -> int:
    return fixed + 64 * channels + 1024


def _compile_for(arrays: State) -> None:
    """Compile or load the engine before the clock starts; once, as all runs have one signature.

    Raises
    ------
    UserCodeError
        The kernel of a plugin cannot be compiled.
    """
    if numba.config.DISABLE_JIT or run.signatures:
        return
    try:
        run.compile((numba.typeof(arrays),))
    except NumbaError as error:
        refusal = plugin_refusal(error)
        if refusal is None:
            raise
        raise refusal from None
