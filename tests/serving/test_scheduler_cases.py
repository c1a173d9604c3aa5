"""Every recorded decision of vLLM's scheduler is made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serving.scheduler_cases import read_cases, replayed
from tests.shared import SCHEDULER_CASES, recorded

_FILES = sorted(SCHEDULER_CASES.glob("*.jsonl")) or [SCHEDULER_CASES / "cases.jsonl"]


@recorded(SCHEDULER_CASES)
@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_serving_scheduler_cases(path: Path) -> None:
    different = []
    count = 0
    for case in read_cases(path):
        count += 1
        found = replayed(case)
        if found != case["expected"]:
            wrong = [name for name, value in case["expected"].items() if found.get(name) != value]
            different.append((case["id"], case["theme"], wrong))
    assert count > 0
    assert different == []
