"""Tokens that go from chip to chip: the engine against the plain interpreter, and laws."""

from __future__ import annotations

from hypothesis import given, strategies as st

from stepsim.lowering import Network
from tests.engine_backend import run_engine
from tests.oracle.compare import assert_same
from tests.oracle.interpreter import interpret
from tests.oracle.invariants import check_all
from tests.oracle.random_chips import chip_networks
from tests.oracle.random_networks import faulty_networks, random_networks, routed_networks
from tests.property_profile import profile

NAMES = ("engine", "interpreter")


@profile(100)
@given(chip_networks(random_networks(max_slack=1)))
def test_engine_agrees_with_the_interpreter(network: Network) -> None:
    engine = run_engine(network)
    assert_same(engine, interpret(network), accounts=True, names=NAMES)
    check_all(network, engine)


@profile(50)
@given(chip_networks(st.one_of(routed_networks(), faulty_networks())))
def test_routed_and_faulty_networks_agree(network: Network) -> None:
    engine = run_engine(network)
    assert_same(engine, interpret(network), accounts=True, names=NAMES)
    check_all(network, engine)
