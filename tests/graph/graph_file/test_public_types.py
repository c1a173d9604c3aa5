"""Types of streams: what the public simulator reads is written, and the rest is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.errors import GraphFileError
from stepsim.graph.graph_file.messages import chosen, schema_of
from stepsim.graph.graph_file.numbers import numbers_of
from tests.functional.random_programs import random_program
from tests.graph.graph_file.support import edited, unalike
from tests.graph.graph_file.test_round_trip import has_bf16


def tiles(*shape: int, dtype: str = "f32") -> st.Stream:
    """A source with an outer dim of 1, as both generations have it."""
    stride = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    spec = st.spec(4 * int(np.prod(shape)), 8, dtype=dtype)
    return st.linear_load(spec, (4, 8), shape=(1, *shape), stride=[0, *stride])


def stated(data: bytes, generation: str = "B") -> dict[str, dict[str, Any]]:
    """The types that operators state, by operator and field."""
    found: dict[str, dict[str, Any]] = {}
    for one in schema_of(numbers_of(generation)).parse(data, "test").operators:
        kind = chosen(one)
        message = getattr(one, kind)
        found[kind] = {
            field.name: value
            for field, value in message.ListFields()
            if field.name.endswith(("dtype", "dtype_a", "dtype_b", "dtype_out"))
        }
    return found


def buffered() -> st.Program:
    with st.Program("buffers", compute_bw=8) as program:
        held = tiles(2, 3).bufferize(1)
        first, second = st.broadcast(held, 2)
        first.streamify(repeat=2).consume()
        st.linear_load(st.spec(8, 8, dtype="f32"), (4, 8), shape=(2,), stride=(1,),
                       ref=second).consume()  # fmt: skip
        ref = tiles(2, 5)
        tiles(2, 1, 3).bufferize(1).streamify(ref).consume()
    return program


@pytest.mark.parametrize("generation", ["A", "B"])
def test_reads_of_buffers_state_tiles_and_buffers_what_they_hold(generation: str) -> None:
    program = buffered()
    data = program.to_graph(generation=generation)
    found = stated(data, generation)
    for kind, field in (("Streamify", "dtype"), ("DynStreamify", "input_dtype"),
                        ("DynStreamify", "ref_dtype"), ("Bufferize", "dtype")):  # fmt: skip
        assert chosen(found[kind][field]) == "F32", (kind, field)
    for kind, field in (("Broadcast", "dtype"), ("LinearOffChipLoadRef", "ref_dtype")):
        assert chosen(found[kind][field]) == "Buffer"
        assert found[kind][field].Buffer.HasField("f32")
        assert not found[kind][field].Buffer.HasField("f16")
    again = st.load_graph(data)
    assert unalike(st.graph.wire(program), st.graph.wire(again)) == []
    assert st.simulate(again).cycles == st.simulate(program).cycles


@pytest.mark.parametrize("generation", ["A", "B"])
@pytest.mark.parametrize("inner", [True, False])
def test_files_that_state_buffers_there_are_still_read(generation: str, inner: bool) -> None:
    """Earlier versions of stepsim wrote them, in generation B without what they hold."""

    def change(operators: Any) -> None:
        for one in operators:
            fields = {"Streamify": "dtype", "DynStreamify": "input_dtype"}
            if chosen(one) in fields:
                put = getattr(getattr(one, chosen(one)), fields[chosen(one)])
                put.Buffer.SetInParent()
                if inner:
                    put.Buffer.f32.SetInParent()

    data = buffered().to_graph(generation=generation)
    old = st.load_graph(edited(data, change, generation))
    assert old.fingerprint() == st.load_graph(data).fingerprint()


def test_a_read_of_buffers_that_states_integers_is_refused() -> None:
    def change(operators: Any) -> None:
        for one in operators:
            if chosen(one) == "Streamify":
                one.Streamify.dtype.U64.SetInParent()

    with pytest.raises(GraphFileError, match=r"'Streamify_.*dtype states integer tiles \(U64\)"):
        st.load_graph(edited(buffered().to_graph(), change))


@pytest.mark.parametrize("name", ["ScalarU64", "ScalarI64", "U64"])
def test_sources_of_integers_state_scalars(name: str) -> None:
    """Their readers state tiles of integers; U64 is what earlier versions of stepsim wrote."""
    with st.Program("integers") as program:
        st.metadata([[4, 5, 6]]).flatten(0, 1).consume()
    data = program.to_graph()
    found = stated(data)
    assert chosen(found["MetadataGen"]["dtype"]) == "ScalarU64"
    assert found["MetadataGen"]["dtype"].ScalarU64.ByteSize() == 0
    assert chosen(found["Flatten"]["dtype"]) == "U64"

    def change(operators: Any) -> None:
        getattr(operators[0].MetadataGen.dtype, name).SetInParent()

    again = st.load_graph(edited(data, change), arrays={"MetadataGen_0": np.array([4, 5, 6])})
    assert str(again.operators[0].outputs[0].type) == "Tile[1x1 u64]"
    assert unalike(st.graph.wire(program), st.graph.wire(again)) == []


def test_bf16_is_written_for_runs_that_mock_it() -> None:
    with st.Program("mocked", compute_bw=8) as program:
        held = tiles(2, 3, dtype="bf16").bufferize(1)
        st.linear_store(held.streamify().map(st.fn.exp))
    with pytest.raises(GraphFileError, match=r"linear_load#0 .*found Tile.*pass mock_bf16=True"):
        program.to_graph()
    data = program.to_graph(mock_bf16=True)
    assert {chosen(t) for fields in stated(data).values() for t in fields.values()} == {"F32"}
    with pytest.raises(GraphFileError, match=r"n_byte is 2.*mock_bf16=True"):
        st.load_graph(data)
    again = st.load_graph(data, mock_bf16=True)
    assert unalike(st.graph.wire(program), st.graph.wire(again)) == []
    # What was read for such a run is written for such a run.
    assert again.to_graph() == data


def test_a_mocked_run_has_no_other_floats() -> None:
    with st.Program("mixed") as program:
        tiles(2, dtype="bf16").consume()
        tiles(2, dtype="f32").consume()
    with pytest.raises(GraphFileError, match=r"all floats are bf16, found Tile\[4x8 f32\]"):
        program.to_graph(mock_bf16=True)
    with st.Program("narrow") as program:
        tiles(2, dtype="f16").consume()
    for generation in ("A", "B"):
        with pytest.raises(GraphFileError, match=r"one type of floats, F32, found .* f16"):
            program.to_graph(generation=generation)


def test_a_cycle_of_mocked_floats_is_read(tmp_path: Path) -> None:
    with st.Program("loop") as program:
        turns = program.dim("turns")
        loop = st.feedback(st.Tile.of("bf16", 4, 8), [turns])
        view = {"shape": (1, 4), "stride": (0, 1)}
        start = st.linear_load(st.spec(16, 8), (4, 8), **view).flatten(0, 1)
        data, which = st.eager_merge([loop, start])
        which.consume()
        flags = st.selector(np.eye(2, dtype=int)[[0, 1, 0, 1, 1, 1]])
        again, done = st.partition(data, flags.assume_shape(turns + 4))
        done.consume()
        program.assume_equal(again.shape[0], turns)
        loop.connect(again)
    program.to_graph(tmp_path / "graph.pb", mock_bf16=True)
    read = st.load_graph(tmp_path / "graph.pb", mock_bf16=True)
    types = {str(s.type) for op in read.operators for s in op.outputs}
    assert "Tile[4x8 bf16]" in types
    assert "Tile[4x8 f32]" not in types


def integers(*shape: int) -> st.Stream:
    return st.metadata(np.zeros((1, *shape), int))


def selectors() -> st.Stream:
    return st.selector(np.eye(2, dtype=int)[[[0, 1, 0, 1]]])


def reassembled() -> None:
    ends = [integers(2).flatten(0, 1), integers(2).flatten(0, 1)]
    st.reassemble(ends, selectors().flatten(0, 1)).consume()


REFUSED: Sequence[tuple[Callable[[], Any], str]] = [
    (lambda: tiles(2, 3).bufferize(1).consume(), "ConsumerContext with dtype F32, U64,.*Buffer"),
    (lambda: integers(3).repeat(2).consume(), "RepeatStatic with dtype F32, found U64"),
    (lambda: integers(4).reshape(2).consume(), "Reshape with dtype F32, found U64"),
    (lambda: selectors().unsqueeze(0).consume(), "Promote with dtype F32, found MultiHot"),
    (lambda: integers(3).bufferize(1).consume(), "buffers of floats only|Bufferize.*found U64"),
    (lambda: st.expand(integers(1), tiles(3)).consume(), "ExpandRef with dtype F32, found U64"),
    (
        lambda: st.expand(tiles(1), integers(3)).consume(),
        "ExpandRef with ref_dtype F32 beside dtype F32, found U64",
    ),
    (
        lambda: st.linear_load(st.spec(8, 8, dtype="f32"), (4, 8), ref=integers(3)).consume(),
        "LinearOffChipLoadRef with ref_dtype F32, MultiHot or Buffer beside dtype F32, found U64",
    ),
    (reassembled, "FlatReassemble with input_dtype F32 or MultiHot, found U64"),
    (
        lambda: tiles(2, 1, 3).bufferize(1).streamify(integers(2, 5)).consume(),
        "DynStreamify with ref_dtype F32 beside input_dtype F32, found U64",
    ),
    (
        lambda: st.selector([[[1, 0], [0, 1]]], as_indices=True).consume(),
        "multi-hot selectors only.*leave out as_indices",
    ),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_the_public_simulator_does_not_read(make: Callable[[], Any], message: str) -> None:
    with st.Program("odd", compute_bw=1) as program:
        make()
    with pytest.raises(GraphFileError, match=message) as caught:
        program.to_graph()
    assert "#" in str(caught.value)
    assert "test_public_types.py" in str(caught.value)


def test_refusals_name_where_such_a_stream_can_go() -> None:
    with st.Program("odd") as program:
        integers(3).repeat(2).consume()
    with pytest.raises(GraphFileError, match=r"it reads U64 in .*Flatten.*EagerMerge.*; use these"):
        program.to_graph()


@pytest.mark.slow
def test_random_programs_are_written_or_refused_by_name(tmp_path: Path) -> None:
    """Those that are written have the same cycles when they are read."""
    written = 0
    for seed in range(60):
        program = random_program(seed, length=1)
        mock = has_bf16(program)
        refusal = ""
        try:
            program.to_graph(tmp_path / "graph.pb", mock_bf16=mock)
        except GraphFileError as error:
            refusal = str(error)
        if refusal:
            assert refusal.startswith("to_graph: ")
            assert "random_programs.py" in refusal
            continue
        again = st.load_graph(tmp_path / "graph.pb", mock_bf16=mock, fifo_depth=program.fifo_depth)
        assert st.simulate(again).cycles == st.simulate(program).cycles
        written += 1
    assert written >= 10
