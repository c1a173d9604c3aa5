"""What a user binds determines the symbols, and what cannot be bound is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy

import stepsim.graph as st
from stepsim.errors import ArgError
from stepsim.graph import fn
from stepsim.graph.programs.binding import number_of, substitution
from tests.graph.support import flags, numbers, scratch, tiles


@pytest.fixture
def program():
    with scratch(compute_bw=8) as p:
        yield p


def bound(program: st.Program, values: dict[Any, Any]) -> dict[str, int]:
    """Names of symbols to their numbers."""
    return {str(s): number for s, number in substitution(program, values).items()}


def test_dims_and_symbols_of_a_program_are_bound_alike(program):
    n = program.dim("n")
    for key in (n, n.expr):
        for value in (7, np.int64(7), np.uint8(7), sympy.Integer(7)):
            found = bound(program, {key: value})
            assert found == {"n": 7}
            assert type(found["n"]) is int
    assert bound(program, {n: 0}) == {"n": 0}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (-1, "-1"),
        (np.float64(2.0), r"2\.0"),
        (np.bool_(True), "True"),
        (np.int64(-3), "-3"),
        (sympy.Rational(1, 2), "1/2"),
    ],
)
def test_what_is_no_size_is_shown_as_its_number(program, value, found):
    n = program.dim("n")
    with pytest.raises(ArgError, match=rf"^dim n: found {found}; bind non-negative ints"):
        bound(program, {n: value})


def test_unknown_keys_are_answered_with_the_symbols_there_are(program):
    with pytest.raises(ArgError, match=r"cannot bind 'n', it owns no symbol\. Symbols: none$"):
        bound(program, {"n": 1})
    n, m = program.dim("n"), program.dim("m")
    with pytest.raises(ArgError, match=r"Symbols: n, m$"):
        bound(program, {"n": 1})
    other = sympy.Symbol("n")
    with pytest.raises(ArgError, match="it owns no symbol"):
        bound(program, {n: 1, m: 1, other: 1})


def test_given_counts_come_before_the_table_of_a_routing(program):
    table = st.routing([[0], [0], [1]], experts=2)
    assert table.count[0].expr.is_Symbol
    _ = table.count[1]
    assert bound(program, {}) == {"n0": 2, "n1": 1}
    assert bound(program, {table: [0, 3]}) == {"n0": 0, "n1": 3}


def test_counts_of_several_experts_per_row(program):
    table = st.routing(st.spec(3, 2), experts=3)
    used = [table.count[i] for i in (0, 2)]
    assert bound(program, {table: [3, 1, 2]}) == {"n0": 3, "n2": 2}
    assert bound(program, {table: [[0, 1], [0, 2], [0, 2]]}) == {"n0": 3, "n2": 2}
    assert bound(program, {used[0]: 3}) == {"n0": 3}
    assert bound(program, {used[0]: 3, used[1]: 3}) == {"n0": 3, "n2": 3}
    for counts, message in (
        ([3, 1, 1], r"counts sum to 5, expected 6 \(3 rows times 2\)"),
        ([4, 1, 1], "count 4 at position 0 is more than its 3 rows"),
        ([1, 1, 4], "count 4 at position 2 is more than its 3 rows"),
        ([[3, 1, 2]], "expected"),
        (6, r"bind counts of shape \(3,\) or indices of shape \(3, 2\), found shape \(\)"),
        (st.fn.matmul, r"bind counts of shape \(3,\) or .* \(3, 2\), found shape \(\)"),
    ):
        with pytest.raises(ArgError, match=message):
            bound(program, {table: counts})


def test_assumed_equalities_are_read_in_both_directions(program):
    n, m, k = program.dim("n"), program.dim("m"), program.dim("k")
    program.assume_equal(n, m)
    program.assume_equal(k, 4)
    assert bound(program, {n: 3}) == {"n": 3, "m": 3, "k": 4}
    assert bound(program, {m: 3}) == {"n": 3, "m": 3, "k": 4}
    assert bound(program, {}) == {"k": 4}


def test_assumed_equalities_with_expressions_wait_for_all_of_them(program):
    n, m, k = program.dim("n"), program.dim("m"), program.dim("k")
    program.assume_equal(n, m + k)
    assert bound(program, {m: 3}) == {"m": 3}
    assert bound(program, {n: 5}) == {"n": 5}
    assert bound(program, {m: 3, k: 2}) == {"m": 3, "k": 2, "n": 5}


def test_counts_of_a_selector_are_those_of_its_outputs(program):
    which = flags(4, width=3)
    st.partition(tiles(4), which)
    assert bound(program, {which: [4, 0, 1]}) == {"c0": 4, "c1": 0, "c2": 1}
    assert bound(program, {which: np.array([[4], [0], [1]])}) == {"c0": 4, "c1": 0, "c2": 1}
    with pytest.raises(ArgError, match="count 5 at position 2 is more than its 4 selectors"):
        bound(program, {which: [4, 0, 5]})
    for wrong in ([1, 2], "123", 3, b"123", np.array(3)):
        with pytest.raises(ArgError, match=r"found \d values, expected 3: one count for each"):
            bound(program, {which: wrong})


def test_counts_of_selectors_of_unknown_number_have_no_limit(program):
    n = program.dim("n")
    which = flags(n)
    st.partition(tiles(n), which)
    assert bound(program, {which: [400, 0]}) == {"c0": 400, "c1": 0}


def test_counts_of_a_constant_selector_bind_nothing(program):
    which = st.selector([[1, 0], [1, 0], [0, 1]])
    assert bound(program, {which: [2, 1]}) == {}
    with pytest.raises(ArgError, match="count 2 at position 1 contradicts 1, which follows"):
        bound(program, {which: [2, 2]})


def test_counts_of_selectors_repeated_twice(program):
    which = flags(4)
    copies = which.repeat(2).repeat(3)
    st.partition(tiles(4, 2, 3), copies)
    assert bound(program, {copies: [18, 6]}) == {"c0": 3, "c1": 1}
    for counts, message in (
        ([18, 4], "count 4 at position 1 is not a multiple of 3, the copies of each selector"),
        ([18, 3], "count 1 at position 1 is not a multiple of 2"),
        ([30, 0], "count 30 at position 0 is more than its 24 selectors"),
    ):
        with pytest.raises(ArgError, match=message):
            bound(program, {copies: counts})


def test_sizes_of_a_ragged_dim_give_its_sum_and_its_largest(program):
    own = program.ragged("len")
    assert bound(program, {own: [2, 5, 0]}) == {"len_total": 7, "len_max": 5}
    assert bound(program, {own: []}) == {"len_total": 0, "len_max": 0}
    assert bound(program, {own: [[2, 5], [1, 1]]}) == {"len_total": 9, "len_max": 5}
    with pytest.raises(ArgError, match=r"ragged dim ~len: found 1\.5 at position 1; bind"):
        bound(program, {own: [2, 1.5]})


def test_lengths_are_bound_by_their_stream_or_their_dim(program):
    lengths, others = numbers(3), numbers(program.dim("n"))
    sizes = lengths.flat_map(fn.last_tile_filter()).shape[1]
    more = others.flat_map(fn.last_tile_filter()).shape[1]
    for key in (lengths, sizes):
        assert bound(program, {key: [1, 2, 3]}) == {"len_total": 6, "len_max": 3}
        with pytest.raises(ArgError, match="found 2 values, expected 3: one size for each outer"):
            bound(program, {key: [1, 2]})
    for key in (others, more):
        assert bound(program, {key: [4, 4]}) == {"len_2_total": 8, "len_2_max": 4}


def test_streams_that_own_nothing_cannot_be_bound(program):
    x = tiles(3)
    with pytest.raises(ArgError, match=r"cannot bind Stream.*: it owns no symbols"):
        bound(program, {x: [1, 2, 3]})


def test_values_of_other_programs_are_refused():
    with scratch() as other:
        foreign = st.routing(st.spec(2, 1), experts=2)
        stream, size = flags(2), other.dim("q")
    with st.Program("own") as own:
        st.metadata([1]).consume()
    for key, message in (
        (foreign, "belongs to program 'scratch', not 'own'"),
        (stream, "belongs to program 'scratch', not 'own'"),
        (size, r"cannot bind Dim\(q, DR\), it owns no symbol"),
    ):
        with pytest.raises(ArgError, match=message):
            bound(own, {key: [1, 1]})


def test_numbers_of_expressions_that_are_not_evaluated():
    n, m = sympy.symbols("n m", integer=True, nonnegative=True)
    largest = sympy.Max(n, m, evaluate=False)
    assert number_of(largest, {n: 2, m: 3}) == 3
    assert number_of(largest * n / m, {n: 6, m: 3}) == 12
    with pytest.raises(ArgError, match=r"^m, n have no value; bind"):
        number_of(largest, {})


def test_dims_assumed_equal_are_bound_together(program):
    n, m, k = (program.dim(name) for name in "nmk")
    program.assume_equal(m, k)
    program.assume_equal(n, m)
    assert bound(program, {n: 3}) == bound(program, {k: 3}) == {"n": 3, "m": 3, "k": 3}
    with pytest.raises(
        ArgError, match="were assumed equal, but 3 and 4 are bound; bind one number"
    ):
        bound(program, {n: 3, m: 4})
    with pytest.raises(ArgError, match="n and k were assumed equal, but 3 and 4 are bound"):
        bound(program, {n: 3, k: 4})
