"""``stepsim reproduce``: figures, and the pages on validation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Cli


@pytest.mark.slow
def test_a_figure_on_synthetic_traces(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "out"
    outcome = cli("reproduce", "15", "--out", out, "--jobs", 1)
    assert outcome.code == 0, outcome.err
    assert "\x1b" not in outcome.out
    assert re.search(r"^Figure 15: \d+\.\d\d s of runs", outcome.out, flags=re.MULTILINE)
    lines = [line for line in outcome.out.splitlines() if line.startswith("f15_b")]
    assert len(lines) == 8
    assert re.findall("published|canonical", outcome.out) == ["published"]  # the counting
    assert "dynamic vs coarse at batch 16" in outcome.out
    assert outcome.out.startswith("synthetic traces, no comparison\n")
    assert "8 runs in" in outcome.out
    assert f"wrote {out}/report.md" in outcome.err
    assert (out / "fig15.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["11"], "error: figures: expected one or more of 8, 9, 10,"),
        (["8", "--jobs", 0], "error: jobs: expected a whole number from 1, found 0"),
        (["8", "--data", "/nowhere"], "error: /nowhere: is not a folder"),
        (["8", "--closure-slack", -1], "--closure-slack"),
        (["8", "--closure-slack", 17], "--closure-slack"),
        ([], "Missing argument"),
    ],
)
def test_bad_input(cli: Cli, tmp_path: Path, arguments: list[object], message: str) -> None:
    outcome = cli("reproduce", *arguments, "--out", tmp_path / "out")
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_page_on_validation_needs_data(cli: Cli, tmp_path: Path) -> None:
    outcome = cli("reproduce", "validation", "--data", tmp_path, "--out", tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    assert re.search(r"error: .*\.npz: is missing \(and \d+ more\)", outcome.err)
    outcome = cli("reproduce", "validation", "--out", tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    assert "recorded traces are needed; give their folder with --data, or --fetch" in outcome.err


def test_the_page_on_streamtensor(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "stepsim.reproduce.write_streamtensor_validation", lambda path: path.write_text("# Page\n")
    )
    outcome = cli("reproduce", "streamtensor-validation", "--out", tmp_path / "docs")
    assert outcome.code == 0
    assert (tmp_path / "docs" / "streamtensor-validation.md").read_text() == "# Page\n"


def test_the_page_on_serving(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "stepsim.reproduce.write_serving_validation",
        lambda path, data: path.write_text(f"# Page of {data.name}\n"),
    )
    out = tmp_path / "docs"
    outcome = cli("reproduce", "serving-validation", "--data", tmp_path / "some", "--out", out)
    assert outcome.code == 0
    assert (out / "serving-validation.md").read_text() == "# Page of some\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "validation", "8"], "validation: expected alone, found with other names"),
        (["reproduce", "validation", "--closure-slack", 1], "--closure-slack has no effect"),
        (["reproduce", "streamtensor-validation", "--fetch"], "--fetch: no effect"),
        (["reproduce", "serving-validation", "--jobs", 1], "--jobs: no effect"),
        (["reproduce", "serving-validation"], "recorded runs are needed; give the folder"),
        (["validate"], "the command is now `stepsim reproduce validation`"),
    ],
)
def test_mistakes_on_pages(cli: Cli, tmp_path: Path, arguments: list[object], message: str) -> None:
    outcome = cli(*arguments, "--out", tmp_path / "out")
    assert outcome.code == 2
    assert message in outcome.err
    assert not (tmp_path / "out").exists()
