"""The line of the user's program that creates an operator."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parents[2])

_ours: set[str] = set()
"""A cache of files of this package, as thousands of frames are inspected."""

_LIBRARIES = (
    "<frozen",
    str(Path(os.__file__).parent),
    *(folder for folder in sys.path if folder.endswith(("site-packages", "dist-packages"))),
)

_UNLOCATED: ContextVar[bool] = ContextVar("unlocated", default=False)


@contextmanager
def without_source_lines() -> Iterator[None]:
    """Operators created inside have no source line: a program is the same wherever it is built."""
    token = _UNLOCATED.set(True)
    try:
        yield
    finally:
        _UNLOCATED.reset(token)


def user_frame() -> tuple[str, int]:
    """File and line of the first frame outside this package.

    ``("", 0)`` if a library called the package, as on the command line: then no line of the user's
    code built the operator.
    """
    if _UNLOCATED.get():
        return "", 0
    frame = sys._getframe(1)
    while (path := frame.f_code.co_filename) in _ours or _is_ours(path):
        if frame.f_back is None:
            return "", 0
        frame = frame.f_back
    return ("", 0) if path.startswith(_LIBRARIES) else (path, frame.f_lineno)


def _is_ours(path: str) -> bool:
    if not path.startswith(_PACKAGE):
        return False
    _ours.add(path)
    return True


def source_line() -> str:
    """``file:line`` of the user's code; empty if there is none."""
    return location(*user_frame())


def location(path: str, line: int) -> str:
    """The result of :func:`user_frame` as ``file:line``; empty if there is no such frame."""
    return f"{path}:{line}" if path else ""
