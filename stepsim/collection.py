"""Building many long-lived objects without garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_MANY: Final = 1_000_000
"""Objects created between garbage collections; a few hundred megabytes at most."""


@contextmanager
def without_collection() -> Iterator[None]:
    """Suspend the search for reference cycles that Python starts whenever many objects were made.

    A program is thousands of objects that stay. Traversing them, and all imported modules, takes
    longer than building them, and finds nothing.
    """
    enabled = gc.isenabled()
    try:
        # An interrupt may arrive between any two statements.
        gc.disable()
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def rare_collection() -> Iterator[None]:
    """Collect garbage rarely inside, and only among objects created inside.

    For many programs in sequence: each leaves a few thousand objects in cycles.
    """
    before = gc.get_threshold()
    try:
        gc.freeze()
        gc.set_threshold(_MANY, *before[1:])
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
