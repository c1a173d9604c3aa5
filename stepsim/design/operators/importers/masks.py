"""Masks stored as numbers in a model, recognized by their meaning."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

MINUS_INFINITY = -6e4
"""Scores from here down have no part in a softmax: models write the lowest number of their type
for minus infinity, and f16 ends at -65504. Elsewhere such a number is a number."""


class Causal(NamedTuple):
    """Position of the first query, and how many keys a query sees; None is all before it."""

    start: int
    window: int | None


def hidden_by(added: Any, most: float = MINUS_INFINITY) -> Any:
    """Which places a mask that is added hides, by numbers up to ``most``; None when it is more than
    these and zeros."""
    numbers = np.asarray(added)
    if numbers.dtype == np.bool_:
        return None
    hidden = numbers <= most
    return hidden if np.all(numbers[~hidden] == 0) and hidden.any() else None


def causal(visible: Any, queries: int, keys: int) -> Causal | None:
    """The causal mask that a mask of visible places [..., queries, keys] is, if any.

    Every query sees the keys up to its own position, or the last few of them.
    """
    seen = np.asarray(visible, bool)
    plane = seen.reshape(-1, *seen.shape[-2:]) if seen.ndim > 2 else seen.reshape(1, *seen.shape)
    if not np.all(plane == plane[:1]):
        return None
    try:
        rows = np.broadcast_to(plane[0], (queries, keys))
    except ValueError:
        return None
    if not rows.any(axis=1).all():
        return None
    key = np.arange(keys)
    last = keys - 1 - np.argmax(rows[0, ::-1])
    first = np.argmax(rows, axis=1)
    position = last + np.arange(queries)[:, None]
    # The row of the last query shows the window: earlier rows may still see everything.
    window = int(position[-1, 0] - first[-1] + 1) if first[-1] > 0 else None
    expected = key <= position
    if window is not None:
        expected &= key > position - window
    return Causal(int(last), window) if np.array_equal(rows, expected) else None
