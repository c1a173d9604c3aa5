"""One reading of a damaged file within limits of time and memory."""

from __future__ import annotations

import functools
import itertools
import resource
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stepsim.errors import StepSimError
from tests.fuzz.driver import note

__all__ = ["bounded", "new_path", "outcome", "scratch"]

_ROOM = 1 << 30
"""Bytes of address space that a reading may take on top of what the process has."""

_SECONDS = 60
"""Processor time after which a reading counts as endless; others take a fraction of a second."""

_LONGEST = 20_000
"""Characters of a message."""

_numbers = itertools.count()


class _Late(BaseException):
    """A reading comes to no end. No Exception, so that nothing on the way catches it."""


def outcome(
    read: Callable[[], object], what: str, content: bytes | None, *, seconds: float = _SECONDS
) -> str:
    """Read, and tell "accepted" or, after a `StepSimError`, "refused".

    ``what`` is read, and its content, are noted for the report of a failure. A reading that took
    ``seconds`` of processor time is endless.

    Raises
    ------
    Exception
        Whatever else the reading raises, which breaks the contract of the readers.
    AssertionError
        It comes to no end, or the message of the error cannot be shown.
    """
    note(f"{what}: {content!r}")
    try:
        with bounded(seconds):
            read()
    except StepSimError as error:
        text = str(error)
        assert text.strip(), "the error has no message"
        assert len(text) <= _LONGEST, f"the message has {len(text)} characters"
        text.encode()
        return "refused"
    except _Late as late:
        raise AssertionError(
            f"endless: no end after {seconds:g} s of processor time"
        ).with_traceback(late.__traceback__) from None
    return "accepted"


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _ROOM, hard))

    def late(*_: object) -> None:
        raise _Late

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@functools.cache
def scratch() -> Path:
    """A folder that goes with the process."""
    _kept.append(tempfile.TemporaryDirectory(prefix="stepsim-fuzz-"))
    return Path(_kept[-1].name)


_kept: list[tempfile.TemporaryDirectory[str]] = []


@contextmanager
def new_path(name: str, content: bytes) -> Iterator[Path]:
    """A file with a new name that ends in ``name``, since an old one may still be mapped."""
    path = scratch() / f"{next(_numbers)}-{name}"
    path.write_bytes(content)
    try:
        yield path
    finally:
        path.unlink()
