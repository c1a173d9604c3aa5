"""The memory model ``dram``: ports, arbiter and request path, against one iteration per cycle."""

from __future__ import annotations

import pytest
from hypothesis import given

from stepsim.lowering import Network
from tests.engine_backend import run_engine
from tests.oracle.compare import assert_same
from tests.oracle.interpreter import interpret
from tests.oracle.random_dram import with_dram
from tests.oracle.random_networks import random_networks, routed_networks
from tests.property_profile import profile

NAMES = ("engine", "interpreter")

pytestmark = pytest.mark.slow
"""They compile an engine."""


@profile(25, thorough=1500)
@given(with_dram(random_networks(max_slack=1)))
def test_engine_agrees_with_the_interpreter(network: Network) -> None:
    assert_same(run_engine(network), interpret(network), accounts=True, names=NAMES)


@profile(10, thorough=500)
@given(with_dram(routed_networks()))
def test_routed_tuples_and_buffers_agree(network: Network) -> None:
    assert_same(run_engine(network), interpret(network), accounts=True, names=NAMES)
