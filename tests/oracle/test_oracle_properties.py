"""Laws of the interpreter itself: no dependence on host order, invariants on every run."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, seed, strategies as st

from stepsim.lowering.network import Network
from tests.oracle.compare import assert_same
from tests.oracle.interpreter import OPS, interpret
from tests.oracle.invariants import check_all
from tests.oracle.random_networks import (
    faulty_networks,
    permute_order_free,
    random_networks,
)
from tests.property_profile import profile, repeatable

seeds = st.integers(0, 2**16)


@profile(75)
@given(random_networks())
def test_generated_networks_run_to_the_end_and_obey_the_laws(network: Network) -> None:
    result = interpret(network)
    assert result.status == "ok", result.unit_status
    check_all(network, result)


@profile(75)
@given(random_networks(), seeds)
def test_host_order_does_not_matter(network: Network, seed: int) -> None:
    assert_same(interpret(network), interpret(network, host_order_seed=seed), accounts=True)


@profile(75)
@given(random_networks(), seeds)
def test_order_of_units_matters_for_memory_ports_only(network: Network, seed: int) -> None:
    permuted = permute_order_free(network, seed)
    assert_same(interpret(network), interpret(permuted), accounts=True)


@profile(75)
@given(faulty_networks(), seeds)
def test_failures_do_not_depend_on_host_order(network: Network, seed: int) -> None:
    result = interpret(network)
    check_all(network, result)
    assert_same(result, interpret(network, host_order_seed=seed), accounts=True)


@pytest.mark.long
def test_generators_cover_the_vocabulary_and_the_ways_to_end() -> None:
    """Otherwise the tests above would say less than they seem to."""
    ops: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    contended: list[bool] = []

    # The draws of one run resemble each other.
    for number in range(14):

        @seed(number)
        @repeatable(50)
        @given(random_networks())
        def collect_good(network: Network) -> None:
            ops.update({unit.op for unit in network.units})
            contended.append(sum("OffChip" in unit.op for unit in network.units) >= 3)

        @seed(number)
        @repeatable(15)
        @given(faulty_networks())
        def collect_faulty(network: Network) -> None:
            ends[interpret(network).status] += 1

        collect_good()
        collect_faulty()
    assert set(OPS) <= set(ops), set(OPS) - set(ops)
    assert sum(contended) >= 50
    assert min(ends["failed"], ends["deadlock"]) >= 3, ends
