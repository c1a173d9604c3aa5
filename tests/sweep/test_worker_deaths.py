"""Workers that die cost nothing but their chunk, and end with the process they work for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from stepsim.errors import SweepError
from stepsim.processes import WorkerProcesses
from stepsim.sweep import open_table, run_sweep
from stepsim.sweep.backends import LocalBackend, local, patience
from stepsim.sweep.plan import Chunk
from stepsim.sweep.work import ChunkRows
from tests.sweep.support import (
    MANY,
    assert_as_undisturbed,
    die_of_one_chunk,
    die_once,
    die_while_sending_once,
    rows_of,
    saved,
    sweep_command,
    timings,
    tiny,
    wait_until,
)


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


@pytest.mark.slow
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


def test_an_interrupt_from_the_keyboard_ends_all_processes_quietly(tmp_path: Path) -> None:
    folder, temporary = tmp_path / "out", tmp_path / "temporary"
    temporary.mkdir()
    with subprocess.Popen(
        sweep_command(MANY, folder, "--jobs", "2"), env={**os.environ, "TMPDIR": str(temporary)},
        start_new_session=True, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        wait_until(lambda: bool(timings(folder)) or process.poll() is not None)
        workers = psutil.Process(process.pid).children(recursive=True)
        # As a terminal does: to all of them.
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("interrupted; what was finished is kept, continue with")
    assert len(workers) >= 2
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not [worker for worker in alive if worker.status() != psutil.STATUS_ZOMBIE]
    assert not list(temporary.glob("stepsim-*"))
    assert 0 < len(saved(folder)) < 200


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
