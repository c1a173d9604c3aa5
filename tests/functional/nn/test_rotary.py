"""RoPE: values, FLOPs, errors."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, DTypeError
from tests.functional.nn import references as ref
from tests.functional.nn.support import checked, normal

HEADS, LENGTH, D, M = 2, 12, 8, 4
X = normal(HEADS, LENGTH, D)


def tiles(width: int = D) -> st.Stream:
    """[2, 3] of 4 x width."""
    return st.linear_load(X[..., :width].copy(), (M, width)).flatten(0, 1)


@pytest.mark.parametrize("pairs", ["half", "interleaved"])
@pytest.mark.parametrize("base", [10000.0, 50.0])
def test_rope(pairs: str, base: float) -> None:
    cos, sin = st.nn.rope_tables(LENGTH, D, base=base)
    y = ref.rope(X, base, pairs)
    checked(lambda: st.nn.rope(tiles(), cos, sin, pairs=pairs), y, 3 * HEADS * LENGTH * D)


def test_tables_can_be_longer_and_streams() -> None:
    cos, sin = st.nn.rope_tables(np.arange(2 * LENGTH), D)

    def streams() -> st.Stream:
        both = [st.linear_load(t, (M, D // 2), shape=(HEADS, 3), stride=(0, 1)) for t in (cos, sin)]
        return st.nn.rope(tiles(), *both)

    y, flops = ref.rope(X), 3 * HEADS * LENGTH * D
    checked(lambda: st.nn.rope(tiles(), cos, sin), y, flops)
    checked(streams, y, flops)


COS, SIN = st.nn.rope_tables(LENGTH, D)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: st.nn.rope(tiles(), COS[:8], SIN[:8]), ArgError, "cos has 8 rows, x has 3 tiles"),
        (lambda: st.nn.rope(tiles(), COS[:, :2], SIN), ArgError, "cos must be 12 x 4"),
        (lambda: st.nn.rope(tiles(), COS, tiles(4)), ArgError, "cos and sin must both be streams"),
        (lambda: st.nn.rope(tiles(7), COS, SIN), DTypeError, "7 columns, which do not make pairs"),
        (lambda: st.nn.rope(tiles(), COS, SIN, pairs="all"), ArgError, "pairs must be 'half'"),
        (lambda: st.nn.rope(tiles(), 3, SIN), ArgError, "cos must be any number x 4"),
        (lambda: st.nn.rope_tables(0, 8), ArgError, "positions must be a number from 1"),
        (lambda: st.nn.rope_tables(4, 7), ArgError, "dim must be an even int"),
        (lambda: st.nn.rope_tables(4, 8, base=0), ArgError, "base must be a positive number"),
    ],
)
def test_errors_name_the_argument(call, error, message: str) -> None:
    with pytest.raises(error, match=message), st.Program(compute_bw=8):
        call()
