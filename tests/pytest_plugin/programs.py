"""Programs whose cost is set by their arguments."""

from __future__ import annotations

import stepsim as st


def linear(rows: int = 64, tile: int = 16, compute: int = 1024, name: str = "linear") -> st.Program:
    """A linear layer, bound by its matrix product."""
    with st.Program(name, compute_bw=compute) as program:
        x = st.linear_load(st.spec(rows, 64), tile=(tile, 64)).flatten(0, 1)
        w = st.linear_load(st.spec(64, 64), tile=(64, 64), ref=x).flatten(0, 1).flatten(0, 1)
        st.linear_store(st.map(st.fn.matmul, x, w), "y")
    return program


def stuck() -> st.Program:
    """One token is taken from a stream in both orders, so that the program deadlocks."""
    with st.Program("stuck", compute_bw=64, fifo_depth=1) as program:
        x = st.linear_load(st.spec(8, 8), tile=(1, 8)).flatten(0, 1)
        total = x.reshape(8, pad=0).accum(st.fn.add, rank=1)
        st.linear_store(st.map(st.fn.add, x, total.expand(8)), "y")
    return program


def undecided() -> st.Program:
    """Tiles of requests whose lengths arrive in an order that only a run decides."""
    with st.Program("undecided", compute_bw=64) as program:
        lengths, source = st.eager_merge([st.metadata([1, 2]), st.metadata([2, 1])])
        source.consume()
        index = st.metadata([0, 1, 2, 3])
        lengths = lengths.assume_shape(4)
        addresses = index.flat_map(st.fn.cache_read_addresses(2), lengths)
        keys = st.random_load(addresses, st.spec(8, 4), tile=(1, 4))
        keys.accum(st.fn.pack_rows, 1).map(st.fn.exp).consume()
    return program


def cached() -> st.Program:
    """Tiles of requests whose lengths are constants."""
    with st.Program("cached", compute_bw=64) as program:
        index, lengths = st.metadata([0, 1]), st.metadata([2, 3])
        addresses = index.flat_map(st.fn.cache_read_addresses(4), lengths)
        keys = st.random_load(addresses, st.spec(8, 4), tile=(1, 4))
        keys.accum(st.fn.pack_rows, 1).map(st.fn.exp).consume()
    return program
