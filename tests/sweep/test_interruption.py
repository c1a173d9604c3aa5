"""Nothing is lost: kills at any point, full disks, folders of other sweeps."""

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
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.errors import OutputError, SweepError
from stepsim.sweep import open_table, plan_sweep, run_sweep
from tests.children import started
from tests.samples import sampled
from tests.sweep.support import (
    MANY,
    assert_as_undisturbed,
    disturb_after,
    rows_of,
    saved,
    tiny,
)

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


def run_and_kill(folder: Path, dice: random.Random, *, outside: bool) -> None:
    count = 0 if outside else dice.randint(2, 30)
    phase = dice.choice(["before", "torn", "after"])
    arguments = [json.dumps(MANY), str(folder), str(count), phase]
    with started(
        [sys.executable, "-c", VICTIM, *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        if outside:
            time.sleep(dice.uniform(0.05, 0.6))
            process.kill()
        assert process.wait() == -signal.SIGKILL


@pytest.mark.long
def test_six_kills_at_random_points_lose_nothing(tmp_path: Path) -> None:
    undisturbed, folder = tmp_path / "undisturbed", tmp_path / "killed"
    run_sweep(MANY, undisturbed)
    dice = random.Random(20)
    before: set[str] = set()
    for kill in range(6):
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


@pytest.mark.slow
def test_a_finished_sweep_is_not_run_again(tmp_path: Path) -> None:
    run_sweep(tiny(), tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("part.parquet")}
    summary = run_sweep(tiny(), tmp_path, resume=True)
    assert (summary.computed, summary.simulated) == (0, 24)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("part.parquet")} == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"address": "tcp://127.0.0.1:1"}, "the local backend takes none"),
        ({"backend": "slurm"}, "unknown backend 'slurm'; known are local, dask, ray"),
        ({"jobs": 0}, "jobs is 0; expected at least 1"),
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
        raise SweepError(f"no scheduler responds at {address}")

    monkeypatch.setattr("stepsim.sweep.running.run.DaskBackend", silent)
    with pytest.raises(SweepError, match="no scheduler responds at tcp://nowhere:1"):
        run_sweep(tiny(), tmp_path / "out", backend="dask", address="tcp://nowhere:1")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("failing", sampled([1, 2, 5, 6, 7], 1, 6))
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


@pytest.mark.slow
@pytest.mark.parametrize("failing", sampled([1, 2, 3, 5, 6, 7, 8], 6))
def test_half_a_line_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    folder = tmp_path / "out"
    real, writes = os.write, []

    def write(handle: int, data: bytes) -> int:
        writes.append(len(data))
        if len(writes) == failing:
            return real(handle, data[:50])
        if len(writes) == failing + 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(handle, data)

    monkeypatch.setattr("stepsim.sweep.storage.lines.os.write", write)
    with pytest.raises(OutputError, match=r"No space left on device.*continue with --resume"):
        run_sweep(tiny(), folder)
    monkeypatch.undo()
    assert not list(folder.rglob("*.tmp"))
    for name in ("digests.jsonl", "timings.jsonl"):
        if (folder / name).exists():
            for line in (folder / name).read_bytes().splitlines(keepends=True):
                assert line.endswith(b"\n")
                json.loads(line)
    run_sweep(tiny(), folder, resume=True)
    assert_as_undisturbed(folder)


@pytest.mark.slow
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


@pytest.mark.slow
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
    with pytest.raises(SweepError, match="holds another sweep, it differs in chunk; "):
        run_sweep(tiny(chunk=3), tmp_path, resume=True)
    manifest = tmp_path / "sweep.json"
    content = json.loads(manifest.read_text())
    content |= {"plan": "", "versions": {"numba": "0.1"}}
    manifest.write_text(json.dumps(content))
    with pytest.raises(SweepError, match=r"versions \(stepsim unknown, now .*; numba 0\.1, now "):
        run_sweep(tiny(), tmp_path, resume=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"counting": "paper"}, "counting"),
        ({"parameters": {"tile_inter": 32, "fifo_depth": 3}}, "parameters, origins"),
        ({"parameters": {"tile_inter": 32, "regions": None}}, ""),
        ({"machine": "sda-1024", "limits": {"max_cycles": 10**9}}, "limits"),
        ({"grid": {"tile": [2]}}, "design points"),
        ({"traces": {"synthetic": {"tokens": 12, "layers": 2, "steps": 3, "seed": 2}}}, "traces"),
    ],
)
def test_only_the_same_plan_is_resumed(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    disturb_after(tmp_path, 1)
    if not expected:
        run_sweep(tiny(**changes), tmp_path, resume=True)
        return
    with pytest.raises(SweepError, match=f"another sweep, it differs in {expected}; continue"):
        run_sweep(tiny(**changes), tmp_path, resume=True)


def test_published_settings_are_not_mixed_with_equal_given_ones(tmp_path: Path) -> None:
    common = tiny(model="mixtral-8x7b", grid={"tile": [8]}, traces={
        "synthetic": {"tokens": 4, "layers": 1, "steps": 2, "seed": 1}
    })  # fmt: skip
    published = plan_sweep({**common, "parameters": {"config": "published"}})
    values = dict(published.points[0].values)
    equal = {key: values[key] for key in ("tile_inter", "compute_bw")}
    given = plan_sweep({**common, "parameters": equal})
    assert given.points[0].values == values
    assert given.digest() != published.digest()
    assert given.differences(published.parts) == ["config", "origins", "counting"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_folder_that_cannot_be_locked_is_not_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def flock(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", flock)
    reason = re.escape(f"{tmp_path}: cannot be locked ({os.strerror(number)}), so that another")
    with pytest.raises(OutputError, match=reason):
        run_sweep(tiny(), tmp_path)
    monkeypatch.undo()
    assert run_sweep(tiny(), tmp_path).complete


@pytest.mark.slow
def test_a_folder_has_one_writer_at_a_time(tmp_path: Path) -> None:
    found: list[str] = []

    def intrude(progress: Any) -> None:
        with pytest.raises(SweepError, match="another process is running") as caught:
            run_sweep(tiny(), tmp_path, resume=True)
        found.append(str(caught.value))

    run_sweep(tiny(), tmp_path, progress=intrude)
    assert len(found) == 8
