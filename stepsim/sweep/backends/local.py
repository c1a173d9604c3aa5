"""Chunks computed in this process, or in processes of this machine."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Collection
from typing import Any

from stepsim.errors import SweepError
from stepsim.processes import WorkerProcesses
from stepsim.sweep.backends import patience
from stepsim.sweep.backends.base import Work, WorkerLost
from stepsim.sweep.plan import Chunk
from stepsim.sweep.work import ChunkRows, execute_chunk

__all__ = ["LocalBackend"]


class LocalBackend:
    """Processes of this machine, run by joblib's executor; with ``jobs=1`` the calling process.

    ``inline=False`` takes a process of its own for a single job, too. Processes that died are
    replaced. An object that is kept serves many sweeps without starting anew.
    """

    def __init__(self, jobs: int, work: Work = execute_chunk, *, inline: bool = True) -> None:
        self._jobs = jobs
        self._inline = inline and jobs == 1
        self._work = work
        self._pool = None if self._inline else self._start()
        self._next: tuple[Chunk, concurrent.futures.Future[ChunkRows]]

    @property
    def ahead(self) -> int:
        return 1 if self._inline else 2 * self._jobs

    def submit(self, chunk: Chunk) -> concurrent.futures.Future[ChunkRows]:
        if self._inline:
            self._next = chunk, concurrent.futures.Future[ChunkRows]()
            return self._next[1]
        if self._pool is None:
            self._pool = self._start()
        try:
            return self._pool.submit(self._work, chunk)
        except concurrent.futures.BrokenExecutor:
            self._refuse_to_try_forever()
            self.close()
            return self.submit(chunk)

    def wait(self, handles: Collection[Any]) -> Collection[Any]:
        if self._inline:
            chunk, handle = self._next
            handle.set_result(self._work(chunk))
        died_before = False
        while True:
            done = concurrent.futures.wait(
                handles, patience.LOOK_SECONDS, concurrent.futures.FIRST_COMPLETED
            ).done
            if done:
                return done
            # The executor tells at once, unless the process died while it sent its rows.
            if died_before:
                self.close()
            died_before = self._pool is not None and self._pool.has_died

    def result(self, handle: Any) -> ChunkRows:
        try:
            return handle.result()  # type: ignore[no-any-return]
        except concurrent.futures.BrokenExecutor as error:
            self._refuse_to_try_forever()
            raise WorkerLost(str(error)) from error

    def close(self) -> None:
        if self._pool is not None:
            self._pool.stop()
            self._pool = None

    def _start(self) -> WorkerProcesses:
        return WorkerProcesses(self._jobs, "stepsim.sweep.work")

    def _refuse_to_try_forever(self) -> None:
        if self._pool is not None and self._pool.never_began:
            raise SweepError(
                "local: no worker process could start; what they wrote says why. Check that there "
                "is memory for them, or use --jobs 1"
            )
