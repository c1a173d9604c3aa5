"""Formulas against the expressions of sympy that they stand for, drawn at random."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from typing import Any

import pytest
import sympy
from hypothesis import given, strategies as draw

from stepsim.graph.programs.program import Program
from stepsim.graph.sizes.atoms import Active, CeilDiv, Largest, Opaque, Symbol
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.formula import Formula, light, multiplied, sum_of
from stepsim.graph.sizes.sizes import at_least_one, degree, divided, fraction, may_count, primitive
from stepsim.graph.sizes.sympy_forms import (
    Active as SympyActive,
    CeilDiv as SympyCeilDiv,
    shown,
    symbol,
)
from tests.property_profile import profile

NAMES = ("n0", "n1", "n10", "n2", "len_total", "m", "S")
SYMBOLS = [Symbol(name) for name in NAMES]
VALUES = draw.fixed_dictionaries({s: draw.integers(1, 40) for s in SYMBOLS})

Pair = tuple[Any, Any]
"""A size, and what sympy makes of the same steps."""


def _join(children: draw.SearchStrategy[Pair]) -> draw.SearchStrategy[Pair]:
    few = draw.lists(children, min_size=1, max_size=4)
    return draw.one_of(
        few.map(lambda xs: (sum_of(a for a, _ in xs), sympy.Add(*(b for _, b in xs)))),
        few.map(lambda xs: (multiplied(a for a, _ in xs), sympy.Mul(*(b for _, b in xs)))),
        draw.tuples(children, draw.integers(0, 3)).map(
            lambda x: (x[0][0] ** x[1], x[0][1] ** x[1])
        ),
        draw.tuples(children, draw.integers(2, 64)).map(
            lambda x: (divided(x[0][0], x[1]), x[0][1] / sympy.Integer(x[1]))
        ),
        draw.tuples(children, draw.integers(2, 64)).map(_ceil),
        children.map(_active),
        draw.tuples(children, children).map(_largest),
    )


def _ceil(drawn: tuple[Pair, int]) -> Pair:
    (a, b), divisor = drawn
    if not isinstance(a, Formula) or not a.symbols():
        return a, b
    return CeilDiv(a, divisor), SympyCeilDiv(b, divisor)


def _active(pair: Pair) -> Pair:
    a, b = pair
    if not isinstance(a, Formula) or not a.symbols() or isinstance(a, Active):
        return pair
    return Active(a), SympyActive(b)


def _largest(pairs: tuple[Pair, Pair]) -> Pair:
    (a, b), (c, d) = pairs
    if b == d or not isinstance(a, Formula) or not a.symbols():
        return a, b
    if not isinstance(c, int | Formula) or (isinstance(c, Formula) and not c.symbols()):
        return a, b
    return Largest((a, c)), sympy.Max(b, d, evaluate=False)


LEAVES = draw.one_of(
    draw.sampled_from(SYMBOLS).map(lambda s: (s, symbol(s.name))),
    draw.integers(-9, 64).map(lambda n: (n, sympy.Integer(n))),
)
PAIRS = draw.recursive(LEAVES, _join, max_leaves=12)


@pytest.mark.slow
@profile(400)
@given(PAIRS)
def test_a_formula_is_what_sympy_makes_of_the_same_steps(pair: Pair) -> None:
    formula, expression = pair
    assert shown(formula) == expression
    assert sympy.sympify(formula) == expression
    assert str(formula) == str(expression)
    assert light(expression) == formula


@profile(200)
@given(PAIRS, VALUES)
def test_values_are_those_of_the_expression(pair: Pair, values: dict[Symbol, int]) -> None:
    formula, expression = pair
    known = expression.xreplace({s.sympy(): sympy.Integer(n) for s, n in values.items()})
    expected = known if known.is_Rational else sympy.simplify(known)
    found = formula.value(values) if isinstance(formula, Formula) else formula
    assert found == Fraction(int(expected.p), int(expected.q))
    if isinstance(formula, Formula):
        assert {s.sympy() for s in formula.symbols()} == expression.free_symbols
        replaced = formula.replaced(values)
        assert (replaced if isinstance(replaced, int) else replaced.value({})) == found


@profile(200)
@given(PAIRS, PAIRS)
def test_sums_differences_products_and_quotients(one: Pair, other: Pair) -> None:
    (a, x), (b, y) = one, other
    for mine, theirs in ((a + b, x + y), (a - b, x - y), (a * b, x * y), (-a, -x)):
        assert shown(mine) == theirs
    if isinstance(a, Formula):
        assert sympy.simplify(shown(a - b) - (x - y)) == 0
        assert a + y == x + b
        assert y * a == b * x
    if isinstance(b, Formula) and b.symbols():
        assert shown(divided(a, b)) == x / y


@profile(200)
@given(PAIRS, PAIRS)
def test_equal_formulas_hash_alike_and_are_pickled(one: Pair, other: Pair) -> None:
    (a, x), (b, y) = one, other
    assert (a == b) is (x == y)
    assert not isinstance(a, Formula) or (a == y) is (x == y) is (y == a)
    if a == b:
        assert hash(a) == hash(b)
    for again in (pickle.loads(pickle.dumps(a)), copy.deepcopy(a), light(x)):
        assert again == a
        assert hash(again) == hash(a)
        assert str(again) == str(a)


@profile(100)
@given(PAIRS)
def test_dims_of_both_forms_are_the_same(pair: Pair) -> None:
    formula, expression = pair
    if not isinstance(formula, Formula) or not may_count(formula):
        return
    dim = Dim(formula)
    assert dim == Dim(expression) == expression
    assert hash(dim) == hash(expression)
    assert dim.expr == expression
    assert isinstance(dim.expr, sympy.Expr)
    assert {expression: 1}[dim] == 1


@profile(200)
@given(PAIRS)
def test_what_no_dim_can_be_is_what_sympy_knows(pair: Pair) -> None:
    formula, expression = pair
    if isinstance(formula, Formula) and not may_count(formula):
        assert expression.is_Number or expression.is_integer is False or expression.is_negative


@profile(200)
@given(PAIRS)
def test_parts_of_formulas(pair: Pair) -> None:
    formula, expression = pair
    if not isinstance(formula, Formula):
        return
    over, under = fraction(formula)
    assert (shown(over), shown(under)) == expression.as_numer_denom()
    number, rest = primitive(formula)
    assert sympy.simplify(sympy.Rational(number.numerator, number.denominator) * shown(rest)
                          - expression) == 0  # fmt: skip


def test_degrees_count_products_multiplied_out() -> None:
    n, m, _, _, total, *_ = SYMBOLS
    assert degree(3 * n * m + m, n) == 1
    assert degree(3 * n**2 * m, n) == 2
    assert degree(n * (n + m) - n**2 + total, n) == 1
    assert degree(CeilDiv(n, 4) * m, n) > 1
    assert degree(m + total, n) == 0


def test_symbols_are_found_in_tables_by_either_form() -> None:
    n = Symbol("n")
    assert hash(n) == hash(n.sympy())
    assert {n: 4}[n.sympy()] == {n.sympy(): 4}[n] == 4
    assert n.sympy() == n == n.sympy()
    assert n != sympy.Symbol("n")
    assert {CeilDiv(n, 4): 2}[CeilDiv(n, 4).sympy()] == 2
    assert {Active(n).sympy(): 2}[Active(n)] == 2


def test_formulas_have_what_expressions_have() -> None:
    n, m = Symbol("n"), Symbol("m")
    assert (n + m).subs({n: 3, m: 4}) == 7
    assert (n * m).free_symbols == {n.sympy(), m.sympy()}
    assert (n + 1).is_Add
    with pytest.raises(AttributeError):
        _ = (n + 1).no_such_attribute
    with pytest.raises(TypeError, match="n has no int value"):
        int(n)


def test_expressions_of_other_functions_stay_what_they_are() -> None:
    n, x = sympy.Symbol("n", integer=True, nonnegative=True), sympy.Symbol("x")
    for expression in (sympy.floor(n / 2), n + sympy.Mod(n, 4), 2 * x * n, sympy.sqrt(n) + 1,
                       sympy.Min(n, 8) * 3, 2.5 * n):  # fmt: skip
        made = light(expression)
        assert made.sympy() == expression
        assert str(made) == str(expression)
        assert light(made.sympy()) == pickle.loads(pickle.dumps(made)) == made
    assert isinstance(light(x), Opaque)
    assert light(x).is_symbol
    assert light(sympy.floor(n / 2) + 3).value({Symbol("n"): 9}) == 7
    assert light(sympy.floor(n / 2) + 3).replaced({Symbol("n"): 9}) == 7
    assert light(x + n).value({light(x): 2, Symbol("n"): 3}) == 5


def test_a_sum_of_at_least_one_stays() -> None:
    n, m = Symbol("n"), Symbol("m")
    for size in (n, 2 * n, n + 1, 3 * n + 5, n * m, n - 3, Largest((n, m)), Largest((0, n)),
                 Largest((3, n))):  # fmt: skip
        assert shown(at_least_one(light(size))) == sympy.Max(1, shown(size))


def test_numbers_in_place_of_symbols_leave_no_open_form() -> None:
    n, m, k = Symbol("n"), Symbol("m"), Symbol("k")
    half = divided(n, 2)
    assert CeilDiv(half, 3).replaced({n: 7}) == 2
    assert Active(half).replaced({n: 1}) == 1
    assert Active(half - 1).replaced({n: 1}) == 0
    assert Largest((half, k)).replaced({n: 7, k: 3}) == divided(7, 2)
    assert Largest((half, m, 2)).replaced({n: 7}) == Largest((divided(7, 2), m))
    assert Largest((n, m)).replaced({n: m}) == m
    assert Largest((n, m)).replaced({n: Largest((k, m))}) == Largest((k, m))
    assert Largest((n, m, 4)).replaced({n: Largest((k, 9))}) == Largest((k, m, 9))
    nested = Largest((Largest((n, 3)), Largest((m, 5))))
    assert nested.replaced({n: k}) == Largest((k, m, 5))


def test_a_difference_that_is_a_number_decides() -> None:
    n, m = Symbol("n"), Symbol("m")
    program = Program("compared")
    unfolded = CeilDiv(divided(9, 2), 3)
    assert program.compare(Dim(unfolded), Dim(2)) is True
    assert program.compare(Dim(n + unfolded), Dim(n + 2)) is True
    assert program.compare(Dim(n + unfolded), Dim(n + 3)) is False
    assert program.compare(Dim(n + unfolded), Dim(m + 2)) is None
