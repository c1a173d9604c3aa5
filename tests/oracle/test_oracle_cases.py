"""The interpreter reproduces every case of the independent solver, in any host order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.cases import cases_folder, load_case
from tests.oracle.interpreter import interpret
from tests.oracle.invariants import check_all

FILES = sorted(cases_folder().glob("case*.json"))


def test_case_files_are_present() -> None:
    assert FILES


@pytest.mark.parametrize("host_order", [None, 7])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_case_is_reproduced(path: Path, host_order: int | None) -> None:
    case = load_case(path)
    result = interpret(case.network, host_order_seed=host_order)
    assert result.status == "ok", result.unit_status
    for channel, expected in case.tokens.items():
        assert [list(token) for token in result.tokens[channel]] == expected, channel
    assert result.final_clock == case.final_clock
    assert result.final_pace == case.final_pace
    assert result.memory_node_end == case.memory_node_end
    assert result.cycles == case.cycles
    check_all(case.network, result)
