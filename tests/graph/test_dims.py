"""Dims: kinds, canonical arithmetic, the absorbing rule, cardinality."""

from __future__ import annotations

import copy
import pickle

import pytest
import sympy

from stepsim.errors import ArgError, KindError
from stepsim.graph.sizes.dims import Dim, Kind, Namer, total_over
from stepsim.graph.sizes.shapes import cardinality, flatten_dims, format_dims
from stepsim.graph.sizes.sizes import Active, CeilDiv, active, ceil_div, product, text


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
    assert str(namer.symbol("n_2", "b")) == "n_2_2"
    assert format_dims([Dim(2), namer.ragged("len", "c")]) == "[2, ~len]"


def test_texts_are_those_of_the_value_itself():
    equal = (True, 1, sympy.Integer(1), 1.0)
    assert [text(size) for size in equal] == ["True", "1", "1", "1.0"]


def test_ragged_dims_own_symbols_for_what_is_not_known(namer):
    own = namer.ragged("len", "test")
    assert [str(size) for size in (own.total, own.bound)] == ["len_total", "len_max"]
    assert namer.provenance[own.bound] == "largest size of ~len: test"
    given = namer.ragged("a", "test", total=own.total, bound=7)
    assert (given.total, given.bound) == (own.total, 7)
    assert not own.static
    assert Dim(3).static
    assert [str(s) for s in namer.provenance] == ["len", "len_total", "len_max", "a"]


def test_names_that_look_like_numbered_ones_are_left_out(namer):
    assert str(namer.symbol("n_2", "a")) == "n_2"
    assert [str(namer.symbol("n", "b")) for _ in range(3)] == ["n", "n_2_2", "n_3"]


@pytest.mark.parametrize("bad", [True, "4", 2.0, None])
def test_not_a_size(bad):
    with pytest.raises(ArgError, match="a dim is an int or a sympy expression"):
        Dim(bad)


@pytest.mark.parametrize(
    "bad",
    [
        sympy.Rational(1, 2),
        sympy.Float(2.0),
        sympy.Integer(-1),
        sympy.I,
        -sympy.Symbol("p", positive=True),
    ],
)
def test_expressions_that_are_no_sizes(bad):
    with pytest.raises(ArgError, match="a dim"):
        Dim.of(bad)


def test_expressions_that_are_sizes(n):
    assert Dim.of(sympy.Integer(3)).kind is Kind.SR
    assert Dim.of(n + 1).kind is Kind.DR
    assert Dim.of(sympy.Symbol("plain")).kind is Kind.DR


def test_dims_of_one_symbol_and_different_kinds_differ(namer):
    own = namer.ragged("len", "test")
    assert Dim(own.expr) != own
    assert own == own.expr
    assert Dim(own.total) != own
    assert (Dim(3) == "3") is False


def test_products_and_sums_with_a_ragged_dim(namer, n):
    a = namer.ragged("a", "test", static=True)
    b = namer.ragged("b", "test", static=True)
    both = a + b
    assert (both.total, both.bound) == (a.total + b.total, a.bound + b.bound)
    assert both.static
    assert namer.provenance[both.expr] == "absorbed: ~a + ~b"
    more = a + 2
    assert (str(more.total), more.bound) == (f"{more.expr}_total", a.bound + 2)
    crossed = a * b
    assert (str(crossed.total), crossed.bound) == (f"{crossed.expr}_total", a.bound * b.bound)
    assert namer.provenance[crossed.expr] == "absorbed: ~a * ~b"
    assert (3 * a).total == 3 * a.total
    assert (Dim(n) * a).total == n * a.total
    assert Dim(1) * a is a
    assert Dim(0) * a == 0 == a * 0
    assert 0 + a is a
    assert (Dim(0) + n, Dim(n) + 0) == (Dim(n), Dim(n))


def test_ceil_div_of_every_kind(namer, n):
    own = namer.ragged("len", "test", static=True)
    assert Dim(7).ceil_div(4) == 2
    assert Dim(n).ceil_div(4).expr == CeilDiv(n, 4)
    cut = own.ceil_div(4)
    assert cut.static
    assert namer.provenance[cut.expr] == "ceil of ~len / 4"
    for bad in (0, -1, True, 2.0):
        with pytest.raises(ArgError, match=r"cannot divide dim ~len by .*: the divisor"):
            own.ceil_div(bad)


def test_repeated_dims_keep_everything_but_their_sums(namer, n):
    part = namer.ragged("p", "test")
    own = namer.ragged("len", "test", bound=9, static=True, parts=(part, Dim(2)), span=n)
    again = own.repeated(3, "here")
    assert again == own
    assert (again.total, again.bound, again.static, again.span) == (3 * own.total, 9, True, n)
    assert [p.total for p in again.parts] == [3 * part.total, 2]
    unknown = own.repeated(None, "here")
    assert namer.provenance[unknown.total] == "sum of all sizes of ~len in here"
    assert own.repeated(1, "here") is own
    assert Dim(n).repeated(3, "here") == n
    anew = own.counted_anew(7, "there")
    assert anew == own
    assert (anew.bound, anew.static, anew.parts, anew.span) == (9, True, (), 7)
    assert namer.provenance[anew.total] == "sum of all sizes of ~len in there"
    assert Dim(n).counted_anew(7, "there") == n


def test_totals_over_constant_numbers_of_elements(namer, n):
    side = namer.ragged("r", "test", span=4)
    assert total_over(side, 4) == side.total
    assert total_over(side, 12) == 3 * side.total
    assert total_over(side, 4 * n) == n * side.total
    spread = namer.ragged("s", "test", span=n)
    # Over no elements there is nothing to spread.
    assert total_over(spread, 12) == 12 * spread.total / sympy.Max(1, n)
    m = namer.symbol("m", "test")
    assert total_over(spread, m) == m * spread.total / sympy.Max(1, n)
    assert total_over(namer.ragged("t", "test"), 5) == sympy.Symbol(
        "t_total", integer=True, nonnegative=True
    )


def test_flattened_ragged_dims_have_exact_totals_and_bounds(namer, n):
    a = namer.ragged("a", "test", static=True)
    b = namer.ragged("b", "test")
    one = flatten_dims([Dim(3), a, Dim(2)], outermost=False, why="here")
    assert (one.total, one.bound, one.static) == (2 * a.total, 6 * a.bound, True)
    assert namer.provenance[one.expr] == "here"
    two = flatten_dims([a, b], outermost=False, why="here")
    assert (two.total, two.bound, two.static) == (b.total, a.bound * b.bound, False)
    assert flatten_dims([Dim(1), Dim(n), Dim(1)], outermost=True, why="here").expr == n
    assert flatten_dims([Dim(1), Dim(1)], outermost=True, why="here") == 1
    assert not flatten_dims([Dim(n), a], outermost=False, why="here").static


def test_ragged_dims_of_no_program_cannot_enter_arithmetic(n):
    with pytest.raises(KindError, match="belongs to no program"):
        _ = Dim(n, Kind.RG) * 2


def test_pickled_ragged_dims_are_whole(namer, n):
    own = namer.ragged("len", "test", static=True, parts=(Dim(2),), span=n)
    again = pickle.loads(pickle.dumps(own))
    for name in ("expr", "kind", "total", "bound", "static", "parts", "span"):
        assert getattr(again, name) == getattr(own, name)
    assert (again * 2).total == 2 * own.total
