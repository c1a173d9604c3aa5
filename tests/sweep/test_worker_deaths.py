"""Workers that die cost nothing but their chunk, and end with the process they work for."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from stepsim.cli.exit_codes import WORKERS_LOST
from stepsim.cli.main import main
from stepsim.errors import WorkerError
from stepsim.processes import FreshProcesses, fresh
from stepsim.sweep import open_table, run_sweep
from stepsim.sweep.backends import LocalBackend, local, patience
from stepsim.sweep.planning.plan import Chunk
from stepsim.sweep.running.work import ChunkRows
from tests.children import started
from tests.samples import sampled
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


@pytest.mark.slow
@pytest.mark.parametrize("work", sampled([die_once, die_while_sending_once], die_once))
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


@pytest.mark.slow
def test_rows_that_are_lost_on_their_way_are_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    cleared: list[Path] = []
    load = fresh._loaded

    def loaded(data: bytes) -> Any:
        found = pickle.loads(data)
        if isinstance(found, Path) and not cleared:
            cleared.append(found)
            found.unlink()
        return load(data)

    monkeypatch.setattr(fresh, "_loaded", loaded)
    backend = LocalBackend(1, inline=False)
    try:
        summary = run_sweep(tiny(), folder, backend=backend)
    finally:
        backend.close()
    assert cleared
    assert summary.complete
    assert_as_undisturbed(folder)


@pytest.mark.long
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


@pytest.mark.long
def test_workers_end_with_a_killed_sweep_and_it_resumes(tmp_path: Path) -> None:
    run_sweep(MANY, tmp_path / "undisturbed")
    folder = tmp_path / "killed"
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), json.dumps(MANY), str(folder)]
    with started(command, stdout=subprocess.PIPE, text=True) as process:
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


ENDLESS = tiny(
    traces={"synthetic": {"tokens": 12, "layers": 5, "steps": 100, "seed": 1}},
    grid={"tile": [1, 2, 4, "dynamic"]},
    chunk=1,
)
"""2,000 runs, each a chunk of its own: more than are done before a signal arrives."""


_PATIENCE = 180.0
"""Seconds after which processes are taken for endless, also when many others share the cores."""


def waits(process: int, number: signal.Signals) -> bool:
    """Whether a signal was sent to a process and not delivered to any of its threads yet."""
    states = [Path(f"/proc/{process}/status"), *Path(f"/proc/{process}/task").glob("*/status")]
    for state in states:
        try:
            lines = state.read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        masks = [
            int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd", "ShdPnd"))
        ]
        if any(mask >> (number - 1) & 1 for mask in masks):
            return True
    return False


# One as it usually is sent, and, marked as slow, the others and the other way.
@pytest.mark.slow
@pytest.mark.usefixtures("signals_by_default")
@pytest.mark.parametrize(
    ("number", "how", "to_all", "then"),
    [
        pytest.param(signal.SIGINT, "interrupted", True, signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, "interrupted", False, None, marks=pytest.mark.slow),
        (signal.SIGTERM, "ended by SIGTERM", False, signal.SIGINT),
        pytest.param(
            signal.SIGTERM, "ended by SIGTERM", True, signal.SIGHUP, marks=pytest.mark.slow
        ),
        pytest.param(signal.SIGHUP, "ended by SIGHUP", True, None, marks=pytest.mark.slow),
        pytest.param(
            signal.SIGHUP, "ended by SIGHUP", False, signal.SIGTERM, marks=pytest.mark.slow
        ),
    ],
)
def test_a_signal_ends_all_processes_quietly(
    tmp_path: Path, number: signal.Signals, how: str, to_all: bool, then: signal.Signals | None
) -> None:
    folder, temporary = tmp_path / "out", tmp_path / "temporary"
    temporary.mkdir()
    with started(
        sweep_command(ENDLESS, folder, "--jobs", "2"), env={**os.environ, "TMPDIR": str(temporary)},
        start_new_session=True, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        wait_until(lambda: bool(timings(folder)) or process.poll() is not None, _PATIENCE)
        workers = psutil.Process(process.pid).children(recursive=True)
        # A terminal sends it to all of them, a scheduler of a cluster to some.
        send = os.killpg if to_all else os.kill
        send(process.pid, number)
        if then is not None:
            # Into the midst of what the first one has begun. Of two that wait, the one with the
            # smaller number would be delivered first, and on a busy machine they may wait long.
            wait_until(lambda: not waits(process.pid, number), _PATIENCE)
            time.sleep(0.05)
            send(process.pid, then)
        _, err = process.communicate(timeout=_PATIENCE)
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err
    said = f"{how}; what was finished is kept, continue with --resume --out {folder}"
    assert err.splitlines()[-1] == said
    assert len(workers) >= 2
    _, alive = psutil.wait_procs(workers, timeout=_PATIENCE)
    assert not [worker for worker in alive if worker.status() != psutil.STATUS_ZOMBIE]
    assert not list(temporary.glob("stepsim-*"))
    assert not list(folder.rglob("*.tmp"))
    assert 0 < len(saved(folder)) < 2000


@pytest.mark.slow
def test_failures_are_the_same_from_every_process(tmp_path: Path) -> None:
    spec = tiny(parameters={"tile_inter": 32, "regions": 2, "fifo_depth": 1})
    summary = run_sweep(spec, tmp_path / "here")
    assert summary.errors == {"deadlock": 4}
    run_sweep(spec, tmp_path / "there", jobs=2)
    assert rows_of(tmp_path / "here") == rows_of(tmp_path / "there")
    (message, *_) = open_table(tmp_path / "here", "failures").to_table()["message"].to_pylist()
    assert "waits for" in message
    assert ".py:" not in message


def starting(monkeypatch: pytest.MonkeyPatch, modules: list[str | OSError]) -> None:
    """Processes load one module after the other when they start, and the last one from then on.

    Instead of one that is an error, the process does not start at all.
    """

    def start(jobs: int, module: str) -> FreshProcesses:
        one = modules.pop(0) if modules[1:] else modules[0]
        if isinstance(one, OSError):
            raise one
        return FreshProcesses(jobs, one)

    monkeypatch.setattr(local, "FreshProcesses", start)


@pytest.mark.slow
def test_workers_that_cannot_start_end_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    starting(monkeypatch, ["no_such_module_as_this"])
    with pytest.raises(WorkerError, match="local: a worker process died 4 times before it began"):
        run_sweep(tiny(), tmp_path, jobs=2)
    assert "no_such_module_as_this" in capfd.readouterr().err


@pytest.mark.slow
def test_workers_that_cannot_start_are_no_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    starting(monkeypatch, ["no_such_module_as_this"])
    file = tmp_path / "sweep.yaml"
    file.write_text(yaml.safe_dump(tiny()))
    with pytest.raises(SystemExit) as ended:
        main(["sweep", "run", str(file), "--out", str(tmp_path / "out"), "--jobs", "2"])
    assert ended.value.code == WORKERS_LOST
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("error: local: a worker process died 4 times before it began to work")


@pytest.mark.slow
def test_workers_lost_at_their_start_are_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each of both in vain three times, so that no chunk may be blamed for the loss.
    started, starts = local._Seat._started, Counter[int]()

    def start(seat: Any) -> FreshProcesses:
        starts[id(seat)] += 1
        module = BAD if starts[id(seat)] <= 3 else GOOD
        monkeypatch.setattr(local, "FreshProcesses", lambda jobs, _: FreshProcesses(jobs, module))
        return started(seat)

    monkeypatch.setattr(local._Seat, "_started", start)
    folder = tmp_path / "out"
    summary = run_sweep(tiny(), folder, jobs=2)
    assert summary.complete
    assert max(starts.values()) == 4
    assert_as_undisturbed(folder)


GOOD, BAD = "stepsim.sweep.running.work", "no_such_module_as_this"
NO_MEMORY = OSError(errno.ENOMEM, "Cannot allocate memory")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("modules", "reason", "left"),
    [
        pytest.param(
            [BAD, GOOD, GOOD, BAD], "a worker process died 4 times before it began to work", 2,
            marks=pytest.mark.slow,
        ),
        ([GOOD, NO_MEMORY], "a worker process cannot be started (Cannot allocate memory)", 1),
        pytest.param(
            [GOOD, BAD, GOOD, NO_MEMORY], "a worker process cannot be started (Cannot", 2,
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_a_worker_that_never_starts_is_done_without(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    modules: list[str | OSError],
    reason: str,
    left: int,
) -> None:
    starting(monkeypatch, modules)
    folder = tmp_path / "out"
    assert run_sweep(tiny(), folder, jobs=3).complete
    (record,) = caplog.records
    text = record.getMessage()
    assert text.startswith(f"local: {reason}")
    assert text.endswith(f"; continuing with {left} of 3 workers")
    assert_as_undisturbed(folder)


def test_one_worker_of_one_that_never_starts_ends_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starting(monkeypatch, [NO_MEMORY])
    with pytest.raises(WorkerError, match="local: a worker process cannot be started"):
        run_sweep(tiny(), tmp_path / "out", jobs=2)
    assert not (tmp_path / "out").exists()
