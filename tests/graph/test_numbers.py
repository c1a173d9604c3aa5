"""Counters and stream functions that return numbers: shapes, types and refusals."""

from __future__ import annotations

import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, DTypeError
from stepsim.graph import fn
from tests.graph.support import flags, numbers, scratch, text, tiles


@pytest.fixture(autouse=True)
def program():
    with scratch() as p:
        yield p


def test_a_counter_has_one_dim_below_those_of_its_reference(program):
    assert text(st.counter(5)) == "Stream[5] of Tile[1x1 u64]"
    assert st.counter(5).producer.unit_params({}) == {"n": 5, "lead": False}
    ragged = program.ragged("len")
    made = st.counter(5, ref=tiles(3, ragged))
    assert text(made) == "Stream[3, ~len, 5] of Tile[1x1 u64]"
    assert made.producer.unit_kind == "DynCounter"
    with pytest.raises(ArgError, match="count must be an int from 1"):
        st.counter(0)


def test_lengths_count_up_to_themselves():
    lengths = numbers(3, 2)
    made = lengths.flat_map(fn.counter())
    size = made.shape[-1]
    assert (made.shape[:2], size.is_ragged) == ((3, 2), True)
    # The sizes are the values, whichever function asks for them.
    assert lengths.flat_map(fn.last_tile_filter()).shape[-1] == size
    with pytest.raises(DTypeError, match="1x1 tiles of u32 or u64"):
        tiles(3).flat_map(fn.counter())


def test_addresses_of_a_view_have_its_dims_below_those_of_the_indices():
    view = fn.view_addresses((2, 3), (4, 1), slab=8, base=2)
    assert text(numbers(5).flat_map(view)) == "Stream[5, 2, 3] of Tile[1x1 u64]"
    made = flags(5, width=4, hot=1).flat_map(view)
    assert made.shape == (5, 2, 3)
    assert made.producer.unit_params({}) == {
        "shape": [2, 3], "stride": [4, 1], "slab": 8, "base": 2,
    }  # fmt: skip
    indices = st.selector([[0, 1], [1, 0]], as_indices=True)
    assert indices.flat_map(view).shape == (2, 2, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((2,), (1, 1), 4), "differ in length"),
        (((), (), 4), "differ in length"),
        (((2**30, 2**30), (0, 0), 4), "2\\*\\*40 tiles and tile 2\\*\\*50 are the most"),
        (((3,), (2**50,), 4), "2\\*\\*40 tiles and tile 2\\*\\*50 are the most"),
        (((2,), (1,), 0), "slab must be an int from 1"),
        (((0,), (1,), 4), r"shape\[0\] must be an int from 1"),
    ],
)
def test_views_that_are_refused(arguments, message):
    with pytest.raises(ArgError, match=message):
        numbers(5).flat_map(fn.view_addresses(*arguments))


def test_indices_that_choose_no_slab_are_refused():
    view = fn.view_addresses((2,), (1,), 2**50)
    with pytest.raises(DTypeError, match="one-hot selectors, or 1x1 tiles"):
        flags(5, width=4, hot=2).flat_map(view)
    with pytest.raises(DTypeError, match="one-hot selectors, or 1x1 tiles"):
        tiles(5).flat_map(view)
    with pytest.raises(ArgError, match="beyond 2\\*\\*63 - 1"):
        flags(5, width=2**14, hot=1).flat_map(view)
