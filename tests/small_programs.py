"""Programs of a few operators that tests of several rooms run."""

from __future__ import annotations

from functools import cache

import stepsim as st

__all__ = ["center", "diamond", "gated"]


def center(depth: int | None = None) -> st.Program:
    """The sum of a row is added to its 8 tiles, which wait for it in the bypass."""
    with st.Program("center", compute_bw=1024, fifo_depth=2) as program:
        x = st.linear_load(st.spec(64, 512), tile=(16, 64))
        total = x.accum(st.fn.add, rank=1)
        y = st.map(st.fn.add, x, total.unsqueeze(0).expand(8))
        st.linear_store(y if depth is None else y.with_depth(depth), "y")
    return program


def gated() -> st.Program:
    """Two functions of the same tiles, multiplied."""
    with st.Program("gated", compute_bw=1024) as program:
        x = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
        gate, up = x.map(st.fn.silu), x.map(st.fn.gelu)
        st.linear_store(st.zip(gate, up).map(st.fn.mul), "out")
    return program


@cache
def diamond() -> st.Program:
    """The sum of two functions of the same tiles."""
    with st.Program("diamond", compute_bw=64) as program:
        tiles = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
        one, other = tiles.map(st.fn.silu), tiles.map(st.fn.gelu)
        st.linear_store(st.zip(one, other).map(st.fn.add), "out")
    return program
