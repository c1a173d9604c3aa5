"""The worked examples of docs/extending.md, applied as they stand there, run and are timed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import stepsim
from tests.samples import sampled

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S))
NEW_FILE, CHANGE = "# new file: ", "# change: "


def blocks(section: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", SECTIONS[section], re.M | re.S)


def write_files(section: str, folder: Path) -> int:
    """Make the new files and the changes of a section below ``folder``; how many files."""
    files = set()
    for block in blocks(section, "python"):
        if block.startswith(NEW_FILE):
            name, text = block.removeprefix(NEW_FILE).split("\n", 1)
            assert not (folder / name).exists()
            (folder / name).write_text(text)
            files.add(name)
    for block in blocks(section, "diff"):
        name, diff = block.removeprefix(CHANGE).split("\n", 1)
        text = (folder / name).read_text()
        for context, added in re.findall(r"^ (.*\n)((?:\+.*\n)+)", diff, re.M):
            assert text.count(context) == 1, context
            text = text.replace(context, context + re.sub(r"^\+", "", added, flags=re.M))
        (folder / name).write_text(text)
        files.add(name)
    return len(files)


def run_example(section: str, folder: Path) -> None:
    """The last Python block prints what the text block shows."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", blocks(section, "python")[-1]],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [done.stdout] == blocks(section, "text")


@pytest.mark.slow
def test_a_stream_operator_takes_five_files(tmp_path: Path) -> None:
    package = Path(stepsim.__file__).parent
    shutil.copytree(package, tmp_path / "stepsim", ignore=shutil.ignore_patterns("__pycache__"))
    assert write_files("A stream operator", tmp_path) == 5
    run_example("A stream operator", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "section", sampled(["A function", "A memory model", "A part of a service"], "A memory model")
)
def test_a_plugin_takes_one_file(section: str, tmp_path: Path) -> None:
    (tmp_path / "stepsim").symlink_to(Path(stepsim.__file__).parent)
    assert write_files(section, tmp_path) == 1
    (entry,) = blocks(section, "toml")
    group, points = re.fullmatch(r'\[project\.entry-points\."(.*)"\]\n(.*)', entry, re.S).groups()  # type: ignore[union-attr]
    info = tmp_path / "example-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: example\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{points.replace(chr(34), '')}")
    run_example(section, tmp_path)
