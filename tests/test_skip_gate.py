"""The gate that notices when tests of the shared data or of a browser did not run."""

from __future__ import annotations

import importlib.util
import itertools
import re
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "check_skips.py"
RUN = SCRIPT.with_name("run")
REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="ran"/>
<testcase classname="tests.report.html.test_browser" name="test_a_run[chromium]"/>
<testcase classname="tests.test_notebooks" name="test_a_notebook_runs[why]"/>
<testcase classname="tests.design.operators.test_torch_import" name="test_a_block[gemma]"/>
<testcase classname="tests.design.operators.test_onnx_import" name="test_a_block[gemma]"/>
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
        ("no browser: chromium is not installed", False, 1),
        ("no notebooks without nbclient", False, 1),
        ("no PyTorch: run `make test-torch`", False, 1),
    ],
)
def test_only_a_needless_skip_fails(
    gate: ModuleType, tmp_path: Path, reason: str, data: bool, code: int
) -> None:
    report = tmp_path / "recorded.xml"
    report.write_text(REPORT.format(reason=reason))
    if data:
        (tmp_path / "data").mkdir()
    assert gate.main(str(tmp_path), str(report)) == code


def test_every_test_has_a_target_and_strangers_need_nothing() -> None:
    """Whatever markers a test has, one of the targets that `.ci/run` makes runs it; of those that
    are long, `make thorough`.
    """
    text = (SCRIPT.parents[1] / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
    targets = re.findall(r"^make (\S+)$|=\S+ make (\S+)$", RUN.read_text(), flags=re.MULTILINE)
    chosen = {}
    for name in filter(None, itertools.chain(*targets, ["thorough"])):
        (recipe,) = re.findall(rf"^{name}: \$.*?^$", text, flags=re.MULTILINE | re.DOTALL)
        (quoted, word) = re.findall(r"\s-m (?:'(.*?)'|(torch))", recipe)[-1]
        chosen[name] = quoted or word
    assert set(chosen) == {"test", "test-recorded", "slow", "test-torch", "thorough"}
    markers = ("slow", "recorded", "torch", "long", "hypothesis", "fuzz", "chaos", "wheel")
    for has in itertools.product((False, True), repeat=len(markers)):
        values = dict(zip(markers, has, strict=True))
        runs = {name for name, expression in chosen.items() if eval(expression, {}, values)}
        assert runs - ({"thorough"} if not values["long"] else set()), values
        assert ("test" in runs) == (not any(has[:4])), values


def test_only_recorded_tests_look_for_the_shared_data(
    gate: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "tests.xml"
    report.write_text(REPORT.format(reason="no shared traces; set STEPSIM_SHARED"))
    assert gate.main(str(tmp_path), str(report)) == 1
    assert "1 tests look for the shared data and lack the marker" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["test_browser", "test_a_notebook_runs", "test_torch_import", "test_onnx_import"]
)
@pytest.mark.parametrize("skipped", [False, True])
def test_what_no_report_has_did_not_run(
    gate: ModuleType, tmp_path: Path, name: str, skipped: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A module that cannot be collected, or a moved file, must not pass for tests that ran."""
    whole, without = tmp_path / "whole.xml", tmp_path / "without.xml"
    text = REPORT.format(reason="not on this platform")
    whole.write_text(text)
    lines = text.splitlines()
    kept = [line for line in lines if name not in line]
    assert len(kept) == len(lines) - 1
    if skipped:
        lost = next(line for line in lines if name in line)
        kept.insert(2, lost.replace("/>", '><skipped message="a moved folder"/></testcase>'))
    without.write_text("\n".join(kept))
    assert gate.main(str(tmp_path), str(without)) == 1
    assert name in capsys.readouterr().err
    assert gate.main(str(tmp_path), str(without), str(whole)) == 0
