"""``stepsim sweep tune`` as typed: what it shows, exit codes, mistakes by their lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from stepsim.cli.console import number
from stepsim.cli.exit_codes import BAD_INPUT, RUN_FAILED
from stepsim.cli.sweeps.tune import show_front
from stepsim.sweep import tune
from stepsim.sweep.search.tune import Trial
from tests.cli.conftest import Cli
from tests.sweep.search.test_tune import space
from tests.sweep.support import rows_of


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "tune.yaml"
    path.write_text(yaml.safe_dump(space(**changes), sort_keys=False))
    return path


def trial(number: int, tile: int, cycles: float) -> Trial:
    return Trial(number, {"tile": tile}, {"cycles": cycles})


def test_a_front_shows_whole_numbers_and_designs_with_equal_costs_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    front = [trial(0, 8, 1_864_859.0), trial(1, 16, 1_864_859.0), trial(2, 32, 7.0)]
    show_front(front, ["cycles"])
    said = capsys.readouterr().out
    assert said.count("1,864,859") == 1
    assert "and 1 more with the same costs" in said
    assert len(said.strip().splitlines()) == 3


@pytest.mark.slow
def test_a_search_as_typed_is_that_of_python(tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "out"
    ended = cli("sweep", "tune", written(tmp_path), "--out", out)
    expected = tune(space(), tmp_path / "python")
    assert ended.code == 0
    assert rows_of(out) == rows_of(tmp_path / "python")
    counts = f"16 designs of 45 simulated: {len(expected.front)} Pareto-optimal, 0 violate"
    assert counts in ended.out
    for trial in expected.front:
        assert number(trial.values["cycles"]) in ended.out

    again = cli("sweep", "tune", written(tmp_path), "--out", out, "--resume", "--json")
    said = again.json()
    assert (again.code, said["computed"], said["space"]) == (0, 0, 45)
    assert said["front"] == [trial.number for trial in expected.front]
    assert [trial["values"] for trial in said["trials"]] == [t.values for t in expected.trials]
    # All that reads sweeps reads it.
    assert cli("sweep", "pareto", out, "--json").code == 0
    assert cli("sweep", "best", out, "--per", "step").code == 0
    assert cli("sweep", "compare", out, out).code == 0


@pytest.mark.slow
def test_a_folder_with_a_search_is_not_overwritten(tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "out"
    assert cli("sweep", "tune", written(tmp_path, search={"trials": 4}), "--out", out).code == 0
    ended = cli("sweep", "tune", written(tmp_path), "--out", out)
    assert ended.code == BAD_INPUT
    assert "holds a sweep already; continue it with --resume" in ended.err
    # A sweep of the same designs is no search, so it is told apart.
    ended = cli("sweep", "run", written(tmp_path), "--out", tmp_path / "sweep")
    assert ended.code == BAD_INPUT
    assert "search" in ended.err


def test_without_a_design_that_satisfies_all_constraints_it_fails(tmp_path: Path, cli: Cli) -> None:
    spec = written(tmp_path, search={"constraints": ["cycles < 1"], "trials": 4})
    ended = cli("sweep", "tune", spec, "--out", tmp_path / "out")
    assert ended.code == RUN_FAILED
    assert "4 designs of 45 simulated: 0 Pareto-optimal, 4 violate a constraint" in ended.out
    assert "no design succeeded and satisfies all constraints" in ended.err


def test_designs_that_were_not_simulated_are_listed(tmp_path: Path, cli: Cli) -> None:
    grid = {"tile": [2, "dynamic"], "tile_inter": [32, 48]}
    ended = cli("sweep", "tune", written(tmp_path, grid=grid), "--out", tmp_path / "out")
    assert ended.code == 0
    assert "2 designs were not simulated:" in ended.err
    assert "tile=2, tile_inter=48: " in ended.err


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"search": {"objectives": ["cycle"]}}, "search.objectives: "),
        ({"search": {"constraints": ["onchip <= 4"]}}, "search.constraints[0]: "),
        ({"search": {"sampler": "annealing"}}, "search.sampler: "),
        ({"search": {"trails": 4}}, "search.trails: "),
        ({"grid": {"tiel": [1, 2]}}, "grid.tiel: "),
        ({"tracse": {}}, "tracse: "),
    ],
)
def test_mistakes_are_named_with_key_and_line(
    tmp_path: Path, cli: Cli, changes: dict[str, Any], place: str
) -> None:
    spec = written(tmp_path, **changes)
    ended = cli("sweep", "tune", spec, "--out", tmp_path / "out")
    assert (ended.code, ended.out) == (BAD_INPUT, "")
    key = place.partition(":")[0].rpartition(".")[2]
    (line,) = (
        number
        for number, text in enumerate(spec.read_text().splitlines(), 1)
        if text.strip().startswith("- onchip <=" if key.endswith("[0]") else f"{key}:")
    )
    assert f"line {line}, {place}" in ended.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--jobs", "0"], "--jobs"),
        (["--backend", "slurm"], "--backend"),
        (["--address", "tcp://nowhere:1"], "address"),
    ],
)
def test_wrong_options_are_named(
    tmp_path: Path, cli: Cli, arguments: list[str], message: str
) -> None:
    ended = cli("sweep", "tune", written(tmp_path), "--out", tmp_path / "out", *arguments)
    assert ended.code == BAD_INPUT
    assert message in ended.err
    assert not (tmp_path / "out").exists()


def test_a_specification_without_a_search_is_reported_what_is_missing(
    tmp_path: Path, cli: Cli
) -> None:
    spec = space()
    del spec["search"]
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump(spec))
    ended = cli("sweep", "tune", path, "--out", tmp_path / "out")
    assert ended.code == BAD_INPUT
    assert "search: missing" in ended.err
