"""Synthetic routing: the same bytes everywhere, and the law it promises."""

from __future__ import annotations

import decimal
import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from stepsim.errors import ArgError
from stepsim.trace_io import routing_statistics, synthetic_routing
from stepsim.trace_io.routing import synthetic
from tests.property_profile import profile


def test_pinned_on_every_machine():
    table = synthetic_routing(6, 16, 3, seed=42, skew=1.0)
    assert table.experts.tolist() == [
        [1, 15, 13],
        [14, 1, 4],
        [12, 4, 1],
        [2, 8, 12],
        [0, 2, 13],
        [10, 5, 7],
    ]
    assert synthetic_routing(1024, 128, 8, seed=7, skew=1.3, layer=2, step=5).identity() == (
        "74a1c84ecdb376bce157caa3e0a6ecf5b2eaf90f18be9de2de0e1a122577cced"
    )


@profile(30)
@given(
    st.integers(1, 40),
    st.integers(1, 70),
    st.data(),
    st.integers(0, 2**70),
    st.floats(0, 64),
)
def test_every_table_is_valid(tokens, experts, data, seed, skew):
    k = data.draw(st.integers(1, experts))
    table = synthetic_routing(tokens, experts, k, seed=seed, skew=skew)
    assert table.experts.shape == (tokens, k)
    assert table.counts(experts).sum() == tokens * k  # checks range and distinctness
    assert table == synthetic_routing(tokens, experts, k, seed=seed, skew=skew)


def test_the_chunk_size_does_not_show(monkeypatch):
    whole = synthetic_routing(100, 16, 3, seed=0)
    monkeypatch.setattr(synthetic, "_CHUNK_ELEMENTS", 16 * 7)
    assert synthetic_routing(100, 16, 3, seed=0) == whole


def test_the_decimal_context_of_the_caller_does_not_show():
    expected = synthetic_routing(50, 64, 4, seed=0, skew=0.7)
    with decimal.localcontext(prec=2, rounding=decimal.ROUND_UP) as context:
        context.traps[decimal.Inexact] = True
        assert synthetic_routing(50, 64, 4, seed=0, skew=0.7) == expected


def test_seed_layer_and_step_each_give_other_choices():
    tables = [
        synthetic_routing(64, 32, 4, seed=seed, layer=layer, step=step).experts.tobytes()
        for seed, layer, step in itertools.product((0, 1), repeat=3)
    ]
    assert len(set(tables)) == 8


def test_popular_experts_belong_to_the_layer():
    def ranking(**where: int) -> list[int]:
        counts = synthetic_routing(20000, 8, 1, seed=5, skew=2, **where).counts(8)
        return np.argsort(-counts)[:4].tolist()

    assert ranking(step=0) == ranking(step=1)
    assert ranking(layer=0) != ranking(layer=1)


def test_the_law_of_the_choices():
    """The order of the choices has the probability of sampling without replacement."""
    tokens, skew = 200_000, 1.0
    table = synthetic_routing(tokens, 4, 2, seed=11, skew=skew)
    first = np.bincount(table.experts[:, 0], minlength=4)
    rank = np.argsort(np.argsort(-first)) + 1
    weight = rank**-skew
    total = weight.sum()
    for a, b in itertools.permutations(range(4), 2):
        expected = weight[a] / total * weight[b] / (total - weight[a])
        found = ((table.experts[:, 0] == a) & (table.experts[:, 1] == b)).mean()
        # Six standard deviations; the seed is fixed, so this does not flicker.
        assert abs(found - expected) < 6 * np.sqrt(expected * (1 - expected) / tokens)


@pytest.mark.parametrize(
    ("skew", "imbalance", "cv"),
    [(0, 1.3, 0.12), (0.5, 5.4, 0.7), (1, 13.5, 1.7), (1.5, 15.9, 2.5), (2, 16.0, 2.9)],
)
def test_the_documented_loads(skew, imbalance, cv):
    stats = [
        routing_statistics(synthetic_routing(1024, 128, 8, seed=seed, skew=skew), 128)
        for seed in range(5)
    ]
    assert np.mean([s.imbalance for s in stats]) == pytest.approx(imbalance, rel=0.05)
    assert np.mean([s.cv for s in stats]) == pytest.approx(cv, rel=0.05)
    assert f"imbalance {imbalance:.1f}, cv {cv}" in synthetic.__doc__


def test_all_experts_of_a_token_when_k_is_all():
    table = synthetic_routing(20, 6, 6, seed=0, skew=8)
    assert (np.sort(table.experts, axis=1) == np.arange(6)).all()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tokens": 0}, "tokens is 0, expected at least 1"),
        ({"experts": 0}, r"experts is 0, expected 1\.\.65536"),
        ({"experts": 65537}, r"experts is 65537, expected 1\.\.65536"),
        ({"k": 0}, r"k is 0, expected 1\.\.8"),
        ({"k": 9}, r"k is 9, expected 1\.\.8"),
        ({"seed": -1}, "seed is -1, expected at least 0"),
        ({"layer": -1}, "layer is -1, expected 0..2147483647"),
        ({"step": -1}, "step is -1, expected 0..2147483647"),
        ({"skew": -0.5}, r"skew is -0.5, expected a Zipf exponent 0\.\.64"),
        ({"skew": float("nan")}, "skew is nan, expected"),
        ({"skew": 65}, "skew is 65, expected"),
    ],
)
def test_arguments_are_checked(change, says):
    arguments = {"tokens": 4, "experts": 8, "k": 2, "seed": 0} | change
    with pytest.raises(ArgError, match=says):
        synthetic_routing(**arguments)
