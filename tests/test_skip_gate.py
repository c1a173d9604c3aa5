"""The gate that notices when tests of the shared data did not run."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "check_skips.py"
REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="ran"/>
<testcase classname="tests.a" name="left"><skipped message="{reason}"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def gate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_skips", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("reason", "data", "code"),
    [
        ("shared data absent; set STEPSIM_SHARED", True, 1),
        ("shared data absent; set STEPSIM_SHARED", False, 0),
        ("no cases (set STEPSIM_CASES)", True, 1),
        ("not on this platform", True, 0),
    ],
)
def test_only_a_needless_skip_fails(
    gate: ModuleType, tmp_path: Path, reason: str, data: bool, code: int
) -> None:
    report = tmp_path / "tests.xml"
    report.write_text(REPORT.format(reason=reason))
    if data:
        (tmp_path / "data").mkdir()
    assert gate.main(str(report), str(tmp_path)) == code
