"""Functions as data: shapes, costs, types, records, weights, and everything that is refused."""

from __future__ import annotations

import math
import pickle
import pydoc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sympy

import stepsim as st
from stepsim.errors import ArgError, DimError, DTypeError
from stepsim.graph import Function, fn
from stepsim.graph.functions.standard import weights_of
from tests.graph.support import numbers, scratch, text, tiles


@pytest.fixture(autouse=True)
def program() -> Iterator[st.Program]:
    with scratch(compute_bw=64) as p:
        yield p


def standard() -> list[Function]:
    """Every function of ``st.fn`` that needs no argument."""
    return [f for name in fn.__all__ if isinstance(f := getattr(fn, name), Function)]


# what a user states


def test_a_cost_of_three_operands_is_in_types_flops_and_record() -> None:
    mine = st.function("mine", "m n, m n, 1 n -> m n", lambda m, n: 5 * m * n + 3 * m)
    made = st.map(
        mine, tiles(7, rows=4, cols=8), tiles(7, rows=4, cols=8), tiles(7, rows=1, cols=8)
    )
    assert text(made) == "Stream[7] of Tile[4x8 bf16]"
    assert made.producer.unit_kind == "NaryMap"
    assert made.producer.flops() == 7 * (5 * 4 * 8 + 3 * 4)
    record = made.producer.unit_params({})["fn"]
    assert record["flops"] == [[5, [0, 1]], [3, [0]]]
    assert record["checks"] == [
        [2, [[1, [0]]]], [3, [[1, [1]]]], [4, [[1, []]]], [5, [[1, [1]]]]
    ]  # fmt: skip


m, n = sympy.symbols("m n")


@pytest.mark.parametrize(
    ("cost", "value"),
    [(7, 7), (5 * m * n + 3 * m, 172), (lambda n: n**2, 64), (lambda: 3, 3), (m * (n + 2), 40)],
)
def test_ways_to_write_a_cost(cost: Any, value: int) -> None:
    for named in ({"flops": cost}, {"cycles": cost}):
        made = st.function("f", "m n -> m n", **named)
        assert getattr(made, next(iter(named))).at({"m": 4, "n": 8}) == value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": ""}, "name must not be empty"),
        ({"name": 3}, "name must be a string, found 3"),
        ({"shape": "m n"}, "expected 'operands -> results', 'same' or 'broadcast'"),
        ({"shape": "m -> m n"}, "has 'm' where a tile should be; write rows and columns"),
        ({"shape": " -> m n"}, "has nothing where a tile should be"),
        ({"shape": "m n -> m k"}, "no operand has a side that is k alone"),
        ({"shape": "m+1 n -> m n"}, "no operand has a side that is m alone"),
        ({"shape": "m n -> m*n 1"}, "the side 'm\\*n' is a product of letters"),
        ({"shape": "m n -> m-1 n"}, "cannot read the side 'm-1'"),
        ({"shape": "m n; m n -> m 1"}, "states and results differ"),
        ({"shape": "m n; m n -> m n, m n"}, "states and results differ"),
        ({"shape": "m n; m n; m n -> m n"}, "two ';'"),
        ({"flops": 1.5}, "flops must be an int, a sympy expression or a function of the letters"),
        ({"flops": -1}, "flops must not be negative, found -1"),
        ({"flops": "m*n"}, "flops must be an int, a sympy expression"),
        ({"flops": m / 2}, "has the coefficient 1/2, expected whole numbers"),
        ({"flops": m * n - m}, "has the negative coefficient -1"),
        ({"flops": m / n}, "m/n is not a polynomial of the sides"),
        ({"flops": sympy.log(m)}, r"log\(m\) is not a polynomial of the sides"),
        ({"flops": sympy.Symbol("k")}, "the shape has no letter k; it has m, n"),
        ({"flops": lambda rows: rows}, "the shape has no letter rows; it has m, n"),
        ({"flops": lambda m: math.ceil(m / 2) if m > 3 else 1}, "the function raised TypeError"),
        (
            {"flops": lambda m, n: m * n * np.log2(n)},
            r"raised TypeError for symbols\. It may only add .* or functions of numpy and math$",
        ),
        ({"flops": lambda m: 2.5}, "flops must be an int, a sympy expression"),
        ({"cycles": lambda m: -m}, "cycles: -m has the negative coefficient"),
        ({"values": 3}, "values must be a function or None, found 3"),
        ({"dtype": "f31"}, "dtype: unknown scalar type 'f31'; did you mean"),
        ({"dtype": ("f32", "f32")}, "dtype has 2 types for 1 results"),
        ({"valid": "some"}, "valid must be one of all, first, max, sum, value, append"),
        ({"valid": ("first", 2)}, "valid names operand 2, expected 0 to 0"),
        ({"valid": "value"}, "valid 'value' names 1 operand, found 0"),
        ({"kind": "numbers"}, "kind must be one of number, .*did you mean 'number'"),
        ({"kind": ("number", "number")}, "kind has 2 entries for 1 operands"),
        ({"padding": (0, 1)}, "padding must be a number, or one for each of the 1 operands"),
    ],
)  # fmt: skip
def test_refusals(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgError, match=message):
        st.function(**{"name": "f", "shape": "m n -> m n"} | arguments)


def test_sides_that_do_not_fit(program: st.Program) -> None:
    mine = st.function("mine", "m 2*h, m h -> m h+1")
    made = st.map(mine, tiles(3, rows=4, cols=8), tiles(3, rows=4, cols=4))
    assert text(made) == "Stream[3] of Tile[4x5 bf16]"
    with pytest.raises(
        DimError, match=r"'mine': columns of Tile\[4x9 bf16\] and 2\*h must be equal"
    ):
        st.map(mine, tiles(3, rows=4, cols=9), tiles(3, rows=4, cols=4))
    with pytest.raises(DimError, match=r"'mine': rows of .* and rows of .*: 4 vs 5 \(different\)"):
        st.map(mine, tiles(3, rows=4, cols=8), tiles(3, rows=5, cols=4))
    with pytest.raises(DimError, match=r"\(unknown\)"):
        st.map(mine, tiles(3, rows=program.dim("r"), cols=8), tiles(3, rows=4, cols=4))
    with pytest.raises(ArgError, match="'mine' takes 2 operands, found 3"):
        st.map(mine, *(tiles(3),) * 3)


def test_dynamic_and_ragged_sides(program: st.Program) -> None:
    d, ragged = program.dim("d"), tiles(2, program.ragged("len")).accum(fn.pack_rows, 1)
    stacked = st.function("stacked", "a n, b n -> a+2*b+1 n", lambda a, b: a + b)
    made = st.map(stacked, tiles(2, rows=d), tiles(2, rows=3))
    assert str(made.type) == "Tile[d + 7x64 bf16]"
    grown = st.map(stacked, ragged, tiles(2, rows=3))
    rows = grown.type.rows
    assert rows.is_ragged
    assert rows.total == ragged.type.rows.total + 2 * 7
    assert grown.producer.flops() == ragged.type.rows.total + 2 * 3
    assert grown.map(fn.exp).producer.flops() == 4 * 64 * rows.total


def test_broadcast_of_three() -> None:
    mine = st.function("mine", "broadcast 3", lambda m, n: 2 * m * n)
    made = st.map(
        mine, tiles(3, rows=4, cols=1), tiles(3, rows=1, cols=8), tiles(3, rows=1, cols=1)
    )
    assert text(made) == "Stream[3] of Tile[4x8 bf16]"
    assert made.producer.flops() == 3 * 2 * 32
    with pytest.raises(DimError, match="columns of"):
        st.map(mine, tiles(3, rows=4, cols=2), tiles(3, rows=1, cols=8), tiles(3))


def test_several_results_are_tuples_that_come_apart() -> None:
    both = st.function("both", "m n -> m 1, m n", dtype=("f32", None))
    made = tiles(3, rows=4, cols=8).map(both)
    assert text(made) == "Stream[3] of (Tile[4x1 f32], Tile[4x8 bf16])"
    first, second = st.unzip(made)
    assert (str(first.type), str(second.type)) == ("Tile[4x1 f32]", "Tile[4x8 bf16]")
    assert first.producer.flops() == 0
    assert made.map(st.fn.mul).type == st.Tile.of("f32", 4, 8)
    with pytest.raises(DTypeError, match="in must carry tuples"):
        st.unzip(first)


# accumulations


def test_states_are_tuples() -> None:
    online = st.function("online", "m 1, m d; m n, n d -> m 1, m d", lambda m, n, d: 2 * m * n * d)
    a, b = tiles(3, 5, rows=4, cols=8), tiles(3, 5, rows=8, cols=16)
    zeros = (fn.zero((4, 1)), fn.zero((4, 16)))
    for made in (
        st.map_accum(online, a, b, 1, (fn.neg_infinity((4, 1)), fn.full((4, 16), 2.5))),
        st.zip(a, b).accum(online, 1, zeros),
    ):
        assert text(made) == "Stream[3] of (Tile[4x1 bf16], Tile[4x16 bf16])"
        assert made.producer.flops() == 15 * 2 * 4 * 8 * 16
        assert made.producer.unit_params({})["init"] == [[4, 1, 2], [4, 16, 2]]
    running = st.zip(a, b).scan(online, 1, zeros)
    assert text(running) == "Stream[3, 5] of (Tile[4x1 bf16], Tile[4x16 bf16])"


def test_states_take_dynamic_sides_from_elements(program: st.Program) -> None:
    r = program.dim("r")
    product = st.zip(tiles(3, 5, rows=r, cols=8), tiles(3, 5, rows=8, cols=2)).accum(fn.matmul, 1)
    assert text(product) == "Stream[3] of Tile[rx2 bf16]"
    params = product.producer.unit_params({})
    assert params["init"] == [[0, 2, 2]]
    assert params["fn"]["adopts"] == [[0, [[1, [2]]], [[1, [5]]], "any"]]


def test_functions_without_states_fold_or_are_summed() -> None:
    x = tiles(3, 4, rows=2, cols=8)
    assert str(x.accum(fn.max, 1).producer.init) == "neg_infinity(2x8)"
    assert str(x.accum(fn.min, 1).producer.init) == "full(2x8, inf)"
    assert x.scan(fn.sub, 1).producer.flops() == 12 * 16
    assert st.map_accum(fn.mul, x, x, 1).producer.flops() == 12 * 2 * 16
    assert str(st.map_accum(fn.mul, x, x, 1).producer.init) == "zero(2x8)"
    own = st.function("own", "m n, m n -> m n", lambda m: m)
    assert x.accum(own, 1, fn.zero((2, 8))).producer.flops() == 12 * 2


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("m 1, m n; m n -> m 1, m n", r"pass init=\(...\), one for each of 2 states"),
        ("m n; m n -> m n", "'f' has no default initial state: pass init="),
        ("m n, m n -> m n", "'f' has no default initial state: pass init="),
        ("broadcast", "'f' has no default initial state: pass init="),
        ("m d; m n -> m d", "'f' has no default initial state: pass init="),
    ],
)
def test_functions_of_users_do_not_start_at_zero_unasked(shape: str, message: str) -> None:
    f, x = st.function("f", shape, 1), tiles(3, 4, rows=2, cols=8)
    for reduce in (x.accum, x.scan, x.accum_buffer):
        with pytest.raises(ArgError, match=message):
            reduce(f, 1)
    pair = st.function("f", shape.replace("; m n", "; m n, m n"), 1, values=lambda a, *_: a)
    if ";" in shape:
        with pytest.raises(ArgError, match=message):
            st.map_accum(pair, x, x, 1)
    else:  # Its results are added up, from zeros.
        assert str(st.map_accum(pair, x, x, 1).producer.init) == "zero(2x8)"


def test_accumulation_refusals() -> None:
    x = tiles(3, 4, rows=2, cols=8)
    two = st.function("two", "m 1, m n; m n -> m 1, m n")
    with pytest.raises(ArgError, match="init has 1 state, 'two' has 2: "):
        x.accum(two, 1, fn.zero((2, 1)))
    with pytest.raises(DTypeError, match=r"the initial state zero\(3x1\) does not fit"):
        x.accum(two, 1, (fn.zero((3, 1)), fn.zero((2, 8))))
    with pytest.raises(ArgError, match="'two' cannot be used in an accumulation of 2 tiles"):
        st.zip(x, x).accum(two, 1)
    with pytest.raises(ArgError, match="'two' cannot be used in a map"):
        x.map(two)
    free = st.function("free", "m d; m n -> m d")
    with pytest.raises(DTypeError, match="cannot take its sides from an element of m d; m n -> m"):
        x.accum(free, 1, fn.empty((0, 0)))
    assert str(x.accum(free, 1, fn.zero((2, 5))).type) == "Tile[2x5 bf16]"
    with pytest.raises(ArgError, match="full: value must be a number"):
        fn.full((1, 1), "x")


# the standard functions


def test_flops_of_the_published_table() -> None:
    """FLOPs per scalar; the others are in the docstrings."""
    per_scalar = {
        "add": 1, "sub": 1, "mul": 1, "div": 1, "silu": 8, "exp": 4, "pow2": 4, "tanh": 4,
        "rsqrt": 4, "sigmoid": 7, "square": 1, "row_sum": 1, "row_max": 1,
    }  # fmt: skip
    for name, weight in per_scalar.items():
        f = getattr(fn, name)
        made = st.map(f, *(tiles(3, rows=4, cols=8),) * f.arity)
        assert made.producer.flops() == 3 * weight * 32, name
    x = tiles(3, rows=4, cols=8)
    for f, weight in (
        (fn.clamp(0, 1), 2), (fn.floor_div_const(3), 2), (fn.pow(3), 4), (fn.mul_const(2), 1),
        (fn.cast("f32"), 1), (fn.full_like(0), 1),
    ):  # fmt: skip
        assert x.map(f).producer.flops() == 3 * weight * 32, f
    for f in (fn.transpose, fn.set_offset, fn.append_row, fn.cache_write_address(2), fn.signal):
        assert (f.flops.terms, f.cycles.constant) == ((), 1), f


@pytest.mark.parametrize(
    ("function", "left", "right"),
    [
        (fn.matmul, (4, 8), (8, 16)), (fn.matmul_t, (4, 8), (16, 8)),
        (fn.t_matmul, (8, 4), (8, 16)), (fn.t_matmul_t, (8, 4), (16, 8)),
    ],
)  # fmt: skip
def test_four_transpositions(function: Function, left: Any, right: Any) -> None:
    a, b = (tiles(3, 2, rows=r, cols=c) for r, c in (left, right))
    for made in (st.map(function, a, b), st.map_accum(function, a, b, 1)):
        assert str(made.type) == "Tile[4x16 bf16]"
        assert made.producer.flops() == 6 * 2 * 4 * 8 * 16
        weight = right[0] * right[1] * 2
        paper = made.producer.memory(st.graph.accounting.Accounting("paper", False))
        assert paper == 16 * 8 * 2 + weight + (128 if made.producer.name == "map_accum" else 0)


def test_types_of_the_standard_functions(program: st.Program) -> None:
    x, r = tiles(3, rows=4, cols=8), program.dim("r")
    flags = st.map(fn.lt, x, x)
    assert str(flags.type) == "Tile[4x8 bool]"
    assert str(st.map(fn.where, flags, x, tiles(3, rows=1, cols=1)).type) == "Tile[4x8 bf16]"
    assert str(flags.map(fn.cast("f32")).type) == "Tile[4x8 f32]"
    assert str(x.map(fn.transpose).type) == "Tile[8x4 bf16]"
    assert str(x.map(fn.slice_cols(2, 5)).type) == "Tile[4x3 bf16]"
    assert str(st.map(fn.concat_rows(3), x, x, tiles(3, rows=r, cols=8)).type) == (
        "Tile[r + 8x8 bf16]"
    )
    assert str(st.map(fn.quantize("i8"), x, tiles(3, rows=4, cols=1)).type) == "Tile[4x8 i8]"
    assert str(st.map(fn.causal_mask(), x, numbers(3), numbers(3)).type) == "Tile[4x8 bf16]"
    with pytest.raises(DimError, match="needs at least 9 columns"):
        x.map(fn.slice_cols(2, 9))
    with pytest.raises(DimError, match="needs a known number of rows"):
        tiles(3, rows=r).map(fn.slice_rows(0, 1))
    with pytest.raises(DTypeError, match=r"'add' works on tiles of .* st\.fn\.cast makes numbers"):
        st.map(fn.add, flags, flags)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fn.clamp(2, 1), "clamp takes low <= high"),
        (lambda: fn.add_const("x"), "add_const: value must be a number, found 'x'"),
        (lambda: fn.div_const(0), "a number other than 0"),
        (lambda: fn.slice_rows(3, 3), "stop must be above start"),
        (lambda: fn.rotary("odd"), "pairs must be 'half' or 'interleaved'"),
        (lambda: fn.causal_mask(window=0), "window must be at least 1"),
        (lambda: fn.part(2, 2), "index must be below members = 2"),
        (lambda: fn.quantize("u64"), "u64 is not a type to compute with"),
    ],
)
def test_arguments_of_standard_functions(make: Any, message: str) -> None:
    with pytest.raises(ArgError, match=message):
        make()


@pytest.mark.parametrize("f", standard(), ids=str)
def test_docstrings_say_all(f: Function) -> None:
    doc = f.__doc__
    assert doc is not None
    for section in ("Shape", "Fires", "FLOPs", "Memory", "Raises"):
        assert f"\n{section}\n{'-' * len(section)}\n" in doc
    assert doc.splitlines()[0] in pydoc.plain(pydoc.render_doc(f))
    assert doc.partition("\n")[0].endswith(".")


def test_standard_functions_survive_pickling() -> None:
    for f in (*standard(), fn.clamp(0, 1), fn.rotary("interleaved"), fn.cache_write_address(3)):
        assert pickle.loads(pickle.dumps(f)) is f


# weights


def weighed(weights: dict[str, int]) -> st.Program:
    with scratch(compute_bw=64, flop_weights=weights) as p:
        x = tiles(3, 2, rows=4, cols=8)
        x.map(fn.exp).map(fn.clamp(0, 1)).accum(fn.add, 1)
        st.map_accum(fn.matmul_t, x, x, 1)
    return p


def test_weights_replace_those_of_functions(program: st.Program) -> None:
    program.__exit__(KeyboardInterrupt)
    try:
        plain, other = weighed({}), weighed({"exp": 1, "clamp": 3, "add": 0, "matmul_t": 1})
        assert [op.flops() for op in plain.operators[1:]] == [768, 384, 192, 6 * 2 * 4 * 8 * 4]
        assert [op.flops() for op in other.operators[1:]] == [192, 576, 0, 6 * 4 * 8 * 4]
        assert other.operators[1].unit_params({})["fn"]["flops"] == [[1, [0, 1]]]
        assert plain.fingerprint() != other.fingerprint()
        assert weighed({}).fingerprint() == plain.fingerprint()
    finally:
        program._token = None
        program.__enter__()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"expo": 1}, r"there is no function st\.fn\.expo; did you mean 'exp'\?"),
        ({"transpose": 1}, "transpose counts no FLOPs"),
        ({"exp": -1}, r"flop_weights\['exp'\] must be an int from 0"),
        ({"exp": 1.5}, "must be an int from 0"),
        (3, "must be a dict of names and ints, found 3"),
    ],
)
def test_weights_that_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(ArgError, match=message):
        weights_of("flop_weights", weights)


def test_fingerprints_tell_functions_apart(program: st.Program) -> None:
    first, second = (st.function("f", "m n -> m n", cost) for cost in (1, 2))
    assert first.identity() != second.identity()
    assert first.identity() == st.function("f", "m n -> m n", 1).identity()
