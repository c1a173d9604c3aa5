"""The engine of runs that are recorded, and the memory that their journals are written to.

It is the same engine, compiled once more for states with a journal. Nothing of it is imported by a
process that records nothing.
"""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import LoweringError
from stepsim.kernels.build.entry_point import cached_entry
from stepsim.kernels.engine import LAYOUT, run_on
from stepsim.kernels.free_memory import free_bytes
from stepsim.kernels.layout import INFINITY, RecordedState, RunState, State
from stepsim.kernels.recording.journal import (
    FILLED,
    FIRST,
    FULL,
    MOST_PLACES,
    PACES,
    WORDS_OF_SLOT,
)


def _recorded_entry(state):  # type: ignore[no-untyped-def]
    """Run what ``state`` holds; a :class:`RunState`."""
    return run_on(state)


run_recorded: Any = cached_entry(
    _recorded_entry, RecordedState(*LAYOUT, journal=np.dtype(np.int64)),
    what="engine of recorded runs",
)  # fmt: skip

_LEAST_WORDS = 1 << 12
_MOST_WORDS = 1 << 22
"""Words of the first piece, and of the largest. A small one is memory that the process has already,
and large ones are in large pages: new pages take longer than the entries that are written there."""

_GROWTH = 16
_UNASKED_WORDS = 1 << 16
"""Up to which nobody is asked how much memory there is, which takes as long as a short run."""

_SPARE_WORDS = range(1 << 14, 3 << 19)
"""Words of pieces that are kept for the next run when a journal is no more: those that it would
have to get from the system, which takes as long as to fill them, but for the largest."""

_SPARSE = 16
"""A piece is not left to a journal that fills less than this part of it."""


class Journal:
    """The memory of a journal: pieces that are filled one after the other and stay where they are.

    Parameters
    ----------
    paces : note the pace of units too.
    piece : words of the first piece, or more; the next ones are longer.

    Attributes
    ----------
    engine : what it is run by.
    has_paces : the pace of units is noted too.
    event_words : words that a network on chip may fill beyond those at which it stops.

    Pieces go to the next journal when this one is deleted: what it returns is a copy.
    """

    engine: Any = run_recorded
    _spare: ClassVar[deque[NDArray[np.int64]]] = deque(maxlen=4)
    """Pieces of journals that are no more. It may be changed by many threads at once."""

    def __init__(self, *, paces: bool = False, piece: int = _LEAST_WORDS) -> None:
        self.has_paces = paces
        self.event_words = 0
        self._piece = piece
        self._words = np.zeros(0, np.int64)
        self._full: list[NDArray[np.int64]] = []
        self._used: list[NDArray[np.int64]] = []

    def __del__(self) -> None:
        for words in (*self._used, self._words):
            self._give_back(words)  # the largest last, which the next one takes

    def run(self, state: State) -> RunState:
        """Run on, with room for more in the journal.

        Raises
        ------
        LoweringError
            The journal does not fit the memory of this machine, or the image is too large for one.
        """
        self._make_room(state)
        recorded = RecordedState(*state, journal=self._words)
        return RunState(self.engine(recorded))

    def is_empty(self) -> bool:
        """Whether nothing was recorded yet."""
        return len(self._words) == 0

    def is_full(self) -> bool:
        """Whether the last call returned for want of room in the journal."""
        return bool(self._words[FILLED] > self._words[FULL])

    def entries(self) -> NDArray[np.int64]:
        """All entries so far, ``[entries, 2]``, in the order in which they were written."""
        parts = [*self._full, self._filled()]
        return np.concatenate(parts).reshape(-1, 2)

    def _filled(self) -> NDArray[np.int64]:
        return self._words[FIRST : self._words[FILLED]] if len(self._words) else self._words

    def clear(self) -> None:
        """Nothing was recorded: the run begins again."""
        for words in (*self._used, self._words):
            self._give_back(words)
        self._words, self._full, self._used = np.zeros(0, np.int64), [], []

    def close(self) -> None:
        """The run is over: much memory is not held for few entries."""
        if not self._full and _SPARSE * len(self._filled()) < len(self._words):
            words = self._words
            self._words = words[: words[FILLED]].copy()
            self._give_back(words)

    def _make_room(self, state: State) -> None:
        units, channels = len(state.units), len(state.channels)
        fifos = state.channels.view(np.ndarray)  # whose columns are found sooner
        if max(units, channels) > MOST_PLACES:
            raise LoweringError(
                f"a run of {units:,} units and {channels:,} FIFOs cannot be recorded, which takes "
                f"up to {MOST_PLACES:,} of each; run it without a record"
            )
        if self.is_empty():
            fed = fifos["producer"] == fifos["consumer"]
            if np.count_nonzero(fed):
                fifos["grow_at"][fed & (fifos["grow_at"] == INFINITY)] = 0
                fifos["look_at"][fed] = 0
        # Besides, a unit may end all of its inputs, and all units may be woken.
        rings = int(np.add.reduce(fifos["mask"])) + channels
        apart = WORDS_OF_SLOT * rings + 8 * (channels + 2 * units) + 64 + self.event_words
        if self.is_empty() or self._words[FILLED] > len(self._words) - apart:
            self._turn(apart)
        self._words[FULL] = len(self._words) - apart

    def _turn(self, apart: int) -> None:
        """Go on in another piece of memory."""
        if not self.is_empty():
            self._full.append(self._filled())
            self._used.append(self._words)
        self._words = self._another(FIRST + self._piece + apart)
        self._words[:FIRST] = 0
        self._words[FILLED] = FIRST
        self._words[PACES] = int(self.has_paces)
        self._piece = min(_GROWTH * max(self._piece, len(self._words) - apart), _MOST_WORDS)

    def _another(self, words: int) -> NDArray[np.int64]:
        """Memory for so many words or more, whatever they are."""
        if self._piece >= _LEAST_WORDS:
            try:
                spare = self._spare.pop()
            except IndexError:
                pass
            else:
                if len(spare) >= words:
                    return spare
        if self._piece > _UNASKED_WORDS and 8 * self._piece > (there := free_bytes()):
            written = sum(map(len, self._full))
            raise LoweringError(
                f"the record of the run does not fit the memory of this machine: it has "
                f"{written // 2:,} entries of 16 bytes so far, and {there / 2**30:.1f} GiB are "
                "free. Record a shorter part of it, as with limits, or run it without a record"
            )
        return np.empty(words, np.int64)

    def _give_back(self, words: NDArray[np.int64]) -> None:
        """Nobody looks at this piece any more."""
        if len(words) in _SPARE_WORDS:
            self._spare.append(words)
