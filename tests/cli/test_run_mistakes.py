"""Bad input of ``stepsim run moe``: message, exit code 2, nothing on stdout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepsim.workloads import MOE_SHAPES
from tests.cli.conftest import Cli

MISTAKES = {
    "tile zero": (
        {"tile": 0},
        (),
        "--tile: expected a whole number from 1, or 'dynamic', found '0'",
    ),
    "tile word": (
        {"tile": "adaptive"},
        (),
        "--tile: expected a whole number from 1, or 'dynamic', found 'adaptive'",
    ),
    "tile that does not divide": (
        {},
        ("--tile-inter", 50),
        "--tile-inter: expected a divisor of the inner dimension 768 of qwen3-30b-a3b, "
        "found 50; near ones are 32, 48, 64",
    ),
    "negative depth": (
        {},
        ("--fifo-depth", -1),
        "--fifo-depth: expected a whole number from 1, found -1",
    ),
    "depth beyond all counting": (
        {},
        ("--fifo-depth", 99999999999999999999),
        "--fifo-depth: expected a whole number from 1 to 2**40, found 99999999999999999999",
    ),
    "compute beyond all counting": (
        {},
        ("--compute-bw", 2**70),
        f"--compute-bw: expected a whole number from 1 to 2**40, found {2**70}",
    ),
    "cycles beyond all counting": (
        {},
        ("--max-cycles", 2**64),
        f"--max-cycles: expected a whole number from 1 to 2**40, found {2**64}",
    ),
    "tile beyond all counting": (
        {"tile": 2**64},
        (),
        f"--tile: expected a whole number from 1 to 2**40, found {2**64}",
    ),
    "seconds that are no number": (
        {},
        ("--max-seconds", "nan"),
        "--max-seconds: expected a number above 0, found nan",
    ),
    "no compute": (
        {},
        ("--compute-bw", 0),
        "--compute-bw: expected a whole number from 1, found 0",
    ),
    "model": (
        {"model": "mixtral-8x7"},
        (),
        "--model: unknown model 'mixtral-8x7'; did you mean 'mixtral-8x7b'? "
        f"Known: {', '.join(sorted(MOE_SHAPES))}",
    ),
    "machine": (
        {},
        ("--machine", "sda1024"),
        "unknown machine 'sda1024'; did you mean 'sda-1024'? "
        "Known machines: sda-1024, sda-hdl; or give the path of a YAML file.",
    ),
    "machine key": (
        {},
        ("--set", "channels=4"),
        "machine override: unknown key 'channels'; did you mean 'hbm.channels'? Known: name, "
        "description, hbm.model, hbm.request_bytes, hbm.channels, hbm.latency, hbm.interval, "
        "hbm.startup, onchip.bytes_per_cycle, fifo.depth, closure_slack",
    ),
    "cycles": (
        {},
        ("--max-cycles", 0),
        "--max-cycles: expected a whole number from 1, found 0",
    ),
    "seconds": (
        {},
        ("--max-seconds", 0),
        "--max-seconds: expected a number above 0, found 0",
    ),
}


@pytest.mark.parametrize(("replace", "options", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(
    run, replace: dict[str, object], options: tuple[object, ...], message: str
) -> None:
    outcome = run("--json", *options, **replace)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"error: {message}\n")


def test_wrong_number_of_experts_per_token(run, trace: Path) -> None:
    outcome = run("--json", model="mixtral-8x7b")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {trace}: 8 experts per token")
    assert "k = 2" in outcome.err


def test_machine_file_that_is_not_yaml(run, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: [1\n")
    outcome = run("--json", "--machine", path)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: machine file {path}: not valid YAML: line 2, column 1")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/result.parquet", "does not exist; make it first"),
        ("file/result.parquet", "is not a folder; make it first"),
        ("folder", "it is a folder; name a file in it"),
    ],
)
def test_output_that_cannot_be_written(run, tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    outcome = run("--json", "--out", tmp_path / name)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {tmp_path / name}: cannot be written, ")
    assert outcome.err.endswith(f"{reason}\n")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_output_in_a_protected_folder(run, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    outcome = run("--json", "--out", tmp_path / "result.parquet")
    tmp_path.chmod(0o700)
    assert (outcome.code, outcome.out) == (2, "")
    assert "cannot write" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_option_value_is_bad_input(run) -> None:
    outcome = run("--json", "--memory-model", "exact")
    assert (outcome.code, outcome.out) == (2, "")
    assert "published" in outcome.err


def test_missing_options_are_bad_input(cli: Cli) -> None:
    outcome = cli("run", "moe", "--json")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--model" in outcome.err


@pytest.mark.parametrize("name", ["result.csv", "result", "result.parquet.gz"])
def test_output_of_another_kind(run, tmp_path: Path, name: str) -> None:
    outcome = run("--json", "--out", tmp_path / name)
    assert (outcome.code, outcome.out) == (2, "")
    assert "expected a name that ends in .parquet, for example" in outcome.err
    assert list(tmp_path.iterdir()) == []
