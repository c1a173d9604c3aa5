"""``stepsim demo`` and ``stepsim warmup``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import stepsim.deferred
from stepsim.cli import demo
from tests.cli.conftest import Cli


def test_demo_compares_tilings_and_writes_table_and_picture(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "new" / "demo"
    outcome = cli("demo", "--out", out)
    assert outcome.code == 0, outcome.err
    assert sorted(path.name for path in out.iterdir()) == [
        "cycles-against-memory.png",
        "tilings.parquet",
    ]
    assert (out / "cycles-against-memory.png").read_bytes().startswith(b"\x89PNG")
    rows = pq.read_table(out / "tilings.parquet").to_pylist()
    assert [row["tile"] for row in rows] == ["8", "16", "32", "64", "dynamic"]
    assert {row["status"] for row in rows} == {"ok"}
    for row in rows:
        assert f"{row['cycles']:,}" in outcome.out
    *static, dynamic = rows
    # Taller tiles read weights less often and need more memory; dynamic ones do both best.
    assert [row["offchip_bytes"] for row in static] == sorted(
        (row["offchip_bytes"] for row in static), reverse=True
    )
    assert [row["onchip_bytes"] for row in static] == sorted(row["onchip_bytes"] for row in static)
    assert dynamic["onchip_bytes"] < min(row["onchip_bytes"] for row in static)
    assert dynamic["offchip_bytes"] == min(row["offchip_bytes"] for row in static)
    assert dynamic["padded_flops"] == 0
    assert (dynamic["compute_bw"], static[0]["compute_bw"]) == (6400, 4096)


def test_demo_without_extras_says_what_each_is_for(cli: Cli, tmp_path: Path) -> None:
    absent = {"matplotlib", "ray", "google"}
    there = stepsim.deferred.is_installed
    with pytest.MonkeyPatch.context() as patch:
        for module in (stepsim.deferred, demo):
            patch.setattr(module, "is_installed", lambda name: name not in absent and there(name))
        outcome = cli("demo", "--out", tmp_path)
        extras = cli("env", "--json").json()["extras"]
    assert outcome.code == 0, outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["tilings.parquet"]
    assert f"wrote {tmp_path}/tilings.parquet, and no picture\n" in outcome.err
    last = outcome.err.splitlines()[-1]
    install = stepsim.deferred.install_extra("graph")
    assert last.startswith(f"extras that are not installed; {install} adds the first: graph (")
    for extra, need in (
        ("plot", "drawing needs matplotlib"),
        ("ray", "the backend ray needs ray"),
        ("graph", "a graph file needs protobuf"),
    ):
        assert f"{extra} ({need})" in last
        install = stepsim.deferred.install_extra(extra)
        assert extras[extra] == f"not installed: {need}: {install}"
    assert "dask" not in extras


def test_extras_are_installed_into_the_environment_of_stepsim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = tmp_path / "env" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "pip").touch(mode=0o755)
    monkeypatch.setattr("sys.executable", str(scripts / "python"))
    monkeypatch.setenv("PATH", "/usr/bin")
    install = stepsim.deferred.install_extra
    assert install("plot") == f"{scripts}/python -m pip install 'stepsim[plot]'"
    monkeypatch.chdir(tmp_path)
    assert install("plot") == "env/bin/python -m pip install 'stepsim[plot]'"
    monkeypatch.setenv("PATH", str(scripts))
    assert install("plot") == "pip install 'stepsim[plot]'"


@pytest.mark.slow
def test_demo_says_which_units_its_numbers_have(cli: Cli, tmp_path: Path) -> None:
    cli("demo", "--out", tmp_path)
    schema = pq.read_schema(tmp_path / "tilings.parquet")
    assert schema.field("cycles").metadata == {
        b"unit": b"cycles",
        b"definition": b"length of the run",
    }
    assert all(b"unit" in field.metadata for field in schema)


def test_demo_in_an_impossible_folder(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    outcome = cli("demo", "--out", tmp_path / "file" / "demo")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {tmp_path}/file/demo: the folder cannot be created")
    assert outcome.err.endswith("choose another with --out\n")


def test_demo_of_another_seed(cli: Cli, tmp_path: Path) -> None:
    outcome = cli("demo", "--out", tmp_path, "--seed", -1)
    assert (outcome.code, outcome.out) == (2, "")
    assert "seed is -1" in outcome.err


def test_warmup_reports_on_stderr(cli: Cli) -> None:
    outcome = cli("warmup", "runs", "recorded")
    assert (outcome.code, outcome.out) == (0, "")
    seconds = r"in \d+\.\d s"
    how = rf" (compiled for \S+ {seconds}, stored in |loaded from the cache {seconds}: ).*\.kernel"
    lines = outcome.err.splitlines()[-3:]
    names = ("engine", "engine of recorded runs", "timing of recorded waits")
    for what, line in zip(names, lines, strict=True):
        assert re.fullmatch(what + how, line)


@pytest.mark.parametrize("jobs", [0, -3])
def test_warmup_without_processes(cli: Cli, jobs: int) -> None:
    outcome = cli("warmup", "runs", "--jobs", jobs)
    assert (outcome.code, outcome.out) == (2, "")
    assert "jobs" in outcome.err
    assert f"found {jobs}" in outcome.err


def test_warmup_of_an_unknown_engine(cli: Cli) -> None:
    outcome = cli("warmup", "fast")
    assert (outcome.code, outcome.out) == (2, "")
    assert (
        "no engine is named 'fast'; expected one of runs, recorded, bounded, dram, " in outcome.err
    )


def test_help_of_warmup_names_every_engine(cli: Cli) -> None:
    shown = cli("warmup", "--help").out
    for name in stepsim.kernels.ENGINES:
        assert f"'{name}'" in shown


@pytest.mark.long
def test_all_engines_are_compiled_in_processes_at_the_same_time(tmp_path: Path) -> None:
    # Two short ones, of an engine that is compiled into an empty folder.
    environment = {**os.environ, "STEPSIM_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "stepsim", "warmup", "requests", "hardware", "--jobs", "2"]
    for how in ("compiled for", "loaded from the cache"):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        lines = done.stderr.splitlines()[-2:]
        assert lines[0].startswith(f"engine of requests to DRAM alone {how}")
        assert lines[1].startswith(f"engine of the hardware level {how}")
