"""The tables of numbers and what users put in their place."""

from __future__ import annotations

import re

import pytest

import stepsim as st
from stepsim.errors import GraphFileError
from stepsim.graph.graph_file.numbers import GROUPS, UNCONFIRMED, numbers_of
from stepsim.graph.graph_file.rows import ROWS
from tests.graph.graph_file.support import edited


def exponential() -> bytes:
    with st.Program("e", compute_bw=1) as program:
        st.linear_load(st.spec(4, 4, dtype="f32"), (1, 4)).map(st.fn.exp).consume()
    return program.to_graph()


def with_true_number(data: bytes, number: int) -> bytes:
    """The bytes as a writer who knows the number of exp makes them."""
    table = {"functions": {"exp": number}}
    return st.load_graph(data).to_graph(numbers=table)


def test_every_operator_that_is_read_has_a_number():
    known = numbers_of("B")["operators"]
    assert set(ROWS) <= set(known)


def test_numbers_without_a_source_are_beyond_all_public_ones():
    """A public file never has them, so that nothing is guessed."""
    for generation in ("A", "B"):
        table = numbers_of(generation)
        for group in GROUPS:
            assert len(set(table[group].values())) == len(table[group])
            assert all(n < 60 or n >= UNCONFIRMED for n in table[group].values())
    assert numbers_of("B")["functions"]["exp"] >= UNCONFIRMED
    assert numbers_of("B")["functions"]["add"] == 4
    assert numbers_of("B")["accumulations"]["retile_row"] == 5


def test_an_unknown_function_stops_with_operator_and_number():
    data = with_true_number(exponential(), 9)
    with pytest.raises(GraphFileError, match=r"'UnaryMap_1' \(id 1\): func.*found number 9"):
        st.load_graph(data)


def test_the_user_states_the_number(tmp_path):
    data = with_true_number(exponential(), 9)
    given = {"functions": {"exp": 9}}
    assert st.load_graph(data, numbers=given).operators[1].fn is st.fn.exp
    file = tmp_path / "numbers.yaml"
    file.write_text("functions:\n  exp: 9\n")
    assert st.load_graph(data, numbers=file).operators[1].fn is st.fn.exp
    assert st.load_graph(data, numbers=str(file)).to_graph(numbers=file) == data


def test_an_unknown_operator_stops_with_its_number():
    data = st.load_graph(exponential()).to_graph(numbers={"operators": {"ConsumerContext": 90}})
    with pytest.raises(GraphFileError, match=r"'ConsumerContext_2' \(id 2\).*numbers 90"):
        st.load_graph(data)


def test_types_and_operators_have_numbers_of_the_user_too():
    numbers = {"types": {"F32": 7}, "operators": {"ConsumerContext": 90}}
    data = st.load_graph(exponential()).to_graph(numbers=numbers)
    assert data != exponential()
    with pytest.raises(GraphFileError, match=r"dtype of LinearOffChipLoad: found number 7"):
        st.load_graph(data)
    assert len(st.load_graph(data, numbers=numbers).operators) == 3


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"function": {"exp": 9}}, r"no group 'function'; did you mean 'functions'\?"),
        ({"functions": {"exq": 9}}, r"unknown name 'exq'; did you mean 'exp'\?"),
        ({"functions": {"exp": 4}}, "add and exp both have the number 4"),
        ({"functions": {"exp": 0}}, "exp: expected a field number from 1"),
        ({"functions": {"exp": 19500}}, "other than 19000 to 19999"),
        ({"functions": {"exp": True}}, "exp: expected a field number"),
        ({"functions": 9}, "functions: expected names and numbers"),
        ({"operators": {"Flatten": 3}}, "Flatten: 3 is the number of group_id"),
        ([9], "expected groups of names and numbers"),
        ("nowhere.yaml", r"nowhere\.yaml: cannot be read"),
    ],
)
def test_wrong_tables(numbers, message):
    with pytest.raises(GraphFileError, match=message):
        st.load_graph(exponential(), numbers=numbers)


def test_operators_that_stepsim_has_not_are_named():
    def retired(operators) -> None:
        inside = operators[1].UnaryMap
        operators[1].Scan.input_id1 = inside.input_id
        operators[1].Scan.func1.add.SetInParent()
        operators[1].Scan.init_func.zero.SetInParent()

    with pytest.raises(GraphFileError, match=re.escape("'UnaryMap_1' (id 1): stepsim has no Scan")):
        st.load_graph(edited(exponential(), retired))
