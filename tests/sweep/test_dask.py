"""The same rows from a real scheduler, also when it loses workers; and what else it can lose."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepsim.errors import SweepError, WorkerError
from stepsim.sweep import open_table, run_sweep, tune
from stepsim.sweep.backends import DaskBackend, patience
from tests.sweep.search.test_tune import space
from tests.sweep.support import (
    QWEN_TILES,
    die_of_one_chunk,
    die_once,
    rows_of,
    sweep_command,
    timings,
    tiny,
    wait_until,
)

pytest.importorskip("distributed", reason="dask.distributed is not installed")
from tests.sweep.dask_cluster import DaskCluster


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    made = DaskCluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield made
    finally:
        made.close()


@pytest.mark.long
def test_a_sweep_that_loses_a_worker_half_way_is_as_a_local_one(
    cluster: DaskCluster, tmp_path: Path
) -> None:
    local, folder = tmp_path / "local", tmp_path / "dask"
    subprocess.run(sweep_command(QWEN_TILES, local, "--jobs", "2"), check=True)
    cluster.start(workers=2)
    both = set(cluster.workers().values())
    command = sweep_command(QWEN_TILES, folder, "--backend", "dask", "--address", cluster.address)
    with subprocess.Popen(command) as sweep:
        try:
            wait_until(lambda: len(timings(folder)) >= 20 or sweep.poll() is not None, 300)
            killed, held = cluster.kill_a_worker_at_work()
            saved = timings(folder)
            assert sweep.wait(300) == 0
        finally:
            sweep.kill()
    # It was half way, and the one that died had done its part and was at work.
    assert 20 <= len(saved) < 40
    assert {record["process"] for record in saved} == both
    assert held
    assert held.isdisjoint(record["chunk"] for record in saved)
    # What it held was computed by the other one, all that was computed is there, and once.
    (survivor,) = cluster.workers().values()
    assert {killed, survivor} == both
    done = {record["chunk"]: record["process"] for record in timings(folder)}
    assert len(timings(folder)) == len(done) == 40
    assert {done[chunk] for chunk in held} == {survivor}
    runs = open_table(folder).to_table(columns=["run"])["run"].to_pylist()
    assert len(runs) == len(set(runs)) == 200
    assert rows_of(folder) == rows_of(local)
    assert len(rows_of(folder)) == 10
    assert (folder / "summary.json").read_bytes() == (local / "summary.json").read_bytes()


@pytest.mark.long
def test_a_worker_that_dies_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPSIM_TEST_FLAG", str(tmp_path / "flag"))
    backend = DaskBackend(2, work=die_once)
    try:
        summary = run_sweep(tiny(), tmp_path / "dask", backend=backend)
    finally:
        backend.close()
    assert (tmp_path / "flag").exists()
    assert (summary.simulated, summary.complete) == (24, True)
    run_sweep(tiny(), tmp_path / "local")
    assert rows_of(tmp_path / "dask") == rows_of(tmp_path / "local")


@pytest.mark.long
def test_a_search_chooses_and_saves_the_same_also_when_a_worker_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPSIM_TEST_FLAG", str(tmp_path / "flag"))
    backend = DaskBackend(2, work=die_once)
    try:
        found = tune(space(), tmp_path / "dask", backend=backend)
    finally:
        backend.close()
    assert (tmp_path / "flag").exists()
    local = tune(space(), tmp_path / "local")
    assert (found.trials, found.computed) == (local.trials, local.computed)
    assert rows_of(tmp_path / "dask") == rows_of(tmp_path / "local")


@pytest.mark.long
def test_a_chunk_that_kills_every_worker_is_reported_and_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "dask"
    backend = DaskBackend(2, work=die_of_one_chunk)
    try:
        summary = run_sweep(tiny(), folder, backend=backend)
    finally:
        backend.close()
    assert list(summary.unfinished) == ["0001-00000"]
    assert "died while running it" in summary.unfinished["0001-00000"]
    assert (summary.simulated, summary.complete) == (20, False)
    assert run_sweep(tiny(), folder, backend="dask", resume=True).computed == 4
    run_sweep(tiny(), tmp_path / "local")
    assert rows_of(folder) == rows_of(tmp_path / "local")


@pytest.mark.slow
def test_a_lost_scheduler_is_named_and_what_was_finished_is_kept(
    cluster: DaskCluster, tmp_path: Path
) -> None:
    cluster.start(workers=1)
    done: list[int] = []

    def kill(progress: Any) -> None:
        done.append(progress.done)
        if progress.done >= 8:
            cluster.processes[0].kill()

    with pytest.raises(WorkerError, match="dask: lost the scheduler at ") as caught:
        run_sweep(tiny(), tmp_path / "dask", backend="dask", address=cluster.address, progress=kill)
    assert cluster.address in str(caught.value)
    assert "what was finished is kept" in str(caught.value)
    assert run_sweep(tiny(), tmp_path / "dask", resume=True).computed == 24 - done[-1] > 0


@pytest.mark.slow
def test_a_scheduler_without_workers_is_not_waited_for_forever(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(patience, "DESERTED_SECONDS", 0.5)
    cluster.start(workers=0)
    with pytest.raises(WorkerError, match="has no workers; start some with dask worker tcp://"):
        run_sweep(tiny(), tmp_path, backend="dask", address=cluster.address)


@pytest.mark.slow
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://127.0.0.1:1"])
def test_a_wrong_address_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr(patience, "ANSWER_SECONDS", 0.5)
    with pytest.raises(SweepError, match=f"dask: no scheduler responds at {address} .*tcp://host"):
        run_sweep(tiny(), tmp_path, backend="dask", address=address)


LOGGED = """
import logging
from stepsim.sweep.backends import DaskBackend
if __name__ == "__main__":
    backend = DaskBackend(1)
    logging.getLogger("distributed.nanny").error("connection lost\\nTraceback ...")
    backend.close()
"""


@pytest.mark.slow
def test_what_workers_log_while_they_end_is_not_printed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(LOGGED)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=True
    )
    assert "Traceback" not in done.stderr


# Workers of a cluster that is started here run the script first, as those of multiprocessing do.
SCRIPT = """
import json, sys
from stepsim.sweep import run_sweep
run_sweep(json.loads(sys.argv[1]), sys.argv[2], backend="dask")
"""


@pytest.mark.long
def test_a_script_without_a_guard_is_told_of_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), json.dumps(tiny()), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert "WorkerError: dask: cannot start workers here" in done.stderr
    assert 'below `if __name__ == "__main__":`' in done.stderr
    assert not (tmp_path / "out").exists()
