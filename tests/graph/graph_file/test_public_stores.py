"""Stores: the shape and the path that they state."""

from __future__ import annotations

import numpy as np

import stepsim as st
from stepsim.graph.graph_file.messages import schema_of
from stepsim.graph.graph_file.numbers import numbers_of


def load(*shape: int) -> st.Stream:
    stride = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    return st.linear_load(st.spec(16, 8, dtype="f32"), (1, 8), shape=shape, stride=stride)


def test_stores_state_a_shape_and_no_path() -> None:
    """A path promises tiles with values, and a shape of no dims ends the public simulator."""
    with st.Program("stores", compute_bw=1) as program:
        st.linear_store(load(1, 3, 2), "whole")
        route = st.routing(st.spec(4, 1), experts=2)
        left, right = st.partition(load(4), route.multihot())
        st.linear_store(left, "left")
        st.linear_store(right)
    data = program.to_graph(bindings={route: np.array([[0], [1], [1], [1]])})
    operators = schema_of(numbers_of("B")).parse(data, "test").operators
    stores = [one.OffChipStore for one in operators if one.HasField("OffChipStore")]
    assert not any(one.HasField("store_path") for one in stores)
    assert [list(one.tensor_shape_tiled) for one in stores] == [[3, 2], [1, 1], [1, 1]]
