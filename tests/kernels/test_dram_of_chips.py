"""Several chips with a DRAM each: the engine against one iteration per cycle, and laws."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from stepsim.lowering import ChipLinks, Network
from tests.engine_backend import run_engine
from tests.oracle.compare import assert_same
from tests.oracle.interpreter import interpret
from tests.oracle.random_chips import chip_networks
from tests.oracle.random_dram import with_dram
from tests.oracle.random_networks import random_networks, routed_networks
from tests.property_profile import profile

NAMES = ("engine", "interpreter")

pytestmark = pytest.mark.slow
"""They compile an engine."""


@pytest.mark.long
@profile(25, thorough=1500)
@given(chip_networks(with_dram(random_networks(max_slack=1)), memories=False))
def test_engine_agrees_with_the_interpreter(network: Network) -> None:
    assert_same(run_engine(network), interpret(network), accounts=True, names=NAMES)


@profile(10, thorough=500)
@given(chip_networks(with_dram(routed_networks()), memories=False))
def test_routed_tuples_and_buffers_agree(network: Network) -> None:
    assert_same(run_engine(network), interpret(network), accounts=True, names=NAMES)


@profile(15, thorough=500)
@given(with_dram(random_networks(max_slack=1)))
def test_all_units_on_one_chip_take_the_times_of_a_single_chip(network: Network) -> None:
    alone = replace(network, between=ChipLinks((2,) * len(network.units)))
    assert_same(run_engine(alone), run_engine(network), accounts=True)
