"""Damaged files: an error of ours that names operator and field, soon."""

from __future__ import annotations

import time

import numpy as np
import pytest

import stepsim as st
from stepsim.errors import GraphFileError
from tests.graph.graph_file.support import (
    SELECTED,
    block,
    built_by_hand,
    edited,
    number,
    small,
    varint,
)
from tests.graph.test_wiring import cyclic

DATA = small().to_graph()
SELECTORS = {"SelectGen_2": SELECTED}


def refusal(data: bytes, **options) -> str:
    begun = time.perf_counter()
    with pytest.raises(GraphFileError) as caught:
        st.load_graph(data, **options)
    assert time.perf_counter() - begun < 1
    return str(caught.value)


def change(what) -> str:
    return refusal(edited(DATA, what), arrays=SELECTORS)


@pytest.mark.parametrize("length", [30, 56, 59, 80, 100])
def test_cut_files(length):
    text = refusal(built_by_hand()[:length])
    assert "damaged or cut off" in text
    assert "operator number" in text


def test_files_cut_between_operators():
    assert "'LinearOffChipLoad_126' (id 126): no operator reads output 0" in refusal(
        built_by_hand()[:57]
    )
    assert "the bytes end inside a number" in refusal(built_by_hand()[:1])


def test_a_cut_inside_an_operator_names_operator_and_field():
    data = built_by_hand()
    inside = data[:1] + varint(40) + data[2:42]
    text = refusal(inside)
    assert "operator 'LinearOffChipLoad_126', LinearOffChipLoad states 28 bytes" in text


def test_lengths_beyond_the_file():
    huge = varint(2 << 3 | 2) + varint(2**40) + b"x"
    assert "states 1099511627776 bytes, 1 are left" in refusal(huge)
    assert "more than 10 bytes" in refusal(b"\x12" + b"\xff" * 12)


def test_other_files():
    assert "has no operators" in refusal(b"")
    assert "no operators; is it a graph file" in refusal(block(1, "a name"))
    assert "unknown fields 9" in refusal(DATA + number(9, 1), arrays=SELECTORS)
    assert "damaged" in refusal(b"\x93NUMPY\x01\x00v\x00{'descr'")


def test_messages_inside_each_other():
    deep = block(1, b"")
    for _ in range(2000):
        deep = block(4, deep)
    text = refusal(block(2, block(1, "deep_1") + number(2, 1) + deep))
    assert "'deep_1'" in text


def test_text_that_is_none():
    data = built_by_hand().replace(b"LinearOff", b"\xff\xfenearOff")
    assert "operator number 0: name: expected UTF-8 text, found the byte 0xff" in refusal(data)


def test_wrong_wire_types():
    name = b"LinearOffChipLoad_126"
    tile = number(5, 64) + number(6, 16) + number(7, 4)
    data = built_by_hand()
    assert data.count(tile) == 1
    wrong = data.replace(tile, block(5, b"") + number(6, 16) + number(7, 4))
    text = refusal(wrong)
    assert name.decode() in text
    assert "tile_row (field 5) with wire type 2 in place of 0" in text


def test_unknown_operators_and_fields():
    one = block(1, "New_3") + number(2, 3) + block(77, b"")
    text = refusal(block(2, one))
    assert "'New_3' (id 3)" in text
    assert "unknown field numbers 77" in text
    inside = block(1, "Consumer_3") + number(2, 3) + block(22, number(1, 3) + number(99, 1))
    assert "unknown fields ConsumerContext: 99" in refusal(block(2, inside))


def test_unknown_fields_are_left_out_when_asked():
    def more(data: bytes) -> bytes:
        first = data[2:57] + number(60, 5)
        return block(2, first) + data[57:]

    data = built_by_hand()
    assert "unknown fields 60" in refusal(more(data))
    left = st.load_graph(more(data), skip_unknown=True)
    assert left.fingerprint() == st.load_graph(data).fingerprint()


def test_ids():
    def twice(ops) -> None:
        ops[1].id = ops[0].id

    def dangling(ops) -> None:
        ops[1].Flatten.input_id = 99

    def no_output(ops) -> None:
        ops[1].Flatten.input_id = 6

    assert "'Flatten_1' (id 0): id 0 is used twice, also for 'LinearOffChipLoad_0'" in change(twice)
    assert "'Flatten_1' (id 1): input_id names operator 99" in change(dangling)
    assert "a ConsumerContext, which has no output" in change(no_output)


def test_outputs():
    def none(ops) -> None:
        ops[4].UnaryMap.ClearField("stream_idx")

    def beyond(ops) -> None:
        ops[4].UnaryMap.stream_idx = 2

    def both(ops) -> None:
        ops[4].UnaryMap.stream_idx = 1

    def more(ops) -> None:
        ops[3].FlatPartition.num_consumers = 3
        ops[3].FlatPartition.switch_cycles.append(1)

    def many(ops) -> None:
        ops[3].FlatPartition.num_consumers = 2**32 - 1

    assert "'UnaryMap_4' (id 4): input_id reads 'FlatPartition_3' (id 3) without" in change(none)
    assert "output 2; it has 2, numbered from 0" in change(beyond)
    assert "reads too; copy it by a Broadcast" in change(both)
    assert "'FlatPartition_3' (id 3): no operator reads output 2" in change(more)
    assert "no operator reads output 2 of 4294967295" in change(many)


def test_lists_of_inputs():
    def short(ops) -> None:
        del ops[5].EagerMerge.input_stream_idx_list[1:]

    def empty(ops) -> None:
        del ops[5].EagerMerge.input_id_list[:]
        del ops[5].EagerMerge.input_stream_idx_list[:]

    assert "input_id_list has 2 entries and input_stream_idx_list 1" in change(short)
    assert "input_id_list has 0 entries" in change(empty)


def test_cycles_need_a_type_and_a_shape(tmp_path):
    program, _ = cyclic()
    data = program.to_graph(tmp_path / "graph.pb", mock_bf16=True)
    again = st.load_graph(tmp_path / "graph.pb", mock_bf16=True)
    assert len(st.graph.wire(again).units) == len(st.graph.wire(program).units)

    def shapeless(ops) -> None:
        for one in ops:
            del one.stream_shape[:]

    def typeless(ops) -> None:
        for one in ops:
            if one.WhichOneof("choice") == "EagerMerge":
                one.EagerMerge.dtype.U64.Clear()

    for what in (shapeless, typeless):
        text = refusal(edited(data, what), arrays=tmp_path, mock_bf16=True)
        assert "closes a cycle, for which type and shape of the stream must be known" in text
        assert "'EagerMerge_" in text


def test_a_cycle_is_named():
    def operator(kind: int, number_: int, inside: bytes, name: str) -> bytes:
        return block(2, block(1, name) + number(2, number_) + block(kind, inside))

    data = operator(28, 1, number(1, 2) + number(4, 1), "Flatten_1")
    data += operator(18, 2, number(1, 1), "Promote_2")
    text = refusal(data)
    assert "Flatten_1, Promote_2 wait for each other in a cycle that no merge opens" in text


@pytest.mark.slow
def test_long_chains_are_no_problem():
    """Thousands of operators behind each other, in the wrong order."""

    def operator(kind: int, id_: int, inside: bytes) -> bytes:
        return block(2, block(1, f"x_{id_}") + number(2, id_) + block(kind, inside))

    count = 3000
    load = block(1, [4, 4]) + block(2, [4, 1]) + block(3, [4, 4]) + number(5, 1) + number(6, 8)
    parts = [operator(12, 0, load + number(7, 4))]
    parts += [operator(18, i, number(1, i - 1)) for i in range(1, 5)]
    parts += [operator(15, i, number(1, i - 1) + number(3, 1)) for i in range(5, count)]
    for i in range(6, count):
        parts[i] = operator(15, i, number(1, i - 1) + number(2, 0) + number(3, 1))
    parts.append(operator(22, count, number(1, count - 1) + number(2, 0)))
    program = st.load_graph(b"".join(reversed(parts)))
    assert len(program.operators) == count + 1


def test_values_that_do_not_fit_name_the_operator():
    def tile(ops) -> None:
        ops[0].LinearOffChipLoad.tile_row = 0

    def bytes_(ops) -> None:
        ops[0].LinearOffChipLoad.n_byte = 3

    def walk(ops) -> None:
        ops[0].LinearOffChipLoad.stride[0] = 2**31

    def rank(ops) -> None:
        ops[3].FlatPartition.partition_rank = 7

    def switch(ops) -> None:
        del ops[3].FlatPartition.switch_cycles[:]

    def kind(ops) -> None:
        ops[1].Flatten.dtype.MultiHot.SetInParent()

    def function(ops) -> None:
        ops[4].UnaryMap.func.Clear()

    def parallel(ops) -> None:
        ops[4].parallel_factor = 4

    def promote(ops) -> None:
        ops[9].Promote.promote_rank = 2

    def source(ops) -> None:
        ops[1].Flatten.dtype.F32.rows_static = 4

    for what, name, text in (
        (tile, "LinearOffChipLoad_0", "tile"),
        (bytes_, "LinearOffChipLoad_0", "n_byte is 3, but elements of f32 have 4 bytes"),
        (walk, "LinearOffChipLoad_0", "the walk ends at tile"),
        (rank, "FlatPartition_3", "partition at rank 0, not 7"),
        (switch, "FlatPartition_3", "switch_cycles [] must hold 2 ints"),
        (kind, "Flatten_1", "dtype states multi-hot selectors (MultiHot), but the stream carries"),
        (function, "UnaryMap_4", "func of UnaryMap: found none"),
        (parallel, "UnaryMap_4", "parallel_factor is 4"),
        (promote, "Promote_9", "promote_rank is 2, but the stream has rank 0"),
        (source, "Flatten_1", "dtype states tiles of 4 rows, but the stream carries Tile[16x16"),
    ):
        message = change(what)
        assert f"'{name}'" in message, message
        assert text in message, message


def test_side_files_that_are_no_arrays(tmp_path):
    (tmp_path / "g.pb").write_bytes(DATA)
    (tmp_path / "graph_2.npy").write_bytes(b"\x93NUMPY nonsense")
    with pytest.raises(GraphFileError, match=r"SelectGen_2.*graph_2\.npy cannot be read"):
        st.load_graph(tmp_path / "g.pb")
    np.save(tmp_path / "graph_2.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(GraphFileError, match=r"graph_2\.npy cannot be read"):
        st.load_graph(tmp_path / "g.pb")


@pytest.mark.parametrize("path", ["nowhere.pb", "a\0b", ".", "x" * 5000])
def test_paths(path):
    with pytest.raises(GraphFileError, match="cannot be read"):
        st.load_graph(path)


def test_sources_that_are_neither_path_nor_bytes():
    with pytest.raises(GraphFileError, match="expected a path or bytes, found 7"):
        st.load_graph(7)
