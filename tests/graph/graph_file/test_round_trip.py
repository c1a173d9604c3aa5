"""Programs that are written and read again: the same network, the same cycles."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import stepsim as st
from stepsim.errors import GraphFileError
from stepsim.workloads import Attention, Data, Model, Moe, Swiglu
from stepsim.workloads.models import Experts, MoEShape
from tests.graph.graph_file.support import SELECTED, small, unalike
from tests.layers import built
from tests.simulation.programs import INDICES
from tests.workloads import (
    test_attention as attention,
    test_decoder as decoder,
    test_latent_decoder as latent,
)

SMALL = MoEShape("small", 8, 2, 128, 256)
FEW = np.array([[0, 1]] * 6 + [[1, 2]] * 2)


def has_bf16(program: st.Program) -> bool:
    """Whether the format can state its floats only as those of a run that mocks them."""
    types = [stream.type for op in program.operators for stream in op.outputs]
    return any(isinstance(t, st.Tile) and t.dtype is st.graph.DType.bf16 for t in types)


def check(program: st.Program, bindings, folder: Path) -> st.Program:
    """Write, read, run both."""
    file = folder / "graph.pb"
    mock = has_bf16(program)
    written = program.to_graph(file, bindings=bindings, mock_bf16=mock)
    assert written == file.read_bytes()
    again = st.load_graph(file, fifo_depth=program.fifo_depth, mock_bf16=mock)
    assert unalike(st.graph.wire(program, bindings), st.graph.wire(again)) == []
    assert st.simulate(again).cycles == st.simulate(program, bindings=bindings).cycles
    return again


@pytest.mark.parametrize("regions", [None, 2], ids=["parallel", "shared"])
@pytest.mark.parametrize("tile", [2, 3, "dynamic"])
@pytest.mark.parametrize("indices", [INDICES, FEW], ids=["all experts", "three experts"])
def test_moe(indices, tile, regions, tmp_path):
    options = {} if regions is None else {"regions": regions}
    layer, bindings = built(Moe, routing=indices, model=SMALL, tile=tile, tile_inter=64, **options)
    check(layer.program, bindings, tmp_path)


@pytest.mark.parametrize("strategy", ["interleaved", "coarse", "dynamic"])
def test_attention(strategy, tmp_path):
    """The dynamic one is a cyclic graph."""
    made = Attention(model=attention.TINY, strategy=strategy).build(attention.BATCH)
    check(made.program, made.bindings(attention.BATCH), tmp_path)


def test_swiglu(tmp_path):
    made = Swiglu.of(tile=16, tile_inter=64, config="published").build(Data())
    check(made.program, {}, tmp_path)


@pytest.mark.parametrize("strategy", ["interleaved", "dynamic"])
def test_decoders_wait_by_an_operator_that_the_public_simulator_does_not_read(strategy):
    """Their barrier reassembles integers."""
    layer = decoder.layer(strategy=strategy, parts=decoder.FIGURE)
    message = r"join_ends.* FlatReassemble with input_dtype F32 or MultiHot, found U64; it reads"
    refused(layer, decoder.BATCH, message)


def test_whole_decoders_have_functions_that_the_format_has_not():
    refused(decoder.layer(), decoder.BATCH, r"no operator for rope_query.0.rotate#\d+ \(map\)")
    model = Model("tiny", 64, Experts(4, 2, 32, 16), latent.COMPRESSED)
    layer = latent.layer(model, parts="qkv")
    refused(layer, latent.data_for(model), r"join_key.0#.* no function for concat_cols")


def refused(layer, data, message):
    made = layer.build(data)
    with pytest.raises(GraphFileError, match=message):
        made.program.to_graph(bindings=made.bindings(data), mock_bf16=True, depths=False)


def test_a_function_that_the_format_has_not():
    with st.Program() as program:
        x = st.linear_load(st.spec(4, 4, dtype="f32"), (2, 4)).flatten(0, 1)
        x.flat_map(st.fn.emit(["m"], ("1", "n")), label="cut").consume()
    with pytest.raises(GraphFileError, match=r"no operator for cut#\d+ \(flat_map\)"):
        program.to_graph()


def test_many_families(tmp_path):
    again = check(small(), {}, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["graph.pb", "graph_2.npy"]
    assert np.load(tmp_path / "graph_2.npy").tolist() == SELECTED.tolist()
    assert again.name == "small"
    assert again.operators[0].label == "LinearOffChipLoad_0"


def test_bytes_alone_are_read_with_arrays():
    program = small()
    data = program.to_graph()
    again = st.load_graph(data, arrays={"SelectGen_2": SELECTED})
    assert st.simulate(again).cycles == st.simulate(program).cycles


def test_expressions_of_both_forms_of_sources(tmp_path):
    """With an outer dim of 1, which the format leaves out, and without, which it states."""
    with st.Program("forms", compute_bw=1) as program:
        for lead in ((), (1,)):
            shape = (*lead, 4, 2)
            stride = (0,) * len(lead) + (2, 1)
            x = st.linear_load(st.spec(4, 32, dtype="f32"), (1, 16), shape=shape, stride=stride)
            flags = SELECTED[:8].reshape(*shape, 2)
            for part in st.partition(x, st.selector(flags)):
                part.consume()
            st.metadata(np.arange(8).reshape(shape)).consume()
    again = check(program, {}, tmp_path)
    assert [str(op.outputs[0].shape) for op in again.operators if not op.inputs] == [
        str(op.outputs[0].shape) for op in program.operators if not op.inputs
    ]


def test_inferred_broadcasts_become_operators_and_stay_last(tmp_path):
    with st.Program("fan", compute_bw=4) as program:
        x = st.linear_load(st.spec(8, 16, dtype="f32"), (1, 16))
        st.linear_store(st.map(st.fn.add, x, x.map(st.fn.exp)))
        first, second = st.broadcast(x, 2)
        first.consume()
        second.consume()
    again = check(program, {}, tmp_path)
    kinds = [u.kind for u in st.graph.wire(again).units]
    assert kinds.count("Broadcast") == 2
    assert kinds[-1] == "Broadcast"
    assert all(u.operator is not None for u in st.graph.wire(again).units)
    check(again, {}, tmp_path)


def test_ports_of_the_memory_keep_their_order(tmp_path):
    """A load that nobody reads early is created last but enters before its reader."""
    with st.Program("ports", compute_bw=4) as program:
        late = st.linear_load(st.spec(64, 64, dtype="f32"), (16, 64), label="late")
        early = st.linear_load(st.spec(64, 64, dtype="f32"), (16, 64), label="early")
        st.linear_store(early.map(st.fn.exp), "a")
        st.linear_store(late, "b")
    check(program, {}, tmp_path)


def test_every_function_of_the_format(tmp_path):
    unary = ("silu", "exp", "row_sum", "row_max", "tanh", "rsqrt", "sigmoid", "square", "pow2",
             "transpose")  # fmt: skip
    with st.Program("functions", compute_bw=8) as program:
        x = st.linear_load(st.spec(32, 8, dtype="f32"), (4, 8), shape=(4, 2), stride=(2, 1))
        for name in unary:
            x.map(getattr(st.fn, name), label=name).consume()
        for name in ("add", "sub", "mul", "div", "matmul_t"):
            st.map(getattr(st.fn, name), x, x, label=name).consume()
        st.map(st.fn.matmul, x, x.map(st.fn.transpose)).consume()
        for name in ("add", "mul", "max", "last", "pack_rows", "pack_cols", "signal"):
            x.accum(getattr(st.fn, name), 1, label=name).consume()
        x.accum(st.fn.max, 1, st.fn.neg_infinity((4, 8))).consume()
        st.map_accum(st.fn.matmul_t, x, x, 1).consume()
        st.map(st.fn.set_offset, x.flatten(0, 1), st.metadata(np.ones(8, int))).consume()
        row = st.linear_load(st.spec(8, 8, dtype="f32"), (1, 8)).flatten(0, 1)
        st.map(st.fn.append_row, x.flatten(0, 1), row).consume()
    check(program, {}, tmp_path)


def test_generation_a(tmp_path):
    with st.Program("old", compute_bw=8, fifo_depth=1) as program:
        shape = {"shape": (1, 64, 2), "stride": (0, 2, 1)}
        x = st.linear_load(st.spec(64, 32, dtype="f32"), (1, 16), **shape).flatten(0, 1)
        w = st.linear_load(st.spec(64, 32, dtype="f32"), (1, 16), **shape).flatten(0, 1)
        y = st.map(st.fn.mul, x, w.map(st.fn.silu)).reshape(4)
        st.linear_store(y.accum(st.fn.add, 1, st.fn.zero((1, 16))), "y")
    file = tmp_path / "old.pb"
    program.to_graph(file, generation="A")
    again = st.load_graph(file, fifo_depth=1)
    assert unalike(st.graph.wire(program), st.graph.wire(again)) == []
    assert st.simulate(again).cycles == st.simulate(program).cycles
    assert b"OffChipLoad_0" in file.read_bytes()
    assert b"Linear" not in file.read_bytes()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: st.linear_load(st.spec(4, 4), (1, 4)), r"linear_load#0 .* outer dim of 1"),
        (
            lambda: st.linear_load(st.spec(4, 4), (1, 4), shape=(1, 4), stride=(0, 1)),
            r"linear_load#0 .* one type of floats, F32, found Tile\[1x4 bf16\]; .*mock_bf16=True",
        ),
        (lambda: st.metadata([[1, 2]]), r"metadata#0 .* no type for Tile\[1x1 u64\]"),
    ],
)
def test_what_generation_a_does_not_have(make, message):
    with st.Program("new") as program:
        make().consume()
    with pytest.raises(GraphFileError, match=message):
        program.to_graph(generation="A")


def test_what_the_format_does_not_have():
    def refused(make) -> str:
        with st.Program("odd", compute_bw=1) as program:
            make()
        with pytest.raises(GraphFileError) as caught:
            program.to_graph()
        assert "test_round_trip.py" in str(caught.value)
        return str(caught.value)

    def load() -> st.Stream:
        return st.linear_load(st.spec(4, 4, dtype="f32"), (1, 4))

    def own() -> None:
        load().map(st.fn.softplus, label="mine").consume()

    assert "no operator for zip#2" in refused(lambda: st.zip(load(), load()).consume())
    assert "run#1 (scan)" in refused(lambda: load().scan(st.fn.add, 1, label="run").consume())
    assert re.search(r"mine#1 \(.*\): the format has no function for softplus", refused(own))
    assert "linear_load#0" in refused(lambda: load().with_depth(9).consume())
    narrow = st.spec(4, 4, dtype="i4")
    assert "whole bytes" in refused(lambda: st.linear_load(narrow, (1, 4)).consume())


def test_depths_are_stated_again(tmp_path):
    def made() -> st.Program:
        with st.Program("deep", compute_bw=16) as program:
            x = st.linear_load(st.spec(64, 64, dtype="f32"), (16, 64)).with_depth(7)
            x.map(st.fn.exp).consume()
        return program

    data = made().to_graph(depths=False)
    again = st.load_graph(data, depths={0: 7})
    assert [f.depth for f in st.graph.wire(again).fifos] == [7, None]
    with pytest.raises(GraphFileError, match="no operator 9"):
        st.load_graph(data, depths={9: 7})


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(st.errors.OutputError):
        small().to_graph(tmp_path / "none" / "graph.pb")
    assert list(tmp_path.iterdir()) == []
