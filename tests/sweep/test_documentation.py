"""What the page on sweeps shows can be run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from stepsim.sweep import (
    plan_sweep,
)


@pytest.mark.slow
def test_examples_of_the_documentation_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).parents[2] / "docs" / "sweeps.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["sw"].open_table("swiglu-sweep").count_rows() == 4
    assert (tmp_path / "swiglu.png").read_bytes().startswith(b"\x89PNG")
    assert names["found"].to_pydict()["channels"] == [16, 32]
    asked = re.findall(
        r"^stepsim sweep query tiles \"(.*?)\"$", page.read_text(), re.DOTALL | re.MULTILINE
    )
    assert len(asked) == 4
    for sql in asked:
        names["sw"].query("swiglu-sweep", sql)
    (specification, *_) = re.findall(r"```yaml\n(.*?)```", page.read_text(), flags=re.DOTALL)
    (tmp_path / "tiles.yaml").write_text(specification)
    assert plan_sweep(tmp_path / "tiles.yaml").runs == 2000
