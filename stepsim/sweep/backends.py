"""Where chunks are computed: in this process, in processes of this machine, on dask, on ray.

All of them take a chunk and give its rows back later. None of them decides what runs next: that is
the loop in :mod:`stepsim.sweep.dispatch`, and which worker runs it is up to the library behind.
"""

from __future__ import annotations

import concurrent.futures
import importlib
from collections.abc import Callable, Collection
from typing import Any, Protocol

from stepsim.errors import SweepError
from stepsim.processes import start_processes, stop_processes
from stepsim.sweep.plan import Chunk
from stepsim.sweep.work import ChunkRows, execute_chunk

__all__ = ["BACKENDS", "Backend", "DaskBackend", "LocalBackend", "RayBackend", "WorkerLost"]

Work = Callable[[Chunk], ChunkRows]


class WorkerLost(Exception):
    """The process that computed a chunk died."""


class Backend(Protocol):
    """A place to compute chunks."""

    @property
    def ahead(self) -> int:
        """Chunks to hand out: one more than are computed, so that no worker waits for the next."""
        ...

    def submit(self, chunk: Chunk) -> Any:
        """Start a chunk; returns a handle."""
        ...

    def wait(self, handles: Collection[Any]) -> Collection[Any]:
        """Block until some handles are done; returns those."""
        ...

    def result(self, handle: Any) -> ChunkRows:
        """Rows of a handle that is done. Raises WorkerLost when its process died."""
        ...

    def close(self) -> None:
        """Drop what is not done and let the workers go."""
        ...


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

    @property
    def ahead(self) -> int:
        # In this process a chunk is done once submitted; another one would be lost with it.
        return 1 if self._inline else self._jobs + 1

    def submit(self, chunk: Chunk) -> concurrent.futures.Future[ChunkRows]:
        if self._inline:
            done: concurrent.futures.Future[ChunkRows] = concurrent.futures.Future()
            done.set_result(self._work(chunk))
            return done
        if self._pool is None:
            self._pool = self._start()
        try:
            return self._pool.submit(self._work, chunk)  # type: ignore[no-any-return]
        except concurrent.futures.BrokenExecutor:
            self.close()
            return self.submit(chunk)

    def wait(self, handles: Collection[Any]) -> Collection[Any]:
        first = concurrent.futures.FIRST_COMPLETED
        return concurrent.futures.wait(handles, return_when=first).done

    def result(self, handle: Any) -> ChunkRows:
        try:
            return handle.result()  # type: ignore[no-any-return]
        except concurrent.futures.BrokenExecutor as error:
            raise WorkerLost(str(error)) from error

    def close(self) -> None:
        if self._pool is not None:
            stop_processes(self._pool)
            self._pool = None

    def _start(self) -> Any:
        return start_processes(self._jobs, "stepsim.sweep.work")


class DaskBackend:
    """A dask.distributed scheduler at ``address``, or one started here with ``jobs`` workers."""

    def __init__(self, jobs: int, address: str | None = None, work: Work = execute_chunk) -> None:
        distributed = _import("distributed", "dask")
        self._distributed = distributed
        self._work = work
        self._cluster = None
        if address is None:
            self._cluster = distributed.LocalCluster(
                n_workers=jobs, threads_per_worker=1, processes=True, dashboard_address=None
            )
        try:
            self._client = distributed.Client(self._cluster or address, set_as_default=False)
        except (OSError, ValueError) as error:
            raise SweepError(
                f"dask: no scheduler answers at {address} ({error}); check the address, as in "
                "tcp://host:8786"
            ) from error

    @property
    def ahead(self) -> int:
        return 1 + max(1, sum(int(threads) for threads in self._client.nthreads().values()))

    def submit(self, chunk: Chunk) -> Any:
        # Impure: a chunk that is asked for again, after it lost its worker, is to run again.
        return self._client.submit(self._work, chunk, pure=False, key=None)

    def wait(self, handles: Collection[Any]) -> Collection[Any]:
        done: Collection[Any]
        with self._client.as_current():
            done, _ = self._distributed.wait(list(handles), return_when="FIRST_COMPLETED")
        return done

    def result(self, handle: Any) -> ChunkRows:
        try:
            rows: ChunkRows = handle.result()
        except self._distributed.scheduler.KilledWorker as error:
            raise WorkerLost(str(error)) from error
        handle.release()
        return rows

    def close(self) -> None:
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


class RayBackend:
    """A ray cluster at ``address``, or one started here with ``jobs`` CPUs."""

    def __init__(self, jobs: int, address: str | None = None, work: Work = execute_chunk) -> None:
        self._ray = _import("ray", "ray")
        options = {"address": address} if address else {"num_cpus": jobs}
        self._own = not self._ray.is_initialized()
        if self._own:
            try:
                self._ray.init(**options, log_to_driver=False, include_dashboard=False)
            except (ConnectionError, ValueError) as error:
                raise SweepError(
                    f"ray: no cluster answers at {address} ({error}); check the address"
                ) from error
        self._remote = self._ray.remote(max_retries=0)(work)

    @property
    def ahead(self) -> int:
        return 1 + max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, chunk: Chunk) -> Any:
        return self._remote.remote(chunk)

    def wait(self, handles: Collection[Any]) -> Collection[Any]:
        done, _ = self._ray.wait(list(handles), num_returns=1)
        return done  # type: ignore[no-any-return]

    def result(self, handle: Any) -> ChunkRows:
        errors = self._ray.exceptions
        try:
            return self._ray.get(handle)  # type: ignore[no-any-return]
        except (errors.WorkerCrashedError, errors.OutOfMemoryError, errors.NodeDiedError) as error:
            raise WorkerLost(str(error)) from error

    def close(self) -> None:
        if self._own:
            self._ray.shutdown()


BACKENDS = ("local", "dask", "ray")


def _import(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SweepError(
            f"backend {extra}: the package {module} is not installed; "
            f"pip install 'stepsim[{extra}]'"
        ) from error
