"""Chunks computed by the workers of a dask scheduler."""

from __future__ import annotations

import concurrent.futures
import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from stepsim.deferred import require
from stepsim.errors import SweepError, WorkerError
from stepsim.sweep.backends import patience
from stepsim.sweep.backends.base import Work, WorkerLost
from stepsim.sweep.planning.plan import Chunk
from stepsim.sweep.running.work import ChunkRows, execute_chunk

_Answer = TypeVar("_Answer")


class DaskBackend:
    """A dask.distributed scheduler at ``address``, or one started here with ``jobs`` workers."""

    def __init__(self, jobs: int, address: str | None = None, work: Work = execute_chunk) -> None:
        self._distributed = require("distributed", SweepError)
        self._work = work
        self._cluster = None if address else self._started(jobs)
        try:
            self._client = self._distributed.Client(
                self._cluster or address, timeout=patience.ANSWER_SECONDS, set_as_default=False
            )
        except (OSError, ValueError) as error:
            if self._cluster is not None:
                self._cluster.close()
            raise SweepError(
                f"dask: no scheduler responds at {address or 'this machine'} ({error}); check the "
                "address, as in tcp://host:8786"
            ) from error
        self._address = self._client.scheduler.address
        # Logs lost connections at length; the errors below report the outcome.
        self._log = logging.getLogger("distributed.client")
        self._log_level = self._log.level
        self._log.setLevel(logging.CRITICAL)

    @property
    def ahead(self) -> int:
        with self._connected():
            return 1 + max(1, sum(int(threads) for threads in self._client.nthreads().values()))

    def submit(self, chunk: Chunk) -> Any:
        # A new key each time: a chunk that lost its worker must run again.
        key = f"chunk-{chunk.key}-{uuid.uuid4().hex}"
        with self._connected():
            return self._client.submit(self._work, chunk, pure=False, key=key)

    def wait(self, handles: Collection[Any]) -> Collection[Any]:
        def first(seconds: float) -> Collection[Any]:
            done: Collection[Any] = self._distributed.wait(
                list(handles), timeout=seconds, return_when="FIRST_COMPLETED"
            ).done
            return done

        return self._patiently(first)

    def result(self, handle: Any) -> ChunkRows:
        def outcome(seconds: float) -> ChunkRows | BaseException:
            # The exception is fetched, to distinguish errors of the work from errors of the fetch.
            # Rows that died with their worker before they were fetched are computed again.
            error: BaseException | None = handle.exception(timeout=seconds)
            return error or handle.result(timeout=seconds)

        try:
            found = self._patiently(outcome)
        finally:
            handle.release()
        if isinstance(found, self._distributed.KilledWorker):
            raise WorkerLost(str(found)) from found
        if isinstance(found, concurrent.futures.CancelledError):
            raise self._lost() from found
        if isinstance(found, BaseException):
            raise found
        return found

    def close(self) -> None:
        self._client.close()
        self._log.setLevel(self._log_level)
        if self._cluster is not None:
            self._cluster.close()

    def _started(self, jobs: int) -> Any:
        try:
            return self._distributed.LocalCluster(
                n_workers=jobs, threads_per_worker=1, processes=True,
                # Connections that end while it closes are logged with tracebacks.
                silence_logs=logging.CRITICAL,
                # A free port: the default may be taken by another cluster, which causes a warning.
                dashboard_address="127.0.0.1:0",
                # The dispatcher decides how often to try again.
                scheduler_kwargs={"allowed_failures": 0},
            )  # fmt: skip
        # The errors are of many types, some of them plain exceptions.
        except Exception as error:
            raise WorkerError(
                f"dask: cannot start workers here ({error}); in a script, put what runs the sweep "
                'below `if __name__ == "__main__":`, since dask runs the script in its workers, too'
            ) from error

    def _patiently(self, ask: Callable[[float], _Answer]) -> _Answer:
        """Wait while there are workers that could return the result."""
        seen = time.monotonic()
        while True:
            with self._connected():
                try:
                    with self._client.as_current():
                        return ask(patience.LOOK_SECONDS)
                except TimeoutError:
                    if self._client.nthreads():
                        seen = time.monotonic()
            if time.monotonic() - seen > patience.DESERTED_SECONDS:
                raise WorkerError(
                    f"dask: the scheduler at {self._address} has no workers; start some with "
                    f"dask worker {self._address}, and continue with --resume"
                )

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Report the loss of the scheduler, whatever the request was."""
        if self._client.status != "running":
            raise self._lost()
        try:
            yield
        except (concurrent.futures.CancelledError, OSError) as error:
            raise self._lost() from error

    def _lost(self) -> WorkerError:
        return WorkerError(
            f"dask: lost the scheduler at {self._address}; what was finished is kept: start a "
            "scheduler and continue with --resume"
        )
