"""A column that is renamed in a copy of the package is found by the snapshot."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.promises.snapshot import ROOT

FOLDERS = ("stepsim", "tests/promises", "tests/data/promises.json", "docs")
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n### Changed\n\n"


def copied(folder: Path) -> None:
    """What the snapshot is made of, with a name of one column in all files for another."""
    for name in FOLDERS:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        else:
            left_out = shutil.ignore_patterns("__pycache__", "_build")
            shutil.copytree(ROOT / name, folder / name, ignore=left_out)
    for name in ("tests/__init__.py", "tests/pages.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    for path in [*(folder / "stepsim").rglob("*.py"), *(folder / "stepsim").rglob("*.csv")]:
        text = path.read_text(encoding="utf-8")
        changed = re.sub(r"\bbandwidth_utilization\b", "share_of_bandwidth", text)
        if changed != text:
            path.write_text(changed, encoding="utf-8")


def listed(folder: Path, entry: str) -> tuple[int, list[str]]:
    (folder / "CHANGELOG.md").write_text(CHANGELOG + entry, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tests.promises"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, done.stdout.splitlines()


@pytest.mark.slow
def test_a_column_that_is_really_renamed_fails_until_it_is_announced(tmp_path: Path) -> None:
    copied(tmp_path)
    code, lines = listed(tmp_path, "")
    assert code == 1
    assert "NOT ANNOUNCED columns: bandwidth_utilization: is gone" in lines
    code, lines = listed(tmp_path, "- `bandwidth_utilization` is `share_of_bandwidth`.\n")
    assert code == 0, lines
    assert "announced columns: bandwidth_utilization: is gone" in lines
