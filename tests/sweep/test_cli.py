"""``stepsim sweep run``, ``pareto``, ``compare`` and ``query`` as typed."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from stepsim.cli.exit_codes import BAD_INPUT, NOT_WRITTEN
from stepsim.cli.main import main
from stepsim.sweep import (
    DesignCost,
    DesignCosts,
    LeftOut,
    Plan,
    SweepSummary,
    open_table,
    plan_sweep,
    run_sweep,
)
from stepsim.sweep.analysis import Statistics
from tests.sweep.support import disturb_after, rewrite, rows_of, tiny


def stepsim(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    code = ended.value.code
    assert isinstance(code, int)
    return code, out, err


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump(tiny(**changes)))
    return path


def test_dry_run_counts_and_estimates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = stepsim(capsys, "sweep", "run", write(tmp_path), "--dry-run", "--json")
    assert code == 0
    assert "24 runs: 4 design points x 6 traces; about " in err
    record = json.loads(out)
    assert (record["runs"], len(record["design_points"])) == (24, 4)
    assert record["estimated_seconds"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.yaml"]


@pytest.mark.slow
def test_a_dry_run_counts_what_is_left_in_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = write(tmp_path)
    run = ("sweep", "run", spec, "--dry-run", "--out", tmp_path / "out")
    assert "24 runs: 4 design points x 6 traces; about" in stepsim(capsys, *run)[2]
    assert not (tmp_path / "out").exists()
    disturb_after(tmp_path / "out", 3, yaml.safe_load(spec.read_text()))
    saved = rows_of(tmp_path / "out")
    code, _, err = stepsim(capsys, *run)
    assert (code, "holds a sweep already" in err) == (2, True)
    code, _, err = stepsim(capsys, *run, "--resume")
    assert (code, "14 of them left to do, about" in err) == (0, True)
    assert rows_of(tmp_path / "out") == saved


def test_a_plan_has_the_notes_of_its_machines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*channels: int) -> int:
        path = write(tmp_path, grid={"tile": [2, 4], "machine.hbm.channels": list(channels)})
        return stepsim(capsys, "sweep", "run", path, "--dry-run")[2].count(
            "can take longer than fewer"
        )

    assert said(8, 33, 12) == 2
    assert said(8, 32) == 0


@pytest.mark.slow
def test_a_sweep_and_what_looks_at_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    code, out, err = stepsim(capsys, "sweep", "run", write(tmp_path), "--out", folder)
    assert code == 0
    assert "24 runs: 24 succeeded, 0 failed\n" in out
    assert "24 runs computed in" in out
    assert "left to do" not in err
    assert open_table(folder).count_rows() == 24

    code, out, _ = stepsim(
        capsys, "sweep", "run", write(tmp_path), "--out", folder, "--resume", "--json"
    )
    assert (code, json.loads(out)["computed"]) == (0, 0)
    code, out, err = stepsim(capsys, "sweep", "run", write(tmp_path), "--out", folder, "--resume")
    assert "4 design points x 6 traces; 0 of them left to do, about 0 s with 1 worker" in err
    assert "24 runs: 24 succeeded" in out
    assert "0 runs computed" in out

    code, out, _ = stepsim(
        capsys, "sweep", "pareto", folder, "--x", "onchip_bytes", "--y", "cycles"
    )
    assert (code, out.count("tile=")) == (0, 4)
    assert "yes" in out
    code, out, _ = stepsim(capsys, "sweep", "compare", folder, folder, "--rows", "2")
    assert code == 0
    assert "24 runs in both, 0 larger, 0 smaller, 24 equal, geometric mean 1.0000" in out
    code, out, _ = stepsim(
        capsys, "sweep", "query", folder, "select count(*) as n from runs", "--json"
    )
    assert (code, json.loads(out)) == (0, {"rows": [{"n": 24}]})
    code, _, err = stepsim(capsys, "sweep", "query", folder, "select 1; select 2")
    assert (code, err) == (2, "error: query: expected one statement, found 2\n")
    manifest = (folder / "sweep.json").read_bytes()
    code, _, err = stepsim(capsys, "sweep", "query", folder, f"copy runs to '{folder}/sweep.json'")
    assert code == 2
    assert "disabled by configuration" in err
    assert (folder / "sweep.json").read_bytes() == manifest


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Pretend that the captured stdout is a terminal."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")


LONG = [f"tile={tile} regions=16 machine.hbm.channels=32 compute_bw=4096" for tile in (8, 16)]


def made_cost(point: int, label: str, x: float, y: float, lost: int = 0) -> DesignCost:
    """A design point whose runs are all equal."""
    metrics = tuple(Statistics(one, one, one, one) for one in (x, y))
    return DesignCost(point, label, 1, x, y, False, lost, statistics=metrics)


def show_costs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    costs = [made_cost(i, label, 1234567.8, 2e7 + i) for i, label in enumerate(LONG)]
    found = DesignCosts(tuple(costs), 1, 1, len(costs), ())
    monkeypatch.setattr("stepsim.sweep.design_costs", lambda *_, **__: found)
    code, out, _ = stepsim(capsys, "sweep", "pareto", "out")
    assert code == 0
    assert "…" not in out
    assert out.count("1,234,568") == 2
    return re.sub("\x1b\\[[0-9;]*m", "", out)


def test_tables_on_a_terminal_fold_labels_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_a_terminal(monkeypatch, 80)
    out = show_costs(monkeypatch, capsys)
    assert max(map(len, out.splitlines())) <= 80
    for word in " ".join(LONG).split():
        assert word in out


def test_tables_that_do_not_fit_are_wider_than_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_a_terminal(monkeypatch, 40)
    assert max(map(len, show_costs(monkeypatch, capsys).splitlines())) > 40


def test_piped_tables_have_one_line_for_each_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = show_costs(monkeypatch, capsys)
    assert all(label in out for label in LONG)
    assert len(out.splitlines()) == 3


@pytest.mark.slow
def test_labels_and_answers_are_shown_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    stepsim(capsys, "sweep", "run", write(tmp_path, grid={"tile": [2, 4]}), "--out", folder)
    _, out, err = stepsim(capsys, "sweep", "compare", folder, folder, "--rows", 2)
    assert out.count(" tile=2 layer=0 step=") == 2
    assert "10 more; --rows N" in err
    _, out, _ = stepsim(
        capsys, "sweep", "query", folder, "select * from runs where 'x[/]' = 'x[/]'"
    )
    assert out.count("synthetic (seed 1, skew 1)") == 12
    assert "…" not in out
    (first, *_) = open_table(folder).to_table().to_pylist()
    assert f" {first['cycles']} " in out
    assert first["machine_json"] in out


def test_pareto_tells_which_design_points_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = write(tmp_path, grid={"machine.hbm.latency": [2, 100_000]}, parameters={"tile": 4},
                 limits={"max_cycles": 50_000})  # fmt: skip
    folder = tmp_path / "out"
    stepsim(capsys, "sweep", "run", spec, "--out", folder)
    code, out, err = stepsim(capsys, "sweep", "pareto", folder)
    assert (code, len(out.splitlines())) == (0, 2)
    assert "machine.hbm.latency=2 " in out
    assert "1 of 2 design points left out: none of their runs succeeded" in err


@pytest.mark.slow
def test_analyses_tell_which_runs_are_not_there_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    stepsim(capsys, "sweep", "run", write(tmp_path), "--out", folder)
    (folder / "summary.json").unlink()  # or the file would be missed
    next((folder / "runs").rglob("part.parquet")).unlink()
    remark = re.compile(rf"^{folder}: \d+ runs? not done yet; continue the sweep", re.M)
    for command in (("sweep", "pareto", folder), ("sweep", "compare", folder, folder)):
        code, _, err = stepsim(capsys, *command)
        assert code == 0
        assert remark.search(err), err


@pytest.mark.slow
def test_compare_tells_what_fails_now(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, folder, worse = write(tmp_path), tmp_path / "out", tmp_path / "worse"
    stepsim(capsys, "sweep", "run", spec, "--out", folder)
    shutil.copytree(folder, worse)
    (path, *_) = sorted((worse / "runs").rglob("part.parquet"))
    rows = pq.ParquetFile(path).read()
    rewrite(path, rows.slice(1))
    path = worse / "failures" / path.parent.name / path.name
    failures = pq.ParquetFile(path).read()
    bad = {**rows.to_pylist()[0], "stage": "run", "error": "deadlock", "message": "stuck"}
    rewrite(path, pa.Table.from_pylist([bad], schema=failures.schema))
    code, out, err = stepsim(capsys, "sweep", "compare", folder, worse, "--rows", "2")
    assert code == 0
    head, _, names, first, _ = out.splitlines()
    assert head == (
        "cycles (smaller is better): 23 runs in both, 0 larger, 0 smaller, 23 equal, geometric "
        "mean 1.0000; 1 newly failing, 0 only in A, 0 only in B"
    )
    assert names.split() == ["B", "/", "A", "A", "B", "run"]
    assert " deadlock " in first
    assert "22 more; --rows N" in err
    assert f'stepsim sweep query {worse} "SELECT design, message FROM failures"' in err
    _, out, _ = stepsim(capsys, "sweep", "compare", folder, worse, "--json")
    (failing,) = json.loads(out)["new_failures"]
    assert (failing["error"], failing["message"]) == ("deadlock", "stuck")
    _, out, _ = stepsim(capsys, "sweep", "compare", worse, folder, "--metric", "tokens")
    assert out.startswith("tokens (largest changes first): 23 runs in both")
    assert "; 1 newly succeeding, 0 only in A" in out


def test_compare_tells_of_other_countings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    for folder, counting in ((a, "published"), (b, "paper")):
        spec = write(tmp_path, grid={"tile": [2]}, counting=counting)
        stepsim(capsys, "sweep", "run", spec, "--out", folder)
    remark = "onchip_bytes is counted as published in A and as paper in B"
    code, out, err = stepsim(capsys, "sweep", "compare", a, b, "--metric", "onchip_bytes", "--json")
    assert (code, err.startswith(remark)) == (0, True)
    assert json.loads(out)["remark"].startswith(remark)
    assert stepsim(capsys, "sweep", "compare", a, b)[2] == ""


@pytest.mark.slow
def test_pareto_tells_what_its_means_are_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = {"tile": [2, 3, 4], "machine.hbm.channels": [8]}
    spec, folder = write(tmp_path, grid=grid), tmp_path / "out"
    stepsim(capsys, "sweep", "run", spec, "--out", folder)
    # Between the runs of the slowest design point.
    limit = sorted(open_table(folder).to_table()["cycles"].to_pylist())[-4]
    spec = write(tmp_path, grid=grid, limits={"max_cycles": limit})
    stepsim(capsys, "sweep", "run", spec, "--out", tmp_path / "limited")
    code, out, err = stepsim(
        capsys, "sweep", "pareto", tmp_path / "limited", "--plot", tmp_path / "p.png"
    )
    assert code == 0
    assert out.split()[:4] == ["design", "point", "runs", "lost"]
    assert re.search(r"^means over [1-5] of 6 traces, those that all design points", err, re.M)
    code, out, _ = stepsim(capsys, "sweep", "pareto", tmp_path / "limited", "--json")
    record = json.loads(out)
    assert record["all_traces"] == 6
    assert {point["runs"] for point in record["points"]} == {record["traces"]}
    _, out, err = stepsim(capsys, "sweep", "pareto", folder)
    assert "lost" not in out
    assert err == ""


def test_pareto_names_design_points_that_lost_too_much(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tuple(made_cost(i, f"tile={i}", 1.0 + i, 2.0, lost=i) for i in (0, 1))
    found = DesignCosts(kept, 5, 6, 4, (LeftOut(2, "tile=2", 1, 5),))
    monkeypatch.setattr("stepsim.sweep.design_costs", lambda *_, **__: found)
    code, out, err = stepsim(capsys, "sweep", "pareto", "out")
    assert code == 0
    assert "1 of 4 design points left out: none of their runs" in err
    assert "1 of 4 design points left out: with them, too few traces" in err
    assert "\n  tile=2: 5 of 6 lost\n" in err
    assert "tile=2" not in out


@pytest.mark.slow
def test_failures_give_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = write(tmp_path, limits={"max_cycles": 5})
    code, out, err = stepsim(capsys, "sweep", "run", spec, "--out", tmp_path / "out")
    assert code == 1
    assert 'out "SELECT design, message FROM failures"' in err
    assert "24 runs: 0 succeeded, 24 failed (in the table failures):\n  24 x limit" in out


def test_traces_that_cannot_be_used_are_named_before_the_first_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = [[0, 1], [2, 3]], [[4, 5], [1, 9]]  # two tokens of a layer
    np.save(tmp_path / "some.npy", np.stack([good, *[bad] * 7], axis=1))
    np.save(tmp_path / "all.npy", np.stack([bad] * 2, axis=1))

    spec = write(tmp_path, traces={"files": [str(tmp_path / "some.npy")]})
    code, _, err = stepsim(capsys, "sweep", "run", spec, "--dry-run")
    assert code == 0
    assert "8 traces (7 of them cannot be used)" in err
    assert err.count("expert id 9 is out of range") == 5
    assert "and 2 more" in err

    spec = write(tmp_path, traces={"files": [str(tmp_path / "all.npy")]})
    code, _, err = stepsim(capsys, "sweep", "run", spec, "--out", tmp_path / "out")
    assert code == 2
    assert "none of 2 can be used" in err
    assert err.count("expert id 9 is out of range") == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_chunks_that_were_lost_or_damaged_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"

    def run_all_but_one(plan: Plan, out: Path, **_: object) -> SweepSummary:
        summary = run_sweep(plan, out)
        next((out / "runs").rglob("*.parquet")).unlink()
        lost, damaged = {"0003-00000": "its worker died"}, ("x.parquet: is damaged",)
        return replace(summary, unfinished=lost, damaged=damaged)

    monkeypatch.setattr("stepsim.sweep.run_sweep", run_all_but_one)
    code, out, err = stepsim(capsys, "sweep", "run", write(tmp_path), "--out", folder)
    assert code == 1
    assert "24 runs: 18 succeeded, 0 failed, 6 left\n" in out
    assert "1 chunks killed their worker in every attempt" in err
    assert "chunk 0003-00000: its worker died" in err
    assert "1 chunks of an earlier start were damaged and were run again" in err
    assert "x.parquet: is damaged" in err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["sweep", "run", "{spec}"], "--out: missing"),
        (["sweep", "run", "absent.yaml", "--dry-run"], "cannot be read"),
        (["sweep", "run", "{spec}", "--dry-run", "--resume"], "name it with --out"),
        (
            ["sweep", "run", "{spec}", "--out", "{spec}.out", "--address", "x:1"],
            "local backend takes none",
        ),
        (["sweep", "run", "{spec}", "--dry-run", "--jobs", "0"], "--jobs"),
        (["sweep", "run", "{spec}", "--out", "{spec}.out", "--jobs", "-1"], "--jobs"),
        (["sweep", "compare", "{spec}", "{spec}", "--rows", "0"], "--rows"),
        (["sweep", "pareto", "{spec}"], "holds no sweep"),
        (["sweep", "pareto", "{spec}", "--plot", "x.gif"], "expected .png, .svg or .pdf"),
        (["sweep", "query", "nowhere", "select 1"], "holds no sweep"),
        (["sweep", "compare", "nowhere", "nowhere"], "holds no sweep"),
        (["sweep", "compare", "nowhere", "{spec}"], "runs are compared with `stepsim compare nowh"),
        (
            ["sweep", "compare", "a", "b", "--allow-missing"],
            "--allow-missing: has an effect only with --fail-above",
        ),
        (["sweep", "{spec}", "--out", "x"], "is now run by `stepsim sweep run "),
        (
            ["sweep", "--dry-run", "{spec}"],
            "--dry-run: a sweep is now run by `stepsim sweep run SPEC.yaml`",
        ),
        (["pareto", "x"], "the command is now `stepsim sweep pareto`"),
        (["compare", "x", "--by", "layer"], "is now an option of `stepsim sweep compare`"),
    ],
)
def test_bad_input_gives_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    spec = write(tmp_path)
    code, out, err = stepsim(capsys, *(argument.format(spec=spec) for argument in arguments))
    assert (code, out) == (2, "")
    assert expected in err


@pytest.mark.slow
def test_a_query_leaves_nothing_on_stderr_when_its_process_ends(tmp_path: Path) -> None:
    run_sweep(plan_sweep(tiny()), tmp_path / "out")
    command = [
        sys.executable,
        "-m",
        "stepsim",
        "sweep",
        "query",
        tmp_path / "out",
        "select 1 as one",
    ]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"rows": [{"one": 1}]})
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reason", "expected"),
    [(errno.ENOSPC, NOT_WRITTEN), (errno.EDQUOT, NOT_WRITTEN), (errno.EACCES, BAD_INPUT)],
)
def test_a_full_disk_has_its_own_exit_code(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    reason: int,
    expected: int,
) -> None:
    def write_table(table: pa.Table, path: Path, **options: Any) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(pq, "write_table", write_table)
    arguments = "sweep", "run", write(tmp_path), "--out", tmp_path / "out"
    code, out, err = stepsim(capsys, *arguments)
    assert (code, out) == (expected, "")
    assert os.strerror(reason) in err
    monkeypatch.undo()
    assert stepsim(capsys, *arguments, "--resume")[0] == 0
