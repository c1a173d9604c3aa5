"""Recorded cases of an independent solver, and the hand-simulated examples, on the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine_backend import run_engine
from tests.oracle.cases import cases_folder, load_case
from tests.oracle.example import Example
from tests.oracle.extension_examples import EXTENSION_EXAMPLES
from tests.oracle.invariants import check_all
from tests.oracle.memory_examples import MEMORY_EXAMPLES
from tests.oracle.worked_examples import OPERATOR_EXAMPLES

EXAMPLES = OPERATOR_EXAMPLES + MEMORY_EXAMPLES + EXTENSION_EXAMPLES
CASES = sorted(cases_folder().glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_random_cases(path: Path) -> None:
    case = load_case(path)
    engine = run_engine(case.network)
    assert engine.status == "ok"
    for channel, expected in case.tokens.items():
        found = [list(token) for token in engine.tokens[channel]]
        assert found == expected, f"tokens of {channel}"
    assert engine.final_clock == case.final_clock
    assert engine.final_pace == case.final_pace
    assert engine.memory_node_end == case.memory_node_end
    assert engine.cycles == case.cycles
    check_all(case.network, engine)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_worked_example(example: Example) -> None:
    example.check(run_engine)
