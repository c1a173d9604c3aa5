"""Single messages: what the bytes of the format mean."""

from __future__ import annotations

import pytest

import stepsim as st
from stepsim.errors import GraphFileError
from tests.graph.graph_file.support import block, built_by_hand, edited, number


def test_the_worked_example_has_the_bytes_of_the_public_file():
    data = built_by_hand()
    assert len(data) == 101
    assert [data[1], data[58]] == [55, 42]
    program = st.load_graph(data)
    load, store = program.operators
    assert (load.label, store.label) == ("LinearOffChipLoad_126", "OffChipStore_127")
    assert [str(d) for d in load.outputs[0].shape] == ["1", "16", "64"]
    assert load.tensor.shape == (1024, 1024)
    assert (str(load.tile), load.par_dispatch) == ("Tile[64x16 f32]", 4)
    assert st.simulate(program).status == "ok"


def test_it_has_the_cycles_of_the_same_program_in_the_language():
    with st.Program("same") as program:
        x = st.linear_load(
            st.spec(1024, 1024, dtype="f32"), (64, 16), shape=(1, 16, 64), stride=(0, 64, 1),
            par_dispatch=4,
        )  # fmt: skip
        st.linear_store(x, par_dispatch=4)
    assert st.simulate(st.load_graph(built_by_hand())).cycles == st.simulate(program).cycles


def test_the_program_is_written_as_it_was_read():
    """All but names and ids, which count from 0, and the shapes that stepsim states."""

    def plain(operators) -> None:
        for new, one in enumerate(operators):
            one.id, one.name = new, one.name.rsplit("_", 1)[0]
            del one.stream_shape[:]
        operators[1].OffChipStore.input_id = 0

    again = st.load_graph(built_by_hand()).to_graph()
    written = edited(again, plain)
    # The name of the program comes first; the published file has none.
    assert written.endswith(edited(built_by_hand(), plain))


def test_columns_of_tiles_with_the_other_number():
    data = built_by_hand(cols=2)
    with pytest.raises(GraphFileError, match=r"LinearOffChipLoad_126.*rows_dynamic.*wire type 0"):
        st.load_graph(data)
    numbers = {"sides": {"cols_static": 2, "rows_dynamic": 3}}
    assert str(st.load_graph(data, numbers=numbers).operators[0].tile) == "Tile[64x16 f32]"


def test_unpacked_numbers_are_read():
    packed, loose = block(1, [16, 64]), number(1, 16) + number(1, 64)
    data = built_by_hand()
    assert packed in data
    inside = data.replace(packed, loose, 1)
    # The same length, so that no other byte changes.
    assert len(inside) == len(data)
    assert st.load_graph(inside).fingerprint() == st.load_graph(data).fingerprint()


def test_missing_numbers_are_zero():
    def change(operators) -> None:
        operators[0].ClearField("id")
        operators[0].LinearOffChipLoad.ClearField("par_dispatch")
        operators[1].OffChipStore.ClearField("input_id")

    program = st.load_graph(edited(built_by_hand(), change))
    assert program.operators[0].par_dispatch == 1


def test_the_last_of_two_operators_counts():
    """A oneof that stands twice."""
    data = built_by_hand()
    first = data[2:57]
    both = first[:25] + block(22, number(1, 5)) + first[25:]
    assert st.load_graph(block(2, both) + data[57:]).operators[0].name == "linear_load"


def test_operators_of_any_order_and_ids_with_gaps():
    def change(operators) -> None:
        load, store = operators[0].__deepcopy__(), operators[1].__deepcopy__()
        del operators[:]
        load.id = 4_000_000_000
        store.OffChipStore.input_id = 4_000_000_000
        operators.extend([store, load])

    program = st.load_graph(edited(built_by_hand(), change))
    assert [u.kind for u in st.graph.wire(program).units] == ["OffChipStore", "OffChipLoad"]


def test_packages_that_are_not_there_are_named(monkeypatch):
    import sys

    from stepsim.graph.graph_file import messages

    messages._schema.cache_clear()
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(GraphFileError, match=r"pip install 'stepsim\[graph\]'"):
        st.load_graph(built_by_hand())
    messages._schema.cache_clear()
