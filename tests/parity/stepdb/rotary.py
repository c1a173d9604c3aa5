"""Rotary embedding: the halves of every head swapped, one of them negated."""

from __future__ import annotations

import stepsim as st
from tests.parity.stepdb.elementwise import matrix

__all__ = ["rope", "rotate_half"]


def rotate_half(batch: int, num_heads: int, head_dim: int) -> None:
    x = heads(batch, num_heads, head_dim)
    st.linear_store(rotated(x, batch, head_dim, write_back=True), "y")


def rope(batch: int, num_q_heads: int, num_kv_heads: int, head_dim: int) -> None:
    qk = heads(batch, num_q_heads + num_kv_heads, head_dim)
    turned = rotated(qk, batch, head_dim)
    cos, sin = (rows(batch, matrix(batch, head_dim), (1, head_dim)) for _ in range(2))
    kept, moved = st.map(st.fn.mul, qk, cos), st.map(st.fn.mul, turned, sin)
    st.linear_store(st.map(st.fn.add, kept, moved), "y")


def heads(batch: int, count: int, head_dim: int) -> st.Stream:
    """One tile of all heads per request: ``[1, batch, 1]``."""
    return rows(batch, matrix(batch * count, head_dim), (count, head_dim))


def rows(batch: int, whole: st.graph.TensorSpec, tile: tuple[int, int]) -> st.Stream:
    return st.linear_load(whole, tile, shape=(1, batch, 1), stride=(0, 1, 1))


def rotated(x: st.Stream, batch: int, head_dim: int, write_back: bool = False) -> st.Stream:
    """``(-second half, first half)`` of every tile of ``x``."""
    halves = x.flat_map(st.fn.unpack_cols(chunk=head_dim // 2)).flatten(0, 2)
    first, second = st.parallelize(halves, 2)
    negated = second.map(st.fn.mul_const(-1))
    swapped = st.static_reassemble([negated, first], rank=0)
    joined = swapped.reshape(2).accum(st.fn.pack_cols, rank=1, write_back=write_back)
    return joined.reshape(1).reshape(batch, dim=1)
