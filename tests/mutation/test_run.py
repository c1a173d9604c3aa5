"""A mutant is what the tests see, and it ends, whatever it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stepsim import wording
from tests.mutation import __main__ as tool


@pytest.mark.long
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


ALONE = """
import sys
from pathlib import Path
from tests.mutation import __main__ as tool

path = Path(sys.argv[1])
source = path.read_text()
for text in (source, source + "raise RuntimeError('changed')"):
    print(tool._run(path, text, [sys.argv[2]], 60)[0])
"""


@pytest.mark.slow
def test_tests_see_the_changed_module(tmp_path: Path) -> None:
    tests = tmp_path / "test_one.py"
    tests.write_text("def test() -> None:\n    import stepsim.wording\n")
    done = subprocess.run(
        [sys.executable, "-c", ALONE, wording.__file__, tests],
        cwd=tool._ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["True", "False"]
