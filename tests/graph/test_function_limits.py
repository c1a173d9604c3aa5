"""What functions of users must not be: accepted and then counted, typed or timed in another way."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

import stepsim as st
from stepsim.errors import ArgError, DTypeError
from stepsim.functional import evaluate
from stepsim.graph import fn
from tests.functional.support import run_both


def row(*, tile: int = 2) -> st.Stream:
    """Four tiles of one row, in one group."""
    return st.linear_load(np.arange(4 * tile, dtype=np.float32)[None], (1, tile))


def test_a_cost_is_read_by_the_names_of_letters() -> None:
    plain, whole = sympy.Symbol("m"), sympy.Symbol("m", integer=True)
    made = st.function("f", "m n -> m n", flops=plain + whole, cycles=plain * whole + plain**2)
    assert (str(made.flops), str(made.cycles)) == ("2*m", "2*m**2")


@pytest.mark.parametrize("cost", [2**62, 2**300, lambda m: 2**62 * m])
def test_coefficients_that_the_engine_cannot_hold_are_refused(cost: Any) -> None:
    with pytest.raises(ArgError, match=r"function 'f': cycles: the coefficient .* below 2"):
        st.function("f", "m n -> m n", cycles=cost)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fn.add_const(10**400), "add_const: value must be a number"),
        (lambda: fn.mul_const(1e300), "mul_const: value must be a number that f32 can hold"),
        (lambda: fn.pow(-1e300), "pow: exponent must be a number that f32 can hold"),
        (lambda: fn.div_const(1e-60), "other than 0 in f32, found 1e-60"),
        (lambda: fn.length_mask(1e300), "length_mask: fill must be a number that f32 can hold"),
        (lambda: fn.full((1, 1), 10**400), "full: value must be a number"),
        (lambda: fn.full((1, 1), 1e39), "full: value must be a number that f32 can hold"),
        (lambda: st.function("f", "same", padding=10**400), "padding must be a number"),
    ],
)  # fmt: skip
def test_numbers_beyond_f32_are_refused(make: Callable[[], object], message: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ArgError, match=message):
            make()
    assert str(fn.add_const(math.inf)) == "add_const(inf)"


@pytest.mark.parametrize(
    ("shape", "kind", "found"),
    [
        ("m n, 1 1 -> m n", "number", "operand 1 is a number"),
        ("m n, 1 1; m n -> m n, 1 1", ("number", "address", "number"), "operand 1 is a state"),
    ],
)
def test_valid_rows_need_a_number_that_runs_know(shape: str, kind: Any, found: str) -> None:
    with pytest.raises(ArgError, match=found):
        st.function("f", shape, kind=kind, valid=("value", 1))


@pytest.mark.parametrize(
    "make",
    [
        lambda: st.metadata([1]).map(
            st.function("next", "1 1 -> 1 1", kind="address", dtype="u64", values=lambda x: x + 1)
        ),
        lambda: row(tile=1).map(fn.cast("u64")),
        lambda: st.metadata([1]).unsqueeze(1).accum(
            st.function("sum", "1 1; 1 1 -> 1 1", kind="address", values=np.add), 1, fn.zero((1, 1))
        ),
    ],
)  # fmt: skip
def test_numbers_that_runs_do_not_know_are_refused(make: Callable[[], st.Stream]) -> None:
    with (
        pytest.raises(DTypeError, match="not known when times are simulated"),
        st.Program(compute_bw=8),
    ):
        make()


def test_a_cast_keeps_the_numbers_of_addresses() -> None:
    with st.Program(compute_bw=8) as p:
        counts = st.metadata([1, 3]).map(fn.cast("u64"))
        tiles = st.linear_load(np.ones((8, 2), np.float32), (4, 2)).flatten(0, 1)
        y = st.map(fn.set_offset, tiles, counts)
        y.consume()
    assert [t.payload.valid for t in run_both(p).stream(y)] == [1, 3]


def test_states_take_the_type_of_numbers() -> None:
    picked = st.function(
        "picked", "m n; m n, m n -> m n", kind=("number", "flag", "number"),
        values=lambda state, flags, x: state + np.where(flags, x, 0),
    )  # fmt: skip
    count = st.function("count", "m n; m n -> m n", kind=("number", "flag"), values=np.add)
    with st.Program(compute_bw=8) as p:
        x = row()
        flags = st.map(fn.gt, x, row().map(fn.mul_const(0)))
        zeros = fn.zero((1, 2))
        total, hits = st.zip(flags, x).accum(picked, 1, zeros), flags.accum(count, 1, zeros)
        total.consume()
        hits.consume()
    assert (str(total.type), str(hits.type)) == ("Tile[1x2 f32]", "Tile[1x2 f32]")
    result = run_both(p)
    assert result.stream(total)[0].payload.data.tolist() == [[12, 16]]
    assert result.stream(hits)[0].payload.data.tolist() == [[3, 4]]


def test_functions_of_valid_rows_do_not_fold() -> None:
    with (
        pytest.raises(ArgError, match="'append_row' cannot be used in an accumulation"),
        st.Program(compute_bw=8),
    ):
        row().accum(fn.append_row, 1, fn.zero((4, 2)))


def test_a_fold_keeps_the_rule_for_valid_rows() -> None:
    later = st.function("later", "m n, m n -> m n", values=lambda s, x: x, valid="all")
    with st.Program(compute_bw=8) as p:
        x = st.linear_load(np.ones((2, 4), np.float32), (2, 2))
        tiles = st.map(fn.set_offset, x.flatten(0, 1), st.metadata([1, 1])).unsqueeze(1)
        y = tiles.flatten(0, 1).unsqueeze(1).accum(later, 1, fn.zero((2, 2)))
        y.consume()
    assert {t.payload.valid for t in run_both(p).stream(y)} == {2}


def test_a_free_function_whose_results_are_added_needs_a_bandwidth() -> None:
    free = st.function("free", "broadcast", values=np.multiply)
    with pytest.raises(ArgError, match="compute_bw must be an int from 1"), st.Program():
        st.map_accum(free, row(), row(), 1, compute_bw=0)


def test_valid_rows_in_all_must_fit() -> None:
    both = st.function("both", "m n, m n -> m n", valid="sum", values=np.add)
    with st.Program(compute_bw=8) as p:
        st.map(both, row(), row()).consume()
    assert run_both(p) is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (lambda x: x * 1j, "returned complex64, expected real numbers"),
        (lambda x: np.full(x.shape, "a"), "returned <U1, expected real numbers"),
        (lambda x: [[1], [1, 2]], "returned object, expected real numbers"),
        (lambda x: None, "returned object, expected real numbers"),
        (lambda x: x.__iadd__(1), "raised ValueError .output array is read-only"),
    ],
)
def test_values_that_are_no_numbers_are_named(values: Any, message: str) -> None:
    with st.Program(compute_bw=8) as p:
        row().map(st.function("f", "m n -> m n", values=values)).consume()
    with pytest.raises(st.errors.EvaluationError, match=f"values of f {message}"):
        evaluate(p)


@pytest.mark.parametrize("dtype", ["f32", "u64", "bool", "i8"])
def test_values_beyond_a_type_raise_no_warnings(dtype: str) -> None:
    huge = st.function(
        "huge", "m n -> m n", dtype=dtype, values=lambda x: (x - 1).astype(float) * 1e300
    )
    with st.Program(compute_bw=8) as p:
        row().map(fn.log).map(huge).consume()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run_both(p) is not None


def test_products_of_other_heights_are_named() -> None:
    with st.Program(compute_bw=8) as p:
        addresses = st.metadata([0, 1]).flat_map(fn.cache_read_addresses(2), st.metadata([1, 2]))
        x = st.random_load(addresses, np.ones((8, 2), np.float32), (2, 2))
        packs = x.accum(fn.pack_rows, 1).unsqueeze(1)
        st.map_accum(fn.mul, packs, packs, 1).consume()
    assert run_both(p) is None


def padded() -> st.Stream:
    """Tiles of 4x2 with 1, 0 and 3 valid rows, in one group."""
    x = st.linear_load(np.arange(24, dtype=np.float32).reshape(12, 2) - 30, (4, 2)).flatten(0, 1)
    return st.map(fn.set_offset, x, st.metadata([1, 0, 3])).unsqueeze(1)


def test_padding_rows_do_not_count_in_folds_and_products() -> None:
    plus = st.function("plus", "m n, m n -> m n", values=np.add)
    with st.Program(compute_bw=8) as p:
        total = padded().accum(plus, 1, st.fn.zero((4, 2)))
        products = st.map_accum(fn.matmul_t, padded(), padded(), 1)
        total.consume()
        products.consume()
    result = run_both(p)
    x = np.arange(24, dtype=np.float32).reshape(3, 4, 2) - 30
    for tile, valid in zip(x, (1, 0, 3), strict=True):
        tile[valid:] = 0
    np.testing.assert_array_equal(result.stream(total)[0].payload.data, x.sum(0))
    expected = (x @ x.transpose(0, 2, 1)).sum(0)
    np.testing.assert_array_equal(result.stream(products)[0].payload.data, expected)


def test_what_makes_functions_is_to_be_called() -> None:
    message = r"Call it with its arguments, st.fn.slice_rows\(...\)"
    with pytest.raises(ArgError, match=message), st.Program():
        row().map(fn.slice_rows)  # type: ignore[arg-type]


def test_states_of_another_type_say_what_to_do() -> None:
    message = r"the products are .* bf16.; leave out the dtype of init"
    state = fn.zero((1, 2), "f32")
    with pytest.raises(DTypeError, match=message), st.Program(compute_bw=8):
        st.map_accum(fn.mul, row().map(fn.cast("bf16")), row().map(fn.cast("bf16")), 1, state)


@pytest.mark.parametrize(
    "cost", [lambda m: m ** (10**8), lambda m, n: (m + n) ** 17, lambda m, n: (m**9 + 1) * n**8]
)
def test_costs_that_multiply_too_many_sides_are_refused_at_once(cost: Any) -> None:
    with pytest.raises(ArgError, match=r"flops: a product of \d+ sides, expected at most 16"):
        st.function("f", "m n -> m n", flops=cost)


def test_a_cost_may_multiply_sixteen_sides() -> None:
    assert str(st.function("f", "m n -> m n", flops=lambda m, n: (m * n) ** 8).flops) == "m**8*n**8"
