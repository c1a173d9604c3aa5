"""Truth values that a run computes, as numbers 0 and 1, and attention under masks of them."""

from __future__ import annotations

import numpy as np

from stepsim.design.operators.importers import values as of
from stepsim.design.operators.importers.values import Place, Value

_HIDDEN = -1e30
"""Added to scores that a mask hides: they vanish next to any visible score, and a row of only
hidden scores still has a softmax, which with minus infinity would be NaN."""


def both(x: Value, y: Value, at: Place) -> Value:
    """``x and y``."""
    return of.elementwise("ne", (of.elementwise("min", (x, y), at), of.constant(0.0)), at)


def either(x: Value, y: Value, at: Place) -> Value:
    """``x or y``."""
    return of.elementwise("ne", (of.elementwise("max", (x, y), at), of.constant(0.0)), at)


def negated(x: Value, at: Place) -> Value:
    """``not x``."""
    return of.elementwise("eq", (x, of.constant(0.0)), at)


def added_mask(mask: Value, at: Place) -> Value:
    """The term that a mask of visible places adds to scores."""
    return of.elementwise("where", (mask, of.constant(0.0), of.constant(_HIDDEN)), at)


def with_causal(mask: Value, bools: bool, start: int, shape: tuple[int, int], at: Place) -> Value:
    """A mask [..., queries, keys] under which a query sees no key after its own position either.

    ``bools``: the mask says what is seen; else it is added, and known. ``start``: position of the
    first query.
    """
    before = np.tri(*shape, k=start, dtype=bool)
    if bools and not mask.is_constant:
        return both(mask, of.constant(before.astype(np.float32)), at)
    array = np.asarray(mask.array)
    if bools:
        return of.constant(array & before, at)
    return of.constant((array + np.where(before, 0, -np.inf)).astype(np.float32), at)


def seen_rows(attended: Value, mask: Value, at: Place) -> Value:
    """Attention, with zeros for queries of which a mask hides all keys, as PyTorch has them."""
    numbers = of.elementwise("where", (mask, of.constant(1.0), of.constant(0.0)), at)
    any_key = of.reduce("max", numbers, (-1,), True, at)
    return of.elementwise("mul", (attended, any_key), at)
