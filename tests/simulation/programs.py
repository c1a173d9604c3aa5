"""Programs with a known end."""

from __future__ import annotations

from typing import Any

import numpy as np

import stepsim as st
from stepsim.lowering import Network
from stepsim.workloads import Moe
from stepsim.workloads.models import MoEShape
from tests.layers import built
from tests.oracle.build import NetBuilder

__all__ = ["INDICES", "centered", "long_network", "simulate_moe", "uneven"]

INDICES = np.array([[0, 1], [1, 2], [5, 7], [6, 0], [3, 1], [0, 5], [2, 7], [1, 4]])


def centered(depth: int = 2) -> st.Program:
    """Every tile of a row meets the row's sum: deadlocks unless a FIFO holds a row of 8."""
    with st.Program("center", compute_bw=1024, fifo_depth=depth) as program:
        x = st.linear_load(st.spec(64, 512), tile=(16, 64), label="x")
        total = x.accum(st.fn.add, rank=1, label="total")
        y = st.map(st.fn.add, x, total.unsqueeze(0).expand(8), label="y")
        st.linear_store(y, "y", label="store")
    return program


def uneven() -> tuple[st.Program, st.graph.Routing, st.graph.Routing]:
    """Adds the rows that two routings send to their first target."""
    with st.Program("uneven", compute_bw=1024) as program:
        parts = []
        tables = []
        for name in ("left", "right"):
            rows = st.linear_load(st.spec(4, 64), tile=(1, 64), label=name).flatten(0, 1)
            tables.append(st.routing(st.spec(4, 1, name=name), 2))
            parts.append(st.partition(rows, tables[-1].multihot(), rank=0))
        program.assume_equal(parts[0][0].shape[0], parts[1][0].shape[0])
        st.consume(st.map(st.fn.add, parts[0][0], parts[1][0], label="sum"))
        for part in parts:
            st.consume(part[1])
    return program, tables[0], tables[1]


def simulate_moe(tile: int | str = 2, **options: Any) -> st.Result:
    """Simulate a small layer of 8 experts."""
    small = MoEShape("small", 8, 2, 128, 256)
    layer, bindings = built(Moe, routing=INDICES, model=small, tile=tile, tile_inter=64)
    return st.simulate(layer.program, bindings=bindings, **options)


def long_network(tokens: int = 400) -> Network:
    """A load, a map and a store that fire many times."""
    b = NetBuilder(capacity=2)
    b.unit("load", "OffChipLoad", [], ["x"], tile=[4, 32], view=[tokens], par=1, bpe=2)
    b.unit("map", "UnaryMap", ["x"], ["y"], fn="Silu", bw=64, wb=True)
    b.unit("store", "OffChipStore", ["y"], [], tile=[4, 32], par=1)
    return b.network()
