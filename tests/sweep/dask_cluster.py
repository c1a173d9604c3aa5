"""A dask scheduler and its workers as processes of their own, to be killed one by one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import distributed

from tests.sweep.support import ROOT, wait_until


class DaskCluster:
    """A scheduler with workers of one thread each, and nobody who would replace them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        """The scheduler and then the workers."""
        self.address = ""

    def start(self, workers: int) -> None:
        file = self._folder / "scheduler.json"
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", file)
        # It is not written at once.
        wait_until(lambda: file.exists() and file.read_text().endswith("}"))
        self.address = json.loads(file.read_text())["address"]
        for _ in range(workers):
            self.add_worker()
        wait_until(lambda: len(self.workers()) == workers)

    def add_worker(self) -> None:
        self._start("worker", self.address, "--nthreads", "1", "--no-nanny",
                    "--local-directory", self._folder)  # fmt: skip

    def workers(self) -> dict[str, int]:
        """Processes of the workers the scheduler knows, by their address."""
        with self._client() as client:
            return dict(client.run(os.getpid))

    def kill_a_worker_at_work(self) -> tuple[int, set[str]]:
        """Kill a worker that holds chunks which nobody has seen the end of; returns both."""
        address, process = sorted(self.workers().items())[0]
        held: set[str] = set()
        with self._client() as client:
            while not held:
                # Frozen first: what it has sent arrives, and then it holds what it will die with.
                os.kill(process, signal.SIGSTOP)
                time.sleep(0.3)
                held = {_chunk_key(task) for task in client.processing()[address]}
                if not held:
                    os.kill(process, signal.SIGCONT)
        os.kill(process, signal.SIGKILL)
        return process, held

    def close(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()

    def _client(self) -> distributed.Client:
        return distributed.Client(self.address, set_as_default=False)

    def _start(self, what: str, *options: str | Path) -> None:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard"]
        with (self._folder / f"{what}.log").open("ab") as log:
            self.processes.append(
                subprocess.Popen([*command, *options], cwd=ROOT, stdout=log, stderr=log)
            )


def _chunk_key(task: str) -> str:
    """The chunk of a task, which is named ``chunk-0001-00002-`` and something of its own."""
    return task.removeprefix("chunk-").rpartition("-")[0]
