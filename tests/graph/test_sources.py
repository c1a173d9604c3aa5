"""Constant selectors and integers: what is accepted and what is said of the rest."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, DTypeError
from tests.graph.support import scratch, shape, text, tiles


@pytest.fixture(autouse=True)
def program():
    with scratch() as p:
        yield p


@pytest.mark.parametrize(
    ("flags", "error", "message"),
    [
        ([[1], [0, 1]], ArgError, "flags do not form an array: inner lists differ"),
        ([["a", "b"]], DTypeError, r"flags must be numbers, found \[\['a', 'b'\]\]"),
        ([[None, 1]], DTypeError, "flags must be numbers"),
        ([[2**70, 1]], DTypeError, "flags must be numbers"),
        ([[0.5, 1]], ArgError, "flags must be 0 or 1"),
        ([[-1, 1]], ArgError, "flags must be 0 or 1"),
        ([0, 1], ArgError, r"flags have shape \(2,\)"),
        (1, ArgError, r"flags have shape \(\)"),
        ([[]], ArgError, r"flags have shape \(1, 0\)"),
        (np.zeros((0, 2)), ArgError, r"flags have shape \(0, 2\)"),
    ],
)
def test_bad_flags(program, flags, error, message):
    with pytest.raises(error, match=message):
        st.selector(flags)
    assert program.operators == []


def test_flags_of_every_type_of_number():
    for one in (1, True, 1.0, np.uint8(1)):
        made = st.selector([[one, 0], [0, one]])
        assert text(made) == "Stream[2] of MultiHot[2, hot=1]"
        assert made.producer.unit_params({}) == {
            "selectors": [[0], [1]], "width": 2, "levels": [0, 0],
        }  # fmt: skip
        assert made.producer.attributes() == {"shape": [2, 2], "selected": [0, 3]}


def test_one_selector_of_one_output():
    made = st.selector([[1]])
    assert text(made) == "Stream[1] of MultiHot[1, hot=1]"
    assert text(st.selector([[0]])) == "Stream[1] of MultiHot[1, hot=0]"


def test_selectors_in_several_dims_count_over_all_of_them():
    made = st.selector([[[1, 1, 0], [0, 1, 0]], [[0, 0, 0], [1, 1, 1]]])
    assert text(made) == "Stream[2, 2] of MultiHot[3]"
    assert [shape(p) for p in st.partition(tiles(2, 2), made)] == [["2"], ["3"], ["1"]]
    most = st.selector([[[1, 1, 0], [0, 1, 0]]], as_indices=True)
    assert text(most) == "Stream[1, 2] of IndexSelector[3, k=2]"


@pytest.mark.parametrize(
    ("values", "message"),
    [(5, r"values have shape \(\)"), ([], r"values have shape \(0,\)")],
)
def test_metadata_needs_a_list_with_entries(values, message):
    with pytest.raises(ArgError, match=message):
        st.metadata(values)


def test_metadata_of_one_entry():
    made = st.metadata([0])
    assert text(made) == "Stream[1] of Tile[1x1 u64]"
    assert made.producer.attributes() == {"shape": [1], "values": [0]}


@pytest.mark.parametrize(
    ("values", "found"),
    [([1.5, 2], "1.5"), ([1, True], None), ([np.bool_(True)], "True"), ([2**70, None], "None")],
)
def test_the_entry_that_is_no_integer_is_named(values, found):
    if found is None:
        assert st.metadata(values).producer.unit_params({})["values"] == [1, 1]
        return
    with pytest.raises(DTypeError, match=f"values must be integers, found .*{found}.*astype"):
        st.metadata(values)


def test_broadcasts_keep_type_and_shape():
    copies = st.broadcast(tiles(3, 2), 3)
    assert [text(c) for c in copies] == ["Stream[3, 2] of Tile[1x64 bf16]"] * 3
    assert [c.output for c in copies] == [0, 1, 2]
