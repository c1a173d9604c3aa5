"""How alike the errors of estimates are at two places: a Matérn process of order 3/2."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]


def squared_distances(some: Reals, others: Reals) -> Reals:
    """Squared distances ``[some, others]`` of places ``[places, dimensions]``."""
    squares = (some**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2 * some @ others.T
    found: Reals = np.maximum(squares, 0.0)
    return found


def correlations(some: Reals, others: Reals, reach: float) -> Reals:
    """Correlations ``[some, others]`` of places ``[places, dimensions]``."""
    far = sqrt(3) / reach * np.sqrt(squared_distances(some, others))
    found: Reals = (1 + far) * np.exp(-far)
    return found
