"""Dims: kinds, canonical arithmetic, the absorbing rule, cardinality."""

from __future__ import annotations

import copy
import pickle

import pytest
import sympy

from stepsim.errors import ArgError, KindError
from stepsim.graph.dims import Dim, Kind, Namer, cardinality, flatten_dims, format_dims, total_over
from stepsim.graph.sizes import Active, CeilDiv, active, ceil_div, product, text


@pytest.fixture
def namer() -> Namer:
    return Namer()


@pytest.fixture
def n(namer) -> sympy.Symbol:
    return namer.symbol("n", "test")


def test_static_arithmetic_is_plain_int():
    for made in (Dim(3) * 4, 4 * Dim(3), Dim(3) + 9, 9 + Dim(3)):
        assert made == 12
        assert type(made.expr) is int
        assert made.kind is Kind.SR


def test_static_dynamic_mix_is_an_expression(n):
    assert (Dim(n) * 4).expr == 4 * n
    assert (1 + Dim(n)).expr == n + 1
    assert (Dim(n) * 2).kind is Kind.DR


def test_identity_and_zero_keep_their_meaning(namer):
    ragged = namer.ragged("len", "test")
    assert ragged * 1 is ragged
    assert 1 * ragged is ragged
    assert ragged.ceil_div(1) is ragged
    assert ragged + 0 is ragged
    assert ragged * 0 == 0


def test_absorbing_rule(namer, n):
    ragged = namer.ragged("len", "test")
    for made in (ragged * 2, ragged * Dim(n), ragged + 1, ragged.ceil_div(2)):
        assert made.is_ragged
        assert made.expr not in (ragged.expr, 2 * ragged.expr)
    assert (ragged * Dim(n)).total == n * ragged.total
    assert (ragged * 2).bound == 2 * ragged.bound
    assert ragged.ceil_div(2).bound == CeilDiv(ragged.bound, 2)


def test_raggedness_is_static_only_when_all_operands_are(namer, n):
    known = namer.ragged("a", "test", static=True)
    assert (known * 2).static
    assert not (known * Dim(n)).static


def test_int_of_a_dynamic_dim_is_an_error(n):
    assert int(Dim(7)) == 7
    with pytest.raises(KindError, match="dim n is dynamic-regular"):
        int(Dim(n))


def test_dims_are_values(n):
    assert Dim(4) == 4 == Dim(4)
    assert len({Dim(4), Dim(4), Dim(n), Dim(n)}) == 2
    with pytest.raises(AttributeError, match="immutable"):
        Dim(4).expr = 5
    assert copy.deepcopy(Dim(n)) == pickle.loads(pickle.dumps(Dim(n))) == Dim(n)


@pytest.mark.parametrize("bad", ["x", 2.5, None, True, -1])
def test_not_a_dim(bad):
    if bad is True:
        assert Dim.of(bad) == 1  # an int by Python's rules
        return
    with pytest.raises(ArgError):
        Dim.of(bad)


def test_ceil_div_is_canonical(n):
    assert ceil_div(7, 4) == 2
    assert ceil_div(n, 1) is n
    assert ceil_div(n, 4) == ceil_div(n, 4)
    assert str(ceil_div(n, 4)) == "ceil(n/4)"
    assert str(ceil_div(n + 1, 4)) == "ceil((n + 1)/4)"
    assert ceil_div(n, 4).subs(n, 9) == 3


def test_active_is_canonical(n, namer):
    m = namer.symbol("m", "test")
    assert active(0) == 0
    assert active(9) == 1
    assert active(ceil_div(n, 8)) == Active(n)
    assert active(Active(n)) == Active(n)
    assert active(12 * n) == Active(n)
    assert active(n * m) == Active(n) * Active(m)
    assert active(n + m).subs({n: 0, m: 0}) == 0
    assert str(Active(n)) == "Min(1, n)"


def test_redundant_switches_drop_out_of_products(n, namer):
    m = namer.symbol("m", "test")
    assert product((Active(n), n)) == n
    assert product((Active(n), ceil_div(n, 8), 8)) == 8 * ceil_div(n, 8)
    assert product((Active(n), Active(n))) == Active(n)
    assert product((Active(n), m)) == Active(n) * m
    assert product((0, n)) == 0


def test_cardinality_uses_the_total_of_the_innermost_ragged_dim(namer, n):
    a = namer.ragged("a", "test")
    b = namer.ragged("b", "test")
    assert cardinality([Dim(3), a, Dim(4)]) == 4 * a.total
    assert cardinality([Dim(n), a, b, Dim(2)]) == 2 * b.total
    assert cardinality([Dim(n), Dim(4)]) == 4 * n


def test_flattening_absorbs_and_the_outermost_dim_is_never_ragged(namer):
    ragged = namer.ragged("len", "test")
    inner = flatten_dims([Dim(2), ragged], outermost=False, why="test")
    assert inner.is_ragged
    assert inner != ragged
    assert inner.total == ragged.total
    outer = flatten_dims([Dim(2), ragged], outermost=True, why="test")
    assert outer.kind is Kind.DR
    assert outer.expr == ragged.total
    only = flatten_dims([Dim(1), ragged], outermost=True, why="test")
    assert only.kind is Kind.DR
    assert flatten_dims([Dim(1), ragged], outermost=False, why="test") is ragged


def test_total_over_scales_with_the_stream(namer, n):
    m = namer.symbol("m", "test")
    side = namer.ragged("r", "test", span=n + m)
    assert total_over(side, n + m) == side.total
    assert total_over(side, 16 * (n + m)) == 16 * side.total
    assert total_over(Dim(8), n) == 8 * n


def test_names_are_unique(namer):
    assert [str(namer.symbol("n", "a")) for _ in range(3)] == ["n", "n_2", "n_3"]
    assert str(namer.symbol("n_2", "b")) not in ("n", "n_2", "n_3")
    assert format_dims([Dim(2), namer.ragged("len", "c")]) == "[2, ~len]"


def test_texts_are_those_of_the_value_itself():
    equal = (True, 1, sympy.Integer(1), 1.0)
    assert [text(size) for size in equal] == ["True", "1", "1", "1.0"]
