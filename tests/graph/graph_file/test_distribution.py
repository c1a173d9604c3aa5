"""Operators that deal, repeat, filter, shuffle and mask come back from a file."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim as st
from stepsim.errors import GraphFileError
from tests.graph.graph_file.support import edited
from tests.graph.graph_file.test_round_trip import check


def rows(*shape: int) -> st.Stream:
    count = int(np.prod(shape))
    stride = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    return st.linear_load(st.spec(count * 4, 4, dtype="f32"), (4, 4), shape=shape, stride=stride)


def distribution() -> st.Program:
    with st.Program("distribution", compute_bw=8) as program:
        st.static_reassemble(st.parallelize(rows(1, 6).flatten(0, 1), 2)).consume()
        rows(3, 2).unsqueeze(2).consume()
        st.repeat_ref(st.metadata([7, 8]), st.metadata(np.zeros((2, 3, 4), int)), rank=1).consume()
        rows(3, 2).take_last().consume()
        st.filter_rows(rows(2), st.selector([[1, 0, 0, 1], [0, 1, 0, 1]])).consume()
        st.filter_rows(rows(2)).consume()
        which = st.selector(np.eye(2, dtype=int)[[[0, 1, 0]]])
        for stream in st.shuffle(rows(1, 3), which, write_back=True):
            stream.consume()
        row = st.linear_load(st.spec(6, 4, dtype="f32"), (1, 4), shape=(6,), stride=(1,))
        st.filter_rows(*row.reshape(2, pad=0, mask=True)).consume()
        rows(2).flat_map(st.fn.unpack_rows(chunk=2)).consume()
        rows(2).flat_map(st.fn.unpack_cols(chunk=3)).consume()
    return program


@pytest.mark.parametrize("model", ["step-2025", "step-2026"])
def test_they_come_back(model, tmp_path):
    program = distribution()
    again = check(program, {}, tmp_path)
    machine = st.load_machine("sda-1024", {"model": model})
    cycles = [st.simulate(p, machine=machine).cycles for p in (program, again)]
    assert cycles[0] == cycles[1]
    kinds = {u.kind for u in st.graph.wire(again).units}
    assert kinds >= {
        "StaticReassemble", "PromoteOuter", "RepeatRef", "TakeLast", "Shuffle",
        "FlatmapFilterRowStreamify", "ReshapePadStream", "RetileStreamify",
    }  # fmt: skip


def test_single_columns_are_laid_out_in_generation_a_only(tmp_path):
    with st.Program("columns") as program:
        rows(1, 2).flat_map(st.fn.unpack_cols()).consume()
    with pytest.raises(GraphFileError, match="chunk=1"):
        program.to_graph()
    again = st.load_graph(program.to_graph(generation="A"))
    assert [str(op.outputs[0].type) for op in again.operators[:2]] == [
        "Tile[4x4 f32]", "Tile[1x4 f32]"
    ]  # fmt: skip
    assert st.simulate(again).cycles == st.simulate(program).cycles


def test_what_the_format_has_not():
    with st.Program("odd") as program:
        st.interleave(st.deinterleave(rows(4), 2)).consume()
    with pytest.raises(GraphFileError, match=r"no operator for deinterleave#1, interleave#2"):
        program.to_graph()
    with st.Program("twice") as program:
        rows(4).repeat([2, 3]).consume()
    with pytest.raises(GraphFileError, match=r"repeats by one factor, found \[2, 3\]"):
        program.to_graph()


def test_an_outermost_dim_is_no_promote():
    with st.Program("outer") as program:
        rows(3, 2).unsqueeze(1).consume()

    def change(operators) -> None:
        operators[1].Promote.promote_rank = 2

    with pytest.raises(GraphFileError, match=r"'Promote_1'.*added by PromoteOuter"):
        st.load_graph(edited(program.to_graph(), change))
