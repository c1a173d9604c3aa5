"""Drive the engine: working copies of an image, growing arena, pauses for limits and progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import LoweringError
from stepsim.frozen import NamedTuple
from stepsim.kernels.batch.layout import BATCH, TOTALS, UNIT_TOTALS, Batch
from stepsim.kernels.catalog import UNIT
from stepsim.kernels.engine import BATCH_LAYOUT, LAYOUT
from stepsim.kernels.engines import Carries, engine_of, recorded_engine_of
from stepsim.kernels.free_memory import free_bytes
from stepsim.kernels.layout import (
    CHANNEL,
    GLOBAL,
    INFINITY,
    PORT,
    SLOT,
    Parks,
    RunState,
    State,
    Status,
)
from stepsim.kernels.memory.dispatch import ALL_MODELS
from stepsim.kernels.noc.carried import lacks_events
from stepsim.kernels.parking import LAST_ONLY, PACE_WORDS
from stepsim.kernels.recording.journal import WORDS_OF_EVENT, WORDS_OF_MESSAGE

if TYPE_CHECKING:
    from stepsim.kernels.recording.recorded import Journal

PAUSE_STEPS = 2_000_000
_FREE_LISTS = 48
_SLOT_WORDS = SLOT.itemsize // 8
_PACES = 64
"""Changes of pace that are kept of a unit."""
_MORE_PACES = 16
"""Times as many when a run asks once more."""


_MORE_EVENTS = 4
"""As many times the room for events of a network on chip."""


class ImageArrays(Protocol):
    """The arrays of an image that the engine starts from."""

    @property
    def units(self) -> NDArray[np.void]: ...
    @property
    def channels(self) -> NDArray[np.void]: ...
    @property
    def slots(self) -> NDArray[np.void]: ...
    @property
    def tokens(self) -> NDArray[np.void]: ...
    @property
    def params(self) -> NDArray[np.int64]: ...
    @property
    def scratch_words(self) -> int: ...
    @property
    def growing_words(self) -> int: ...
    @property
    def carries(self) -> Carries: ...
    @property
    def chips(self) -> int: ...
    @property
    def ports(self) -> NDArray[np.void]: ...
    @property
    def memory_table(self) -> NDArray[np.int64]: ...
    @property
    def globals(self) -> NDArray[np.void]: ...
    @property
    def memory_model(self) -> str: ...


@dataclass(slots=True)
class Execution:
    """Final (or interrupted) state of a run.

    Attributes
    ----------
    state : why the engine returned.
    units, channels, slots, globals : the engine's records.
    wall_seconds : time inside the engine, without compilation.
    timed_out : the wall-time limit ended the run.
    journal : of a run that was recorded, every wait.
    """

    state: RunState
    units: NDArray[np.void]
    channels: NDArray[np.void]
    slots: NDArray[np.void]
    globals: Any
    wall_seconds: float
    timed_out: bool = False
    params: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    journal: Journal | None = None
    scratch: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def finished(self) -> bool:
        """Whether every unit has ended."""
        ended = (self.units["state"] == Status.DONE) | (self.units["state"] == Status.FAILED)
        return bool(ended.all())


_RECORDS = {dtype: dtype for dtype in (*LAYOUT, *BATCH_LAYOUT) if dtype.names}


def records(array: NDArray[np.void]) -> Any:
    """The records of an array by name, also in plain Python."""
    # A type that numpy made for the view would be compared field by field at every call.
    return array.view(_RECORDS[array.dtype]).view(np.recarray)


def _records_in(words: NDArray[Any], kind: Any) -> Any:
    """The records of a type of LAYOUT in a piece of memory.

    A view takes ten times longer, for numpy compares all fields of two types.
    """
    # The constructor of recarray would make a type of its own.
    return np.ndarray.__new__(np.recarray, (words.nbytes // kind.itemsize,), kind, words)


_EVENT_WORDS = {"network": WORDS_OF_EVENT, "chips": WORDS_OF_MESSAGE}
"""Words of a journal that an event of each network may fill."""

_SINGLE = Batch(
    image=np.zeros(1, np.int64),
    words=np.zeros(1, np.int64),
    places=np.zeros(1, np.int64),
    values=np.zeros(1, np.int64),
    memory_table=np.zeros(1, np.int64),
    control=records(np.zeros(1, BATCH)),
    totals=records(np.zeros(1, TOTALS)),
    units=records(np.zeros(1, UNIT_TOTALS)),
)
"""No runs of a batch."""


def execute(
    image: ImageArrays,
    *,
    max_cycles: int = INFINITY,
    max_steps: int = INFINITY,
    max_wall_seconds: float = float("inf"),
    history: bool | Collection[int] = False,
    on_pause: Callable[[Any, NDArray[np.void], float], None] | None = None,
    pause_steps: int = PAUSE_STEPS,
    journal: Journal | None = None,
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
    journal : an empty one, to record the run in.
    """
    if journal is None:
        engine = engine_of(image.memory_model, image.carries)
    else:
        if ALL_MODELS[image.memory_model].apart or image.carries:
            journal.engine = recorded_engine_of(image.memory_model, image.carries)
            journal.event_words = _EVENT_WORDS.get(image.carries, 0)
        engine = journal.engine

    def from_start(asked: Asked) -> Working:
        return working(
            image, max_cycles=max_cycles, max_steps=max_steps, history=history, asked=asked
        )

    asked = Asked()
    work = from_start(asked)
    seconds = 0.0
    timed_out = False
    while True:
        g = work.state.globals[0]
        g.pause_at = g.steps + pause_steps
        engine.make_ready()  # before the clock starts
        begin = time.perf_counter()
        state = (
            RunState(engine(work.state, _SINGLE)) if journal is None else journal.run(work.state)
        )
        seconds += time.perf_counter() - begin
        if state is RunState.NO_SPACE:
            if journal is None or not journal.is_full():
                work = with_more_slots(work)
        elif state not in (RunState.PAUSED, RunState.NO_PACES):
            break
        if seconds > max_wall_seconds:
            timed_out = True
            break
        if state is RunState.NO_PACES:
            # What is asked for was not kept: begin again, and keep it.
            asked = asked.again(image, work)
            work = from_start(asked)
            if journal is not None:
                journal.clear()
        elif on_pause is not None:
            on_pause(work.state.globals[0], work.state.units, seconds)
    done = executed(work.state, state, seconds, timed_out)
    if journal is not None:
        journal.close()
        done.journal = journal
    return done


def executed(state: State, ended: RunState, seconds: float, timed_out: bool) -> Execution:
    """The state of a run that is over."""
    return Execution(
        ended,
        state.units.view(np.ndarray),
        state.channels.view(np.ndarray),
        state.slots.view(np.ndarray),
        state.globals[0],
        seconds,
        timed_out,
        state.parameters,
        scratch=state.scratch,
    )


class Asked(NamedTuple):
    """How often a run has asked for more changes of pace, and for more events of a network."""

    paces: int = 0
    events: int = 0

    def again(self, image: ImageArrays, work: Working) -> Asked:
        """The same after a run that ended for the lack of one of them."""
        if image.growing_words and lacks_events(work.state.scratch):
            return self._replace(events=self.events + 1)
        return self._replace(paces=self.paces + 1)


class Working(NamedTuple):
    """The memory of a run. ``words`` is all that a run changes, the slot arena last."""

    words: NDArray[np.int64]
    fixed: int
    """Words in front of the part of the arena that is zero at the beginning."""
    state: State


def working(
    image: ImageArrays,
    *,
    spare: int | None = None,
    max_cycles: int = INFINITY,
    max_steps: int = INFINITY,
    history: bool | Collection[int] = False,
    asked: Asked | None = None,
) -> Working:
    """Working copies of the arrays of an image, with ``spare`` slots beyond its own."""
    asked = asked or Asked()
    if spare is None:
        spare = 64 * len(image.channels) + 1024
    g = image.globals[0]
    units, ports = len(image.units), max(len(image.ports), 1)
    extent = {
        "globals": GLOBAL.itemsize // 8,
        "units": units * (UNIT.itemsize // 8),
        "channels": len(image.channels) * (CHANNEL.itemsize // 8),
        "ports": ports * (PORT.itemsize // 8),
        "scratch": image.scratch_words + image.growing_words * _MORE_EVENTS**asked.events,
        "free_lists": _FREE_LISTS,
        "free_at": int(g["memory_channels"]) * max(image.chips, 1),
    }
    begin = sum(extent.values())
    fixed = begin + len(image.slots) * _SLOT_WORDS
    words = np.zeros(fixed + spare * _SLOT_WORDS, np.int64)
    parts = _split(words, extent)
    _fill(parts["globals"], image.globals)
    _fill(parts["units"], image.units)
    _fill(parts["channels"], image.channels)
    _fill(parts["ports"], image.ports)
    parts["free_lists"][:] = -1
    # The rings of FIFOs, which come last, are empty.
    filled = int(image.channels["start"][0]) if len(image.channels) else len(image.slots)
    _fill(words[begin:fixed], image.slots[:filled])
    work_list = np.zeros(int(g["work_mask"]) + 1, np.int64)
    work_list[:units] = np.arange(units)
    state = State(
        units=_records_in(parts["units"], LAYOUT.units),
        channels=_records_in(parts["channels"], LAYOUT.channels),
        slots=_records_in(words[begin:], LAYOUT.slots),
        tokens=_records_in(_writable(image.tokens), LAYOUT.tokens),
        parameters=_writable(image.params),
        scratch=parts["scratch"],
        work_list=work_list,
        free_lists=parts["free_lists"],
        calendar=np.zeros(units + 1, np.int64),
        ports=_records_in(parts["ports"], LAYOUT.ports),
        pending=np.zeros(ports + 1, np.int64),
        active=np.zeros(ports + 1, np.int64),
        free_at=parts["free_at"],
        memory_table=_memory_table(image.memory_table, int(g["memory_cache"])),
        paces=np.empty(max(int(g["pace_words"]), 1), np.int64),
        globals=_records_in(parts["globals"], LAYOUT.globals),
    )
    own = state.globals[0]
    own.arena_end = len(image.slots) + spare
    own.max_cycles = min(max_cycles, INFINITY)
    own.limit_steps = min(max_steps, INFINITY)
    own.history = int(history is True)
    if asked.paces:
        paces = keep_more_paces(state.units, state.channels, own, asked.paces)
        state = state._replace(paces=paces)
    if history is not False:
        channels = state.channels
        kept = slice(None) if history is True else list(history)
        channels["keep"][kept] = 1
        rings = channels["mask"][kept] + 1
        channels["grow_at"][kept] = rings
        channels["look_at"][kept] = np.minimum(channels["look_at"][kept], rings)
    return Working(words, fixed, state)


def set_looks(channels: Any) -> None:
    """Have producers look at their rings when these must grow, and always where they park."""
    grow_at = channels["grow_at"]
    parking = np.minimum(grow_at, channels["cap"])
    channels["look_at"] = np.where(channels["parks"] == Parks.NEVER, grow_at, parking)


def have_producers_park(units: Any, channels: Any, g: Any, parks: Any) -> None:
    """Set up the records of an image for parking; ``parks`` are numbers of :class:`Parks`.

    Rings of changes of pace are kept of units that look for arrivals, the last change of others.
    """
    channels["parks"], g["parks"] = parks, 1
    set_looks(channels)
    units["log"][channels["consumer"]] = LAST_ONLY
    _keep_paces(units, g, channels["consumer"][channels["parks"] >= Parks.PROBES], _PACES)


def keep_more_paces(units: Any, channels: Any, g: Any, asked: int) -> NDArray[np.int64]:
    """Room for more changes of pace of every unit; the records are changed for it.

    A run in which no producer parks asks when a unit has failed, and ends its streams early: then
    they park.

    Raises
    ------
    LoweringError
        They do not fit the memory of this machine.
    """
    paces = _PACES * _MORE_PACES ** (asked - 1)
    needed, there = 8 * len(units) * paces * PACE_WORDS, free_bytes()
    if needed > there:
        raise LoweringError(
            "the changes of pace that this run asks for do not fit the memory of this machine: "
            f"{needed / 2**30:.1f} GiB, {there / 2**30:.1f} GiB are free. Limit the depth of the "
            "FIFOs, or free memory"
        )
    if not np.any(g["parks"]):
        have_producers_park(units, channels, g, Parks.TAKES)
    _keep_paces(units, g, channels["consumer"], paces)
    return np.empty(int(np.max(g["pace_words"])), np.int64)


def _keep_paces(units: Any, g: Any, which: Any, paces: int) -> None:
    # numpy.unique would import more of numpy.
    keeping = np.flatnonzero(np.bincount(which, minlength=1))
    units["log"][keeping] = 1 + np.arange(len(keeping))
    g["pace_mask"], g["pace_words"] = paces - 1, len(keeping) * paces * PACE_WORDS


def _split(words: NDArray[np.int64], extent: Mapping[str, int]) -> dict[str, NDArray[np.int64]]:
    """Consecutive parts of a piece of memory, by name."""
    parts, at = {}, 0
    for name, count in extent.items():
        parts[name] = words[at : at + count]
        at += count
    return parts


def _fill(part: NDArray[np.int64], array: NDArray[np.void]) -> None:
    part[: array.nbytes // 8] = array.view(np.int64)


def state_of(image: ImageArrays, arena: int) -> State:
    """Working copies of the arrays of an image, with ``arena`` slots in all."""
    return working(image, spare=arena - len(image.slots)).state


def _memory_table(words: NDArray[np.int64], cache: int) -> NDArray[np.int64]:
    """The words that a run begins with, and a cache of zeros behind them."""
    table = np.zeros(len(words) + cache, np.int64)
    table[: len(words)] = words
    return table


def _writable(array: NDArray[Any]) -> NDArray[Any]:
    # A read-only array is another type, for which the engine would be compiled once more.
    return array if array.flags.writeable else array.copy()


def with_more_slots(work: Working) -> Working:
    """The same state with twice the slots or more; with fewer where memory is short.

    Raises
    ------
    LoweringError
        They do not fit the memory of this machine.
    """
    state = work.state
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
    words = np.zeros(len(work.words) + (count - len(slots)) * _SLOT_WORDS, np.int64)
    words[: len(work.words)] = work.words
    moved = {}
    for name in ("units", "channels", "ports", "globals", "scratch", "free_lists", "free_at"):
        moved[name] = _moved(getattr(state, name), work.words, words)
    begin = len(work.words) - len(slots) * _SLOT_WORDS
    moved["slots"] = _records_in(words[begin:], LAYOUT.slots)
    moved["globals"][0].arena_end = count
    return Working(words, work.fixed, state._replace(**moved))


def _moved(part: Any, source: NDArray[np.int64], target: NDArray[np.int64]) -> Any:
    """The part of ``target`` that lies where ``part`` does in ``source``."""
    first = (part.ctypes.data - source.ctypes.data) // 8
    return target[first : first + part.nbytes // 8].view(part.dtype).view(type(part))
