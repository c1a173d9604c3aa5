"""Building many long-lived objects without looking for garbage among them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["rare_collection", "without_collection"]

_MANY: Final = 1_000_000
"""Objects that are made before garbage is looked for; some hundred megabytes at most."""


@contextmanager
def without_collection() -> Iterator[None]:
    """Python looks for cycles of garbage whenever many objects were made; inside, it does not.

    A program is thousands of objects that stay. To go through them, and through all imported
    modules, takes longer than to build them, and finds nothing.
    """
    enabled = gc.isenabled()
    try:
        # An interrupt may come between any two statements.
        gc.disable()
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def rare_collection() -> Iterator[None]:
    """Inside, garbage is looked for rarely, and only among what was made inside.

    For many programs one after the other: each leaves some thousand objects in cycles.
    """
    before = gc.get_threshold()
    try:
        gc.freeze()
        gc.set_threshold(_MANY, *before[1:])
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
