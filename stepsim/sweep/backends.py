"""Where chunks are computed: in this process, in processes of this machine, on dask, on ray.

All of them take a chunk and give its rows back later. None of them decides what runs next: that is
the loop in :mod:`stepsim.sweep.dispatch`, and which worker runs it is up to the library behind.
"""

from __future__ import annotations

import concurrent.futures
import importlib
import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from stepsim.errors import SweepError
from stepsim.processes import start_processes, stop_processes
from stepsim.sweep.plan import Chunk
from stepsim.sweep.work import ChunkRows, execute_chunk

__all__ = ["BACKENDS", "Backend", "DaskBackend", "LocalBackend", "RayBackend", "WorkerLost"]

Work = Callable[[Chunk], ChunkRows]
_Answer = TypeVar("_Answer")

_ANSWER_SECONDS = 10
"""Within which a scheduler at an address is to answer."""

_LOOK_SECONDS = 5.0
"""Between looks at whether a scheduler still has workers."""

_DESERTED_SECONDS = 60.0
"""For which a scheduler may have no workers, as while they are replaced."""


class WorkerLost(Exception):
    """The process that computed a chunk died."""


class Backend(Protocol):
    """A place to compute chunks."""

    @property
    def ahead(self) -> int:
        """Chunks to hand out: more than are computed, so that no worker waits for the next."""
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
            return self._pool.submit(self._work, chunk)  # type: ignore[no-any-return]
        except concurrent.futures.BrokenExecutor:
            self.close()
            return self.submit(chunk)

    def wait(self, handles: Collection[Any]) -> Collection[Any]:
        if self._inline:
            chunk, handle = self._next
            handle.set_result(self._work(chunk))
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
        self._distributed = _import("distributed", "dask")
        self._work = work
        self._cluster = None
        if address is None:
            self._cluster = self._distributed.LocalCluster(
                n_workers=jobs, threads_per_worker=1, processes=True, dashboard_address=None,
                # How often to try again is decided by the one who dispatches.
                scheduler_kwargs={"allowed_failures": 0},
            )  # fmt: skip
        try:
            self._client = self._distributed.Client(
                self._cluster or address, timeout=_ANSWER_SECONDS, set_as_default=False
            )
        except (OSError, ValueError) as error:
            raise SweepError(
                f"dask: no scheduler answers at {address} ({error}); check the address, as in "
                "tcp://host:8786"
            ) from error
        self._address = self._client.scheduler.address
        # Tells of lost connections at length; the errors below say what has come of it.
        self._log = logging.getLogger("distributed.client")
        self._log_level = self._log.level
        self._log.setLevel(logging.CRITICAL)

    @property
    def ahead(self) -> int:
        with self._connected():
            return 1 + max(1, sum(int(threads) for threads in self._client.nthreads().values()))

    def submit(self, chunk: Chunk) -> Any:
        # A name of its own each time: a chunk that lost its worker is to run again.
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
            # The error is asked for, so that one of the work is not taken for one of the asking.
            # Rows that died with their worker before they were fetched are computed again.
            error: BaseException | None = handle.exception(timeout=seconds)
            return error or handle.result(timeout=seconds)

        try:
            found = self._patiently(outcome)
        finally:
            handle.release()
        if isinstance(found, self._distributed.scheduler.KilledWorker):
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

    def _patiently(self, ask: Callable[[float], _Answer]) -> _Answer:
        """Ask for as long as there are workers that could bring the answer."""
        seen = time.monotonic()
        while True:
            with self._connected():
                try:
                    with self._client.as_current():
                        return ask(_LOOK_SECONDS)
                except TimeoutError:
                    if self._client.nthreads():
                        seen = time.monotonic()
            if time.monotonic() - seen > _DESERTED_SECONDS:
                raise SweepError(
                    f"dask: the scheduler at {self._address} has no workers; start some, as in "
                    f"dask worker {self._address}, and continue with --resume"
                )

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Name the loss of the scheduler, whatever was asked of it."""
        if self._client.status != "running":
            raise self._lost()
        try:
            yield
        except (concurrent.futures.CancelledError, OSError) as error:
            raise self._lost() from error

    def _lost(self) -> SweepError:
        return SweepError(
            f"dask: lost the scheduler at {self._address}; what was finished is kept: start a "
            "scheduler and continue with --resume"
        )


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
