"""What is being compiled at the moment, for those who report progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_under_way: list[str] = []


def under_compilation() -> str | None:
    """What some thread of this process compiles at the moment, None if none does."""
    return _under_way[-1] if _under_way else None


@contextmanager
def compiling(what: str) -> Iterator[None]:
    """Say during the block that this is being compiled."""
    _under_way.append(what)
    try:
        yield
    finally:
        _under_way.remove(what)
