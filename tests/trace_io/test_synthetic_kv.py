"""Synthetic KV lengths: spread, bounds, the same numbers everywhere."""

from __future__ import annotations

from decimal import Context, localcontext

import numpy as np
import pytest

from stepsim.errors import ArgError
from stepsim.trace_io.requests.synthetic_kv import synthetic_kv_lengths
from tests.samples import sampled_rows


def test_golden_numbers() -> None:
    lengths = synthetic_kv_lengths(4, seed=1)
    assert lengths.dtype == np.int64
    assert not lengths.flags.writeable
    assert lengths.tolist() == GOLDEN


GOLDEN = [1087, 82, 3145, 86]


def test_the_context_of_the_caller_does_not_matter() -> None:
    with localcontext(Context(prec=3)):
        assert synthetic_kv_lengths(4, seed=1).tolist() == GOLDEN


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spread", "variation"),
    sampled_rows([(0, 0), (0.5, 0.52), (1, 1), (1.25, 1.26)], [(0, 0), (1.25, 1.26)]),
)
def test_mean_and_spread(spread: float, variation: float) -> None:
    lengths = synthetic_kv_lengths(4000, seed=3, spread=spread)
    assert lengths.mean() == pytest.approx(1100, abs=0.5)
    assert lengths.std() / lengths.mean() == pytest.approx(variation, rel=0.06, abs=1e-9)


def test_maximum() -> None:
    free = synthetic_kv_lengths(100, seed=0)
    assert np.array_equal(synthetic_kv_lengths(100, seed=0, maximum=999), np.minimum(free, 999))
    assert free.max() > 999


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"requests": 0}, "requests is 0, expected at least 1"),
        ({"seed": -1}, "seed is -1, expected at least 0"),
        ({"mean": -1}, "mean is -1"),
        ({"maximum": -1}, "maximum is -1"),
        ({"spread": 5}, r"spread is 5, expected 0\.\.4"),
        ({"spread": float("nan")}, "spread is nan"),
    ],
)
def test_bad_arguments(arguments, message) -> None:
    with pytest.raises(ArgError, match=message):
        synthetic_kv_lengths(**{"requests": 4, "seed": 0} | arguments)
