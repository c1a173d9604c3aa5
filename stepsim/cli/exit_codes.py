"""Exit codes of the command line; scripts rely on them."""

from __future__ import annotations

import errno
from typing import Final

from stepsim.errors import OutputError, StepSimError, UserCodeError, WorkerError

RUN_FAILED: Final = 1
"""A run ended in a deadlock, with a failed unit or at a limit; the user's code raised an exception;
or a compiled design does not fit the machine."""

REGRESSED: Final = 1
"""`compare --fail-above` found a run that is worse than allowed, or that newly fails."""

BAD_INPUT: Final = 2
"""An option, file, trace or machine cannot be used, or the name of an output is invalid."""

WORKERS_LOST: Final = 3
"""The workers of a sweep were lost or did not start; ``--resume`` continues."""

NOT_WRITTEN: Final = 4
"""The disk is full or fails, a quota is exceeded, or memory runs out while results are written."""

SIGNAL: Final = 128
"""Added to the number of the signal that ended a sweep: 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP."""

MEANINGS: Final = {
    0: "done",
    RUN_FAILED: "the run failed (deadlock, failed unit, limit, exception in the user's file), a "
    "compiled design does not fit the machine, or compare --fail-above found a regression",
    BAD_INPUT: "bad input",
    WORKERS_LOST: "the workers of a sweep were lost",
    NOT_WRITTEN: "the disk is full or fails",
}
"""The meaning of every code except those of signals."""

_NO_ROOM = frozenset(
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EFBIG", "EIO", "ENOMEM")
    if hasattr(errno, name)
)
"""Errors that another file name does not fix; Windows has no quotas."""


def code_of(error: StepSimError) -> int:
    """The exit code for an error that ends a command."""
    if isinstance(error, UserCodeError):
        return RUN_FAILED
    if isinstance(error, WorkerError):
        return WORKERS_LOST
    if isinstance(error, OutputError) and (
        is_no_room(error.__cause__) or isinstance(error.__cause__, MemoryError)
    ):
        return NOT_WRITTEN
    return BAD_INPUT


def is_no_room(error: BaseException | None) -> bool:
    """Whether the file could be written at another time."""
    return isinstance(error, OSError) and error.errno in _NO_ROOM
