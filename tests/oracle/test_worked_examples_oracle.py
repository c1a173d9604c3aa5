"""The interpreter reproduces the hand-simulated examples."""

from __future__ import annotations

import pytest

from tests.oracle.example import Example
from tests.oracle.extension_examples import EXTENSION_EXAMPLES
from tests.oracle.interpreter import interpret
from tests.oracle.invariants import check_all
from tests.oracle.memory_examples import MEMORY_EXAMPLES
from tests.oracle.memory_scenarios import SCENARIOS, Scenario, run_scenario
from tests.oracle.worked_examples import OPERATOR_EXAMPLES

EXAMPLES = OPERATOR_EXAMPLES + MEMORY_EXAMPLES + EXTENSION_EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example(example: Example) -> None:
    example.check(interpret)
    check_all(example.network, interpret(example.network))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_memory_scenario(scenario: Scenario) -> None:
    scenario.check(*run_scenario(scenario))
