"""Mixtures of experts: tokens in row tiles of their expert, and one token at a time."""

from __future__ import annotations

import stepsim as st
from tests.parity.stepdb.elementwise import matrix
from tests.parity.stepdb.router import experts_of_tokens

__all__ = ["generated_moe", "moe_routed"]


def moe_routed(
    b: int, d: int, f: int, n_experts: int, n_active: int, tile_n: int, tile_f: int
) -> None:
    cols = f // tile_f
    routing = st.routing(experts_of_tokens(b, d, f, n_experts, n_active), experts=n_experts)
    tokens = st.linear_load(matrix(b, d), (1, d), shape=(b,), stride=(1,))
    blocks = [
        own.reshape(tile_n, pad=0, add_outer=True).flatten(1, 2).accum(st.fn.pack_rows, rank=1)
        for own in st.partition(tokens, routing.multihot(), rank=0)
    ]
    inputs = [block.repeat(cols) for block in blocks]

    def weights(rows: int, columns: int, tile: tuple[int, int]) -> list[st.Stream]:
        loads = [
            st.linear_load(matrix(rows, columns), tile, shape=(cols, 1), stride=(1, 1), ref=block)
            for block in blocks
        ]
        return [load.flatten(0, 1) for load in loads]

    def products() -> list[st.Stream]:
        loads = weights(d, f, (d, tile_f))
        return [st.map(st.fn.matmul, x, w) for x, w in zip(inputs, loads, strict=True)]

    up = products()
    gate = [product.map(st.fn.silu) for product in products()]
    hidden = [st.map(st.fn.mul, u, g) for u, g in zip(up, gate, strict=True)]
    down = weights(f, d, (tile_f, d))
    packed = [st.map_accum(st.fn.matmul, x, w, rank=1) for x, w in zip(hidden, down, strict=True)]
    rows = [x.flat_map(st.fn.unpack_rows(drop_padding=True)) for x in packed]
    scores = st.linear_load(matrix(b, n_active), (1, 1), shape=(b, n_active), stride=(n_active, 1))
    shares = st.partition(scores, routing.onehot(), rank=0)
    weighted = [st.map(st.fn.mul, share, x) for share, x in zip(shares, rows, strict=True)]
    # A selector of its own, since the first one waits until the experts are done.
    gathered = st.reassemble(weighted, routing.multihot(), rank=0)
    st.linear_store(gathered.accum(st.fn.add, rank=1), "y")


def generated_moe(b: int, d: int, f: int, n_experts: int, n_active: int) -> None:
    routing = st.routing(experts_of_tokens(b, d, f, n_experts, n_active), experts=n_experts)
    which = routing.onehot()
    tokens = st.linear_load(matrix(b, d), (1, d), shape=(b,), stride=(1,)).repeat(n_active)
    scores = st.linear_load(matrix(b, n_active), (1, 1), shape=(b, n_active), stride=(n_active, 1))
    own, shares = st.partition(tokens, which, rank=0), st.partition(scores, which, rank=0)
    outputs = []
    for x, share in zip(own, shares, strict=True):

        def weight(rows: int, columns: int, x: st.Stream = x) -> st.Stream:
            whole = (rows, columns)
            load = st.linear_load(matrix(*whole), whole, shape=(1,), stride=(1,), ref=x)
            return load.flatten(0, 1)

        gate = st.map(st.fn.matmul, x, weight(d, f)).map(st.fn.silu)
        up = st.map(st.fn.matmul, x, weight(d, f))
        hidden = st.map(st.fn.mul, gate, up)
        outputs.append(st.map(st.fn.mul, st.map(st.fn.matmul, hidden, weight(f, d)), share))
    gathered = st.reassemble(outputs, which, rank=0)
    st.linear_store(gathered.accum(st.fn.add, rank=1).accum(st.fn.add, rank=1), "y")
