"""Workloads that scale rows: softmax and the norms. Matrices have ``k / tile_k`` column tiles."""

from __future__ import annotations

import stepsim as st
from tests.parity.stepdb.elementwise import matrix

__all__ = ["layernorm", "residual_add_norm", "rms_norm", "softmax"]

EPSILON = 1e-5


def softmax(m: int, k: int, tile_m: int, tile_k: int) -> None:
    x = st.linear_load(matrix(m, k), (tile_m, tile_k))
    kept, total = st.broadcast(x.map(st.fn.exp), 2)
    if k > tile_k:
        total = total.accum(st.fn.add, rank=1)
    total = repeated(total.map(st.fn.row_sum), k // tile_k)
    st.linear_store(st.map(st.fn.div, kept, total, write_back=True), "y")


def rms_norm(m: int, k: int, tile_m: int, tile_k: int) -> None:
    x = st.linear_load(matrix(m, k), (tile_m, tile_k))
    scale = reciprocal_deviation(x, k, tile_k)
    y = st.linear_load(matrix(m, k), (tile_m, tile_k))
    st.linear_store(st.map(st.fn.mul, y, scale, write_back=True), "y")


def residual_add_norm(m: int, k: int, tile_m: int, tile_k: int) -> None:
    x = st.linear_load(matrix(m, k), (tile_m, tile_k))
    residual = st.linear_load(matrix(m, k), (tile_m, tile_k))
    total = st.map(st.fn.add, x, residual)
    scale = reciprocal_deviation(total, k, tile_k)
    st.linear_store(st.map(st.fn.mul, total, scale, write_back=True), "y")


def layernorm(m: int, k: int, tile_m: int, tile_k: int) -> None:
    x = st.linear_load(matrix(m, k), (tile_m, tile_k))
    mean = summed(x.map(st.fn.mul_const(1 / k)), k // tile_k)
    centered = st.map(st.fn.add, x, repeated(mean.map(st.fn.mul_const(-1)), k // tile_k))
    scale = reciprocal_deviation(centered, k, tile_k)
    st.linear_store(st.map(st.fn.mul, centered, scale, write_back=True), "y")


def reciprocal_deviation(x: st.Stream, k: int, tile_k: int) -> st.Stream:
    """``1 / sqrt(mean(x^2) + eps)`` of every row, for each of its column tiles."""
    tiles = k // tile_k
    mean = summed(x.map(st.fn.square).map(st.fn.mul_const(1 / k)), tiles)
    return repeated(mean.map(st.fn.add_const(EPSILON)).map(st.fn.rsqrt), tiles)


def summed(x: st.Stream, tiles: int) -> st.Stream:
    """The sum of every row over its column tiles."""
    rows = x.map(st.fn.row_sum)
    return rows.accum(st.fn.add, rank=1) if tiles > 1 else rows


def repeated(x: st.Stream, tiles: int) -> st.Stream:
    return x.repeat(tiles) if tiles > 1 else x
