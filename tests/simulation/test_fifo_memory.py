"""The column ``fifo_bytes``: depth times size of a token, of all FIFOs."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim as st
from stepsim.simulation import make_case
from stepsim.simulation.cases.fifo_memory import FifoMemory
from stepsim.workloads import Data


def _programs() -> st.Program:
    with st.Program("two FIFOs", compute_bw=64) as program:
        x = st.linear_load(st.spec(4, 8), tile=(2, 8)).with_depth(3)
        x.map(st.fn.silu).with_depth(5).consume()
    return program


def test_it_is_depth_times_tile() -> None:
    memory = FifoMemory(st.prepare(_programs()))
    tile = 2 * 8 * 2  # bf16
    assert {one.depth for one in memory.prepared.wiring.fifos} == {3, 5}
    assert memory.of(dict) == (3 + 5) * tile


def test_it_is_unknown_where_a_fifo_has_no_end() -> None:
    prepared = st.prepare(_programs())
    (first, *_) = prepared.fifo_numbers
    assert FifoMemory(prepared.changed(fifo_depths={first: None})).of(dict) is None


@pytest.mark.parametrize("counting", ["executed", "published", "paper"])
def test_tiles_of_dynamic_height_count_with_the_heights_of_the_run(counting: str) -> None:
    rows = np.array([[i % 8, (i * 3 + 1) % 8] for i in range(64)])
    data = Data.of(routing=rows)
    case = make_case("moe", data, model="mixtral-8x7b", tile="dynamic", counting=counting)
    found = case.measures(case.run(data), data, ["fifo_bytes"])["fifo_bytes"]
    bound = case.metrics.bind(case.built.symbols(data))
    fifos = zip(
        case.prepared.wiring.fifos, case.prepared.template.first.channels["cap"], strict=True
    )
    sizes = [cap * bound.value(st.graph.slot_bytes(fifo.stream.type)) for fifo, cap in fifos]
    assert found == sum(sizes) > 0


def test_other_depths_of_a_case_have_other_bytes() -> None:
    rows = np.array([[i % 8, (i * 3 + 1) % 8] for i in range(64)])
    data = Data.of(routing=rows)
    case = make_case("moe", data, model="mixtral-8x7b", tile=16)
    done = case.run(data)
    before = case.measures(done, data)["fifo_bytes"]
    deep = case.with_fifo_depths(dict.fromkeys(case.prepared.fifo_numbers, 8))
    assert deep.measures(done, data)["fifo_bytes"] != before
    assert case.measures(done, data)["fifo_bytes"] == before
