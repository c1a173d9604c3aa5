"""Nothing is lost: kills at any point, torn files, full disks and dead workers."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.errors import OutputError, SweepError
from stepsim.processes import WorkerProcesses
from stepsim.sweep import open_table, query, read_runs, run_sweep
from stepsim.sweep.backends import LocalBackend, local, patience
from stepsim.sweep.plan import Chunk
from stepsim.sweep.work import ChunkRows
from tests.sweep.support import (
    die_of_one_chunk,
    die_once,
    die_while_sending_once,
    rows_of,
    tiny,
)

MANY = tiny(
    traces={"synthetic": {"tokens": 12, "layers": 5, "steps": 10, "seed": 1}},
    grid={"tile": [1, 2, 4, "dynamic"]},
    chunk=1,
)
"""200 runs, each a chunk of its own."""

# A sweep that is killed at its n-th write of a file: before, in the middle of, or after the write,
# which is before the rename. With n = 0 it waits to be killed from outside.
VICTIM = """
import json, os, signal, sys
import pyarrow.parquet as pq
from stepsim.sweep import run_sweep
spec, folder, count, phase = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
real, writes = pq.write_table, [0]

def write_table(table, path, **options):
    writes[0] += 1
    hit = writes[0] == count
    if hit and phase == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    real(table, path, **options)
    if hit and phase == "torn":
        os.truncate(path, os.path.getsize(path) // 2)
    if hit:
        os.kill(os.getpid(), signal.SIGKILL)

pq.write_table = write_table
print("ready", flush=True)
run_sweep(spec, folder, resume=True)
"""


def saved(folder: Path) -> set[str]:
    """Keys of the runs on disk; fails when a file is not whole."""
    return set(open_table(folder).to_table(columns=["run"])["run"].to_pylist())


def run_and_kill(folder: Path, dice: random.Random, *, outside: bool) -> None:
    count = 0 if outside else dice.randint(2, 30)
    phase = dice.choice(["before", "torn", "after"])
    arguments = [json.dumps(MANY), str(folder), str(count), phase]
    with subprocess.Popen(
        [sys.executable, "-c", VICTIM, *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        if outside:
            time.sleep(dice.uniform(0.05, 0.6))
            process.kill()
        assert process.wait() == -signal.SIGKILL


def test_ten_kills_at_random_points_lose_nothing(tmp_path: Path) -> None:
    undisturbed, folder = tmp_path / "undisturbed", tmp_path / "killed"
    run_sweep(MANY, undisturbed)
    dice = random.Random(20)
    before: set[str] = set()
    for kill in range(10):
        run_and_kill(folder, dice, outside=kill % 3 == 2)
        if (folder / "sweep.json").exists():
            after = saved(folder)
            assert before <= after
            before = after
    assert 0 < len(before) < 200
    summary = run_sweep(MANY, folder, resume=True)
    assert summary.computed == 200 - len(before)
    assert rows_of(folder) == rows_of(undisturbed)
    assert (folder / "summary.json").read_bytes() == (undisturbed / "summary.json").read_bytes()
    assert not list((folder / "parts").iterdir())


def test_a_finished_sweep_is_not_run_again(tmp_path: Path) -> None:
    run_sweep(tiny(), tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("part.parquet")}
    summary = run_sweep(tiny(), tmp_path, resume=True)
    assert (summary.computed, summary.simulated) == (0, 24)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("part.parquet")} == before


def test_torn_temporary_files_are_ignored_and_removed(tmp_path: Path) -> None:
    disturb_after(tmp_path, 3)
    torn = tmp_path / "parts" / ".0001-00001.runs.parquet.abc.tmp"
    torn.write_bytes(b"PAR1 torn")
    rows = saved(tmp_path)
    # The chunk of a kill between the renames of its files: no runs, so it does not count.
    (tmp_path / "parts" / "0003-00000.failures.parquet").write_bytes(b"PAR1 torn")
    assert saved(tmp_path) == rows
    run_sweep(tiny(), tmp_path, resume=True)
    assert not torn.exists()
    assert_as_undisturbed(tmp_path)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: Path) -> None:
    """Change one bit of the data and leave the footer, as a bad disk may."""
    content = bytearray(path.read_bytes())
    content[content.index(b"synthetic")] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "damage"),
    [("runs", cut), ("runs", flip), ("failures", cut), ("failures", Path.unlink)],
)
def test_a_damaged_chunk_runs_again(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    folder = tmp_path / "out"
    disturb_after(folder, 3)
    path = folder / "parts" / f"0001-00000.{name}.parquet"
    damage(path)
    summary = run_sweep(tiny(), folder, resume=True)
    (message,) = summary.damaged
    assert message.startswith(str(path))
    assert summary.computed == 24 - 6
    assert_as_undisturbed(folder)


@pytest.mark.parametrize("name", ["runs", "failures"])
def test_a_damaged_result_is_named(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "out"
    run_sweep(tiny(), folder)
    (path, *_) = sorted((folder / name).rglob("part.parquet"))
    (runs, *_) = sorted((folder / "runs").rglob("part.parquet"))
    cut(path)
    with pytest.raises(SweepError) as caught:
        run_sweep(tiny(), folder, resume=True)
    assert f"{path}: is damaged" in str(caught.value)
    assert f"delete {runs} and run the sweep again with --resume" in str(caught.value)
    if name == "runs":
        for look in (open_table, lambda folder: query(folder, "select 1")):
            with pytest.raises(SweepError, match=re.escape(f"{path}: is damaged")):
                look(folder)
    runs.unlink()
    assert run_sweep(tiny(), folder, resume=True).computed == 6
    assert_as_undisturbed(folder)


def test_a_flipped_bit_is_noticed_by_who_reads(tmp_path: Path) -> None:
    run_sweep(tiny(grid={"tile": [4]}), tmp_path)
    (path,) = (tmp_path / "runs").rglob("part.parquet")
    flip(path)
    for look in (lambda: read_runs(tmp_path, ["trace"]), lambda: query(tmp_path, "from runs")):
        with pytest.raises(SweepError, match=re.escape(f"{path}: is damaged")):
            look()


def flip_number(path: Path, column: str) -> None:
    """Change one bit of the first page of a column of numbers."""
    group = pq.read_metadata(path).row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    (chunk,) = [chunk for chunk in columns if chunk.path_in_schema == column]
    content = bytearray(path.read_bytes())
    content[(chunk.dictionary_page_offset or chunk.data_page_offset) + 40] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("column", ["cycles", None])
def test_a_flipped_bit_of_a_complete_design_point_ends_a_resumed_sweep(
    tmp_path: Path, column: str | None
) -> None:
    run_sweep(tiny(), tmp_path)
    path = sorted((tmp_path / "runs").rglob("part.parquet"))[1]
    if column is None:  # the name of a column, which is in the footer
        content = bytearray(path.read_bytes())
        content[content.index(b"onchip_bytes")] ^= 1
        path.write_bytes(content)
    else:
        flip_number(path, column)
    assert pq.read_metadata(path).num_rows == 6
    before = path.read_bytes()
    with pytest.raises(SweepError) as caught:
        run_sweep(tiny(), tmp_path, resume=True)
    assert f"{path}: is damaged" in str(caught.value)
    assert f"delete {path} and run the sweep again with --resume" in str(caught.value)
    assert path.read_bytes() == before
    path.unlink()
    assert run_sweep(tiny(), tmp_path, resume=True).computed == 6
    assert_as_undisturbed(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "local", "address": "tcp://127.0.0.1:1"}, "the local backend has none"),
        ({"backend": "cluster"}, "unknown backend"),
        ({"jobs": 0}, "expected at least 1"),
    ],
)
def test_a_sweep_that_cannot_start_leaves_no_folder(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SweepError, match=message):
        run_sweep(tiny(), tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_scheduler_that_does_not_answer_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(jobs: int, address: str) -> None:
        raise SweepError(f"no scheduler answers at {address}")

    monkeypatch.setattr("stepsim.sweep.run.DaskBackend", silent)
    with pytest.raises(SweepError, match="no scheduler answers at tcp://nowhere:1"):
        run_sweep(tiny(), tmp_path / "out", backend="dask", address="tcp://nowhere:1")
    assert not (tmp_path / "out").exists()


def disturb_after(folder: Path, chunks: int) -> None:
    """A sweep that stops after some chunks."""

    def stop(progress: Any) -> None:
        nonlocal chunks
        chunks -= 1
        if not chunks:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(tiny(), folder, progress=stop)


def assert_as_undisturbed(folder: Path) -> None:
    other = folder.with_name(folder.name + "-undisturbed")
    run_sweep(tiny(), other)
    assert rows_of(folder) == rows_of(other)


@pytest.mark.parametrize("failing", [1, 2, 5, 6, 7])
def test_a_full_disk_loses_the_chunk_in_flight_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    folder = tmp_path / "out"
    real, writes = pq.write_table, []

    def write_table(table: pa.Table, path: Path, **options: Any) -> None:
        writes.append(path)
        if len(writes) == failing:
            Path(path).write_bytes(b"PAR1")
            raise OSError(errno.ENOSPC, "No space left on device")
        real(table, path, **options)

    monkeypatch.setattr(pq, "write_table", write_table)
    with pytest.raises(OutputError, match="No space left on device"):
        run_sweep(tiny(), folder)
    monkeypatch.undo()
    assert not list(folder.rglob("*.tmp"))
    # Two files per chunk; the fifth and sixth write join the chunks of the first design point.
    expected = {1: 0, 2: 0, 5: 6, 6: 6, 7: 6}[failing]
    assert len(saved(folder)) == expected
    summary = run_sweep(tiny(), folder, resume=True)
    assert summary.computed == 24 - expected
    assert_as_undisturbed(folder)


def test_a_kill_between_joining_and_cleaning_leaves_no_row_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"

    def unlink(self: Path, missing_ok: bool = False) -> None:
        if self.name.startswith("0001"):
            raise KeyboardInterrupt
        real(self, missing_ok=missing_ok)

    real = Path.unlink
    monkeypatch.setattr(Path, "unlink", unlink)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(tiny(), folder)
    monkeypatch.undo()
    assert len(list((folder / "parts").glob("0001*"))) == 4
    assert open_table(folder).count_rows() == 12
    run_sweep(tiny(), folder, resume=True)
    assert_as_undisturbed(folder)


@pytest.mark.parametrize("work", [die_once, die_while_sending_once])
def test_a_worker_that_dies_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[Chunk], ChunkRows]
) -> None:
    folder = tmp_path / "out"
    monkeypatch.setenv("STEPSIM_TEST_FLAG", str(tmp_path / "flag"))
    monkeypatch.setattr(patience, "LOOK_SECONDS", 1.0)
    backend = LocalBackend(2, work)
    try:
        summary = run_sweep(tiny(), folder, backend=backend)
    finally:
        backend.close()
    assert (tmp_path / "flag").exists()
    assert summary.complete
    assert_as_undisturbed(folder)


def test_a_chunk_that_kills_every_worker_is_reported_and_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    backend = LocalBackend(2, die_of_one_chunk)
    try:
        summary = run_sweep(tiny(), folder, backend=backend)
    finally:
        backend.close()
    assert list(summary.unfinished) == ["0001-00000"]
    assert (summary.simulated, summary.complete) == (20, False)
    assert not (folder / "summary.json").exists()
    assert run_sweep(tiny(), folder, resume=True).computed == 4
    assert_as_undisturbed(folder)


# As a user's script would have it: without a guard around what the processes must not run again.
SCRIPT = """
import json, sys
from stepsim.sweep import run_sweep
spec, folder = json.loads(sys.argv[1]), sys.argv[2]
run_sweep(spec, folder, jobs=2, progress=lambda progress: print(progress.done, flush=True))
"""


def test_workers_end_with_a_killed_sweep_and_it_resumes(tmp_path: Path) -> None:
    run_sweep(MANY, tmp_path / "undisturbed")
    folder = tmp_path / "killed"
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), json.dumps(MANY), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == 1
        workers = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    assert len(workers) >= 2
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not [worker for worker in alive if worker.status() != psutil.STATUS_ZOMBIE]
    assert 0 < len(saved(folder)) < 200
    run_sweep(MANY, folder, jobs=2, resume=True)
    assert rows_of(folder) == rows_of(tmp_path / "undisturbed")


def test_failures_are_the_same_from_every_process(tmp_path: Path) -> None:
    spec = tiny(parameters={"tile_inter": 32, "regions": 2, "fifo_depth": 1})
    summary = run_sweep(spec, tmp_path / "here")
    assert summary.errors == {"deadlock": 4}
    run_sweep(spec, tmp_path / "there", jobs=2)
    assert rows_of(tmp_path / "here") == rows_of(tmp_path / "there")
    (message, *_) = open_table(tmp_path / "here", "failures").to_table()["message"].to_pylist()
    assert "waits for" in message
    assert ".py:" not in message


def test_workers_that_cannot_start_end_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def start(jobs: int, module: str) -> WorkerProcesses:
        return WorkerProcesses(jobs, "no_such_module_as_this")

    monkeypatch.setattr(local, "WorkerProcesses", start)
    with pytest.raises(SweepError, match="local: a worker process could not start"):
        run_sweep(tiny(), tmp_path, jobs=2)
    assert "no_such_module_as_this" in capfd.readouterr().err


def test_what_a_kill_left_of_a_complete_sweep_is_no_summary(tmp_path: Path) -> None:
    run_sweep(tiny(), tmp_path)
    with (tmp_path / "timings.jsonl").open("a") as file:
        file.write('{"chunk": "00')
    (first, *_) = sorted((tmp_path / "runs").iterdir())
    shutil.rmtree(first)

    def stop(progress: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(tiny(), tmp_path, resume=True, progress=stop)
    assert not (tmp_path / "summary.json").exists()
    run_sweep(tiny(), tmp_path, resume=True)
    assert (tmp_path / "summary.json").exists()
    lines = (tmp_path / "timings.jsonl").read_text().splitlines()
    assert [json.loads(line)["runs"] for line in lines] == [4, 2] * 5


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "timings.jsonl").mkdir()
    with pytest.raises(OutputError, match=r"timings\.jsonl: cannot be written .*--resume"):
        run_sweep(tiny(), folder)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "runs").touch()
    with pytest.raises(OutputError, match=r"part\.parquet: cannot be written .*--resume"):
        run_sweep(tiny(), tmp_path / "b")


def test_a_folder_belongs_to_one_sweep(tmp_path: Path) -> None:
    disturb_after(tmp_path, 1)
    with pytest.raises(SweepError, match="continue it with --resume"):
        run_sweep(tiny(), tmp_path)
    with pytest.raises(SweepError, match="holds another sweep, it differs in spec"):
        run_sweep(tiny(chunk=3), tmp_path, resume=True)
    manifest = tmp_path / "sweep.json"
    content = json.loads(manifest.read_text())
    content |= {"plan": "", "versions": {"numba": "0.1"}}
    manifest.write_text(json.dumps(content))
    with pytest.raises(SweepError, match="it differs in versions"):
        run_sweep(tiny(), tmp_path, resume=True)


def test_a_folder_has_one_writer_at_a_time(tmp_path: Path) -> None:
    found: list[str] = []

    def intrude(progress: Any) -> None:
        with pytest.raises(SweepError, match="another process is running") as caught:
            run_sweep(tiny(), tmp_path, resume=True)
        found.append(str(caught.value))

    run_sweep(tiny(), tmp_path, progress=intrude)
    assert len(found) == 8
