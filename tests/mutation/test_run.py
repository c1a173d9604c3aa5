"""A mutant ends, whatever it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepsim import wording
from tests.mutation import __main__ as tool


@pytest.mark.slow
def test_a_mutant_that_waits_for_ever_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(wording.__file__)
    source = path.read_text(encoding="utf-8")
    tests = tmp_path / "test_one.py"
    tests.write_text("def test() -> None:\n    pass\n")
    assert tool._run(path, source, [str(tests)], 60)[0]
    tests.write_text("import time\n\ndef test() -> None:\n    time.sleep(3600)\n")
    monkeypatch.setattr(tool, "_WALL_TIMES", 0.05)
    assert not tool._run(path, source, [str(tests)], 60)[0]
