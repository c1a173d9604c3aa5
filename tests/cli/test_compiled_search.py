"""The page on searches of compiled designs: its specification and its commands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stepsim.sweep import read_designs
from tests.cli.conftest import Cli

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "compile-dse.md"


@pytest.mark.long
def test_the_page_runs(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    Path("compiled.yaml").write_text(text)
    (commands,) = re.findall(r"```bash\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    for command in commands.splitlines():
        outcome = cli(*command.replace(" --jobs 2", "").split()[1:])
        assert outcome.code == 0, outcome.err
    assert Path("designs.html").read_text().count("reductions_outermost") > 0
    found = json.loads(cli("sweep", "best", "designs", "--json").out)
    assert found["overall"] is not None
    assert {"tile", "unroll", "order", "vectors", "budget"} <= {
        key for design in read_designs("designs").values() for key in design
    }
