"""Operators that the format has since 2026."""

from __future__ import annotations

import pytest

import stepsim as st
from stepsim.errors import GraphFileError
from stepsim.functional import evaluate
from tests.graph.graph_file.support import edited, unalike
from tests.graph.graph_file.test_round_trip import check


def affine() -> st.Program:
    """Loads that are triggered and transposed, affine and nested reads, counters."""
    with st.Program("affine", compute_bw=8) as program:
        rows = st.linear_load(st.spec(8, 16, dtype="f32"), (1, 16))
        again = st.linear_load(st.spec(16, 16, dtype="f32"), (16, 16), ref=rows, trigger_rank=1)
        again.flatten(0, 1).consume()
        st.linear_load(st.spec(64, 16, dtype="f32"), (16, 8), transposed=True).consume()
        held = st.linear_load(
            st.spec(4, 8, dtype="f32"), (2, 2), shape=(1, 2, 4), stride=(8, 4, 1)
        ).bufferize(2)
        held.streamify(shape=(4, 2), stride=(1, 4)).consume()
        held.streamify(repeat=(2, 3)).consume()
        st.random_load(st.counter(8), st.spec(8, 16, dtype="f32"), (1, 16)).consume()
        st.counter(3, ref=st.metadata([0, 1])).consume()
        st.metadata([2, 3]).flat_map(st.fn.counter()).consume()
    return program


@pytest.mark.parametrize("model", ["step-2025", "step-2026"])
def test_they_come_back(model, tmp_path):
    program = affine()
    program.to_graph(tmp_path / "graph.pb")
    again = st.load_graph(tmp_path / "graph.pb")
    machine = st.load_machine("sda-1024", {"model": model})
    cycles = [st.simulate(p, machine=machine).cycles for p in (program, again)]
    assert cycles[0] == cycles[1]
    # A nested repeat is written as the walk that it is.
    (nested,) = unalike(st.graph.wire(program), st.graph.wire(again))
    assert "'repeat': [2, 3]" in nested
    assert "'shape': [2, 3, 2, 4], 'stride': [0, 0, 4, 1]" in nested


def test_programs_without_nested_repeats_come_back_as_they_are(tmp_path):
    with st.Program("plain", compute_bw=8) as program:
        keys = st.linear_load(st.spec(64, 16, dtype="f32"), (16, 8), transposed=True)
        st.linear_store(keys.flatten(0, 1))
        st.counter(5).consume()
    check(program, {}, tmp_path)


@pytest.mark.parametrize("kept", [1, 2])
def test_accumulations_in_buffers_come_back(kept, tmp_path):
    with st.Program("sums", compute_bw=8) as program:
        x = st.linear_load(st.spec(16, 16, dtype="f32"), (2, 4), shape=(2, 2, 4), stride=(16, 4, 1))
        sums = x.accum_buffer(st.fn.add, 2, kept, write_back=True)
        top = x.accum_buffer(st.fn.max, 2, kept, st.fn.neg_infinity((2, 4)))
        st.map(st.fn.mul, sums.streamify(), top.streamify()).consume()
    check(program, {}, tmp_path)


def test_buffers_have_the_shape_that_is_stated():
    with st.Program("sums", compute_bw=8) as program:
        x = st.linear_load(st.spec(16, 16, dtype="f32"), (2, 4), shape=(2, 2, 4), stride=(16, 4, 1))
        x.accum_buffer(st.fn.add, 2).streamify().consume()

    def change(operators) -> None:
        for one in operators:
            if one.HasField("AccumBuffer"):
                one.AccumBuffer.buffer_shape[:] = [3]

    with pytest.raises(
        GraphFileError, match=r"buffer_shape is \[3\], the innermost dims are \[4\]"
    ):
        st.load_graph(edited(program.to_graph(), change), generation="B")


def test_a_counter_that_states_no_shape_has_an_outer_dim():
    """As the format has it: the last integer carries a stop."""
    with st.Program("count") as program:
        st.counter(4).consume()

    def shapeless(operators) -> None:
        for one in operators:
            del one.stream_shape[:]

    again = st.load_graph(edited(program.to_graph(), shapeless), generation="B")
    made = again.operators[0].outputs[0]
    assert [int(d) for d in made.shape] == [1, 4]
    assert st.simulate(again).status == "ok"
    assert [level for _, level in evaluate(again).stream(made)] == [0, 0, 0, 1]


def test_repeats_must_be_those_of_the_walk():
    def change(operators) -> None:
        for one in operators:
            if one.WhichOneof("choice") == "StaticStreamify" and one.StaticStreamify.repeat_factor:
                one.StaticStreamify.repeat_factor[0] = 5

    data = edited(affine().to_graph(), change)
    with pytest.raises(GraphFileError, match=r"repeat_factor is \[5, 3\], which out_shape"):
        st.load_graph(data)


def test_several_factors_of_the_old_operator_have_two_meanings():
    with st.Program("again") as program:
        x = st.linear_load(st.spec(4, 4, dtype="f32"), (1, 4), shape=(1, 4), stride=(0, 1))
        x.bufferize(1).streamify(repeat=2).consume()

    def change(operators) -> None:
        for one in operators:
            if one.WhichOneof("choice") == "Streamify":
                one.Streamify.repeat_factor.append(3)

    data = edited(program.to_graph(), change)
    with pytest.raises(GraphFileError, match=r"Streamify_\d+.*repeat_factor is \[2, 3\]"):
        st.load_graph(data)


def test_what_generation_a_has_not():
    with st.Program("new") as program:
        shape = {"shape": (1, 4), "stride": (0, 1)}
        spec = st.spec(4, 4, dtype="f32")
        st.linear_load(spec, (1, 4), transposed=True, **shape).consume()
    with pytest.raises(GraphFileError, match=r"linear_load#0 .*the format has no transposed here"):
        program.to_graph(generation="A")
    with st.Program("walk") as program:
        x = st.linear_load(spec, (1, 4), **shape).bufferize(1)
        x.streamify(shape=(2,), stride=(1,)).consume()
    with pytest.raises(GraphFileError, match=r"generation A .* no operator for streamify"):
        program.to_graph(generation="A")


def test_affine_reads_by_a_reference_have_no_place():
    with st.Program("walk") as program:
        spec = st.spec(4, 4, dtype="f32")
        x = st.linear_load(spec, (1, 4), shape=(1, 1, 4), stride=(0, 0, 1)).bufferize(1)
        x.streamify(st.metadata([[1, 2]]), shape=(2,), stride=(1,)).consume()
    with pytest.raises(GraphFileError, match="no affine reads for a reference"):
        program.to_graph()


def test_loads_that_bypass_the_memory_have_no_place():
    with st.Program("on chip") as program:
        st.linear_load(st.spec(4, 4, dtype="f32"), (1, 4), bypass=True).consume()
    with pytest.raises(GraphFileError, match="no operator for linear_load#0"):
        program.to_graph()
