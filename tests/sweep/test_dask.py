"""The same rows from a real scheduler, also when it loses a worker half way."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepsim.errors import SweepError
from stepsim.sweep import run_sweep
from tests.sweep.support import rows_of, tiny

distributed = pytest.importorskip("distributed")

SPEC = tiny(traces={"synthetic": {"tokens": 12, "layers": 3, "steps": 10, "seed": 1}}, chunk=3)
"""120 runs in 40 chunks."""


@pytest.fixture
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
        silence_logs=50,
    ) as made:  # fmt: skip
        yield made


@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_that_loses_a_worker_gives_the_rows_of_a_local_run(
    cluster: Any, tmp_path: Path
) -> None:
    processes = [worker.pid for worker in cluster.workers.values()]
    assert len(set(processes)) == 2
    killed: list[int] = []

    def kill_one(progress: Any) -> None:
        if progress.done >= 60 and not killed:
            killed.append(processes[0])
            os.kill(processes[0], signal.SIGKILL)

    summary = run_sweep(
        SPEC, tmp_path / "dask", backend="dask", address=cluster.scheduler_address,
        progress=kill_one,
    )  # fmt: skip
    assert killed
    assert (summary.simulated, summary.failures, summary.complete) == (120, 0, True)
    run_sweep(SPEC, tmp_path / "local")
    assert rows_of(tmp_path / "dask") == rows_of(tmp_path / "local")


def test_arguments_of_backends(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="the local backend has none"):
        run_sweep(SPEC, tmp_path / "a", address="tcp://127.0.0.1:1")
    with pytest.raises(SweepError, match="unknown backend 'slurm'; known are local, dask, ray"):
        run_sweep(SPEC, tmp_path / "b", backend="slurm")
    with pytest.raises(SweepError, match="jobs is 0"):
        run_sweep(SPEC, tmp_path / "c", jobs=0)
