"""Workloads of matrix products: GEMM in four orders, attention of one head, a gated MLP."""

from __future__ import annotations

import stepsim as st
from tests.parity.stepdb.elementwise import matrix

__all__ = [
    "gated_mlp",
    "gemm",
    "matmul_binarymap",
    "outer_product_accum",
    "qkv_projection",
    "sdpa_core",
]


def gemm(m: int, k: int, n: int, tile_m: int, tile_k: int, tile_n: int) -> None:
    walk = (m // tile_m, n // tile_n, k // tile_k)
    _, over_n, over_k = walk
    a = st.linear_load(matrix(m, k), (tile_m, tile_k), shape=walk, stride=(over_k, 0, 1))
    b = st.linear_load(matrix(k, n), (tile_k, tile_n), shape=walk, stride=(0, 1, over_n))
    st.linear_store(st.map_accum(st.fn.matmul, a, b, rank=1, write_back=True), "c")


def matmul_binarymap(b: int, h: int, tile_m: int, tile_n: int) -> None:
    rows, cols = b // tile_m, h // tile_n
    x = st.linear_load(matrix(b, h), (tile_m, h), shape=(rows, 1), stride=(1, 1))
    w = st.linear_load(matrix(h, h), (h, tile_n), shape=(rows, 1, cols), stride=(0, cols, 1))
    st.linear_store(st.map(st.fn.matmul, x.repeat(cols), w, write_back=True), "y")


def qkv_projection(b: int, d: int, proj_dim: int, tile_b: int, tile_proj: int) -> None:
    rows, cols = b // tile_b, proj_dim // tile_proj
    x = st.linear_load(matrix(b, d), (tile_b, d), shape=(rows,), stride=(1,))
    w = st.linear_load(matrix(d, proj_dim), (d, tile_proj), shape=(rows, cols), stride=(0, 1))
    st.linear_store(st.map(st.fn.matmul, x.repeat(cols), w, write_back=True), "y")


def outer_product_accum(b: int, m: int, n: int, tile_m: int, tile_n: int) -> None:
    walk = (m // tile_m, n // tile_n)
    x = st.linear_load(matrix(m, b), (tile_m, b), shape=walk, stride=(1, 0))
    y = st.linear_load(matrix(b, n), (b, tile_n), shape=walk, stride=(0, 1))
    st.linear_store(st.map(st.fn.matmul, x, y, write_back=True), "z")


def sdpa_core(m: int, n: int, d: int, tile_m: int, tile_n: int) -> None:
    rows, cols = m // tile_m, n // tile_n
    q = st.linear_load(matrix(m, d), (tile_m, d), shape=(rows,), stride=(1,))
    keys = st.linear_load(matrix(n, d), (tile_n, d), shape=(rows, cols), stride=(0, 1))
    scores = st.map(st.fn.matmul_t, q.repeat(cols), keys).map(st.fn.exp)
    above, below = st.broadcast(scores, 2)
    values = st.linear_load(matrix(n, d), (tile_n, d), shape=(rows, cols), stride=(0, 1))
    weighted = st.map_accum(st.fn.matmul, above, values, rank=1)
    total = below.accum(st.fn.add, rank=1).map(st.fn.row_sum)
    st.linear_store(st.map(st.fn.div, weighted, total, write_back=True), "y")


def gated_mlp(b: int, d: int, f: int, tile_b: int, tile_f: int) -> None:
    rows, cols = b // tile_b, f // tile_f
    walk = (rows, cols, 1)

    def product() -> st.Stream:
        x = st.linear_load(matrix(b, d), (tile_b, d), shape=walk, stride=(1, 0, 1))
        w = st.linear_load(matrix(d, f), (d, tile_f), shape=walk, stride=(0, 1, cols))
        return st.map_accum(st.fn.matmul, x, w, rank=1)

    gate, up = product(), product()
    hidden = st.map(st.fn.mul, gate.map(st.fn.silu), up).bufferize(1).streamify().unsqueeze(1)
    down = st.linear_load(matrix(f, d), (tile_f, d), shape=(rows, 1, cols), stride=(0, 1, 1))
    st.linear_store(st.map_accum(st.fn.matmul, hidden, down, rank=1, write_back=True), "y")
