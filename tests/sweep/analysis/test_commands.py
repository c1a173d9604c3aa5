"""``stepsim sweep best`` and ``sweep compare --baseline --by`` as typed, also as a gate."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.cli.exit_codes import BAD_INPUT, REGRESSED
from stepsim.sweep import best, compare_baseline
from tests.cli.conftest import Cli
from tests.sweep.support import rewrite


def edited(folder: Path, out: Path, layer: int, factor: float, failing: int = 0) -> Path:
    """A sweep whose first design became slower in a layer, and fails in the other one."""
    shutil.copytree(folder, out)
    (path, *_) = sorted((out / "runs").rglob("part.parquet"))
    table = pq.ParquetFile(path).read()
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        if row["layer"] == layer:
            row["cycles"] = round(row["cycles"] * factor)
    lost = [row for row in rows if row["layer"] != layer][:failing]
    kept = [row for row in rows if row not in lost]
    rewrite(path, pa.Table.from_pylist(kept, schema=table.schema))
    path = out / "failures" / path.parent.name / path.name
    failures = pq.ParquetFile(path).read()
    said = [{**row, "stage": "run", "error": "deadlock", "message": "they wait"} for row in lost]
    rewrite(path, pa.Table.from_pylist(said, schema=failures.schema))
    return out


@pytest.mark.slow
def test_the_best_per_layer_and_step(done: Path, cli: Cli) -> None:
    said = cli("sweep", "best", done, "--per", "layer,step", "--json").json()
    found = best(done, per=["layer", "step"])
    assert [one["label"] for one in said["groups"]] == [one.label for one in found.groups]
    assert len(said["groups"]) == 6
    assert said["objective"] == {"metric": "cycles", "statistic": "mean"}
    shown = cli("sweep", "best", done, "--per", "layer,step", "--metric", "p95_cycles")
    assert shown.code == 0
    assert "best for all 6 runs by p95 cycles" in shown.out


@pytest.mark.slow
def test_one_design_for_all_runs_needs_no_groups(done: Path, cli: Cli) -> None:
    shown = cli("sweep", "best", done, "--where", "channels == 8")
    assert shown.code == 0
    assert best(done, where="channels == 8").overall.label in shown.out
    assert len(shown.out.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metric", "cycle"], "did you mean 'cycles'"),
        (["--metric", "tokens"], "tokens"),
        (["--per", "layr"], "layr"),
        (["--where", "cycles < 1"], "no run that succeeded satisfies 'cycles < 1'"),
        (["--metric", "cost", "--cost", "chanels=1"], "unknown name 'chanels'"),
        (["--metric", "cost"], "the machine has no section costs"),
    ],
)
def test_mistakes_of_best_are_named(
    done: Path, cli: Cli, arguments: list[str], message: str
) -> None:
    ended = cli("sweep", "best", done, *arguments)
    assert (ended.code, ended.out) == (BAD_INPUT, "")
    assert message in ended.err


@pytest.mark.slow
def test_designs_against_a_baseline_in_groups(done: Path, cli: Cli) -> None:
    options = ("--baseline", "tile=2", "--by", "layer,step")
    said = cli("sweep", "compare", done, *options, "--json").json()
    found = compare_baseline(done, baseline={"tile": "2"}, by=["layer", "step"])
    assert [row["ratio"] for row in said["rows"]] == [row.ratio for row in found.rows]
    assert (len(said["rows"]), said["regression"]) == (12, None)
    shown = cli("sweep", "compare", done, *options, "--rows", "3")
    assert shown.code == 0
    assert shown.out.count("tile=dynamic") == 3
    assert "9 more; --rows N shows N rows" in shown.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--by", "layer"], "--by: within one sweep, --baseline is needed"),
        (["--baseline", "tile=4"], "the values found are tile = 2, dynamic"),
        (["--baseline", "tile"], "expected values such as tile=32,channels=16, found 'tile'"),
        (["--baseline", "tile=2", "--by", "layr"], "layr"),
        (["--baseline", "tile=2", "--fail-above", "1"], "expected a percentage such as 1%"),
        (
            ["--baseline", "tile=2", "--fail-above", "1%", "--metric", "tokens"],
            "it is unknown which values of tokens are better",
        ),
        (["--where", "tile == 2"], "--where and --cost compare designs"),
    ],
)
def test_mistakes_of_baselines_are_named(
    done: Path, cli: Cli, arguments: list[str], message: str
) -> None:
    ended = cli("sweep", "compare", done, *arguments)
    assert (ended.code, ended.out) == (BAD_INPUT, "")
    assert message in ended.err


@pytest.mark.slow
def test_sweeps_without_common_runs_are_reported_of_pairing(
    done: Path, deeper: Path, cli: Cli
) -> None:
    ended = cli("sweep", "compare", done, deeper)
    assert ended.code == BAD_INPUT
    assert "have no run in common" in ended.err
    assert "--by layer,step" in ended.err
    assert cli("sweep", "compare", done, deeper, "--by", "layer,step").code == 0


@pytest.mark.slow
def test_a_gate_over_groups_ends_with_1_where_one_is_worse(
    done: Path, tmp_path: Path, cli: Cli
) -> None:
    slower = edited(done, tmp_path / "slower", layer=1, factor=1.02)
    gate = ("--by", "layer", "--fail-above")
    assert cli("sweep", "compare", done, done, *gate, "0%").code == 0
    assert cli("sweep", "compare", done, slower, *gate, "3%").code == 0
    assert cli("sweep", "compare", slower, done, *gate, "0%").code == 0
    ended = cli("sweep", "compare", done, slower, *gate, "1%", "--markdown")
    assert ended.code == REGRESSED
    assert "**Regression**: mean cycles: 1 of 8 rows worse by more than 1%." in ended.out
    assert "| layer | design | baseline | runs |" in ended.out
    assert "+2.0" in ended.out
    assert "regression: mean cycles: 1 of 8" in ended.err
    ended = cli("sweep", "compare", done, slower, *gate, "1%", "--json", "--metric", "p95_cycles")
    assert ended.code == REGRESSED
    assert json.loads(ended.out)["regression"].startswith("p95 cycles: 1 of 8 rows worse")
    # Over all runs of the design it is half of that.
    assert cli("sweep", "compare", done, slower, "--by", "tile", "--fail-above", "1.5%").code == 0


@pytest.mark.slow
def test_a_gate_over_groups_notices_runs_that_fail(done: Path, tmp_path: Path, cli: Cli) -> None:
    failing = edited(done, tmp_path / "failing", layer=1, factor=1.0, failing=2)
    ended = cli(
        "sweep", "compare", done, failing, "--by", "layer", "--fail-above", "50%", "--markdown"
    )
    assert ended.code == REGRESSED
    assert "0 of 8 rows worse by more than 50%, 2 runs newly failing" in ended.out
    assert ended.out.count("| deadlock |") == 2
    assert "layer=0 step=0" in ended.out
    # They fail in both, or are of no interest.
    assert (
        cli("sweep", "compare", failing, failing, "--by", "layer", "--fail-above", "0%").code == 0
    )
    narrowed = ("--by", "layer", "--where", "layer == 1", "--fail-above", "0%")
    assert cli("sweep", "compare", done, failing, *narrowed).code == 0
    # Without a gate it is told all the same.
    ended = cli("sweep", "compare", done, failing, "--by", "layer")
    assert ended.code == 0
    assert "2 runs failed although the baseline did not" in ended.err
