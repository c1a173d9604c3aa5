"""The commands of the page on reports work, and make what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from stepsim.report.html import require_plotly
from tests.report.html.conftest import Command

PAGE = (Path(__file__).parents[3] / "docs" / "report.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_commands_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)
    for line in block.splitlines():
        assert command(*shlex.split(line)[1:]) == 0, line
    size = (tmp_path / "report.html").stat().st_size / 1e6
    assert f"about {size:.0f} MB" in " ".join(PAGE.split())
    assert f"{len(require_plotly()) / 1e6:.1f} MB are the plotting library" in PAGE
