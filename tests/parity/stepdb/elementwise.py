"""Workloads without reductions over rows or columns: activations, sums of tiles, a diamond."""

from __future__ import annotations

import stepsim as st

__all__ = [
    "broadcast_diamond",
    "chained_unary",
    "element_wise_add",
    "silu_activation",
    "vector_reduce_sum",
]


def matrix(rows: int, cols: int) -> st.graph.TensorSpec:
    return st.spec(rows, cols, dtype="f32")


def silu_activation(m: int, k: int, tile_m: int, tile_k: int) -> None:
    x = st.linear_load(matrix(m, k), (tile_m, tile_k))
    st.linear_store(x.map(st.fn.silu, write_back=True), "y")


def element_wise_add(m: int, k: int, tile_m: int, tile_k: int) -> None:
    a = st.linear_load(matrix(m, k), (tile_m, tile_k))
    b = st.linear_load(matrix(m, k), (tile_m, tile_k))
    st.linear_store(st.map(st.fn.add, a, b, write_back=True), "y")


def vector_reduce_sum(m: int, k: int, tile_m: int, tile_k: int) -> None:
    x = st.linear_load(matrix(m, k), (tile_m, tile_k))
    st.linear_store(x.accum(st.fn.add, rank=1, write_back=True), "y")


def chained_unary(m: int, k: int, tile_m: int, tile_k: int) -> None:
    x = st.linear_load(matrix(m, k), (tile_m, tile_k))
    y = x.map(st.fn.square).map(st.fn.exp).map(st.fn.silu)
    st.linear_store(y.map(st.fn.rsqrt, write_back=True), "y")


def broadcast_diamond(m: int, k: int, tile_m: int, tile_k: int) -> None:
    x = st.linear_load(matrix(m, k), (tile_m, tile_k))
    first, second, third = st.broadcast(x, 3)
    a, b, c = first.map(st.fn.square), second.map(st.fn.silu), third.map(st.fn.exp)
    y = st.map(st.fn.add, st.map(st.fn.add, a, b), c, write_back=True)
    st.linear_store(y, "y")
