"""Whether the state of a run has a journal, as kernels ask it.

:mod:`stepsim.kernels.recording.flag_type` makes the answer a constant for the compiler.
"""

from __future__ import annotations

from typing import Any


def is_recording(state: Any) -> bool:
    """Whether the run is recorded."""
    return hasattr(state, "journal")


def journal_of(state: Any) -> Any:
    """The words of the journal; compiled for a run without one, they are nowhere."""
    return state.journal
