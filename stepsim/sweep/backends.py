"""Where chunks are computed: in this process, in processes of this machine, on dask, on ray.

All of them take a chunk and give its rows back later. None of them decides what runs next: that is
the loop in :mod:`stepsim.sweep.dispatch`, and which worker runs it is up to the library behind.
"""

from __future__ import annotations

import concurrent.futures
import importlib
import logging
import os
import socket
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

_STORE_BYTES = 128 * 2**20
"""Shared memory that ray takes for rows on their way; it would take a third of all there is."""


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
    """A ray cluster at ``address``, or one started here with ``jobs`` CPUs.

    A process that is connected to a cluster already computes there.
    """

    def __init__(self, jobs: int, address: str | None = None, work: Work = execute_chunk) -> None:
        # Read when ray is loaded, and by the processes it starts: nothing is sent to its makers.
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        self._ray = _import("ray", "ray")
        self._own = not self._ray.is_initialized()
        if self._own:
            try:
                if address is not None:
                    _knock(address)
                # Without "local" it would look for a cluster of somebody else on this machine.
                own = {"address": "local", "num_cpus": jobs, "object_store_memory": _STORE_BYTES}
                with _environment(_ONE_ATTEMPT if address else _ALONE):
                    self._ray.init(
                        **({"address": address} if address else own),
                        include_dashboard=False, log_to_driver=False, logging_level="ERROR",
                    )  # fmt: skip
            # Of many kinds, some of them plain exceptions.
            except Exception as error:
                where = f"no cluster answers at {address}" if address else "cannot start here"
                cure = (
                    "check the address, as in host:6379, set RAY_AUTH_MODE=token if the cluster "
                    "asks for one, and run this on one of its nodes"
                    if address
                    else "check that this machine can run `ray start --head`"
                )
                raise SweepError(f"ray: {where} ({error}); {cure}") from error
        self._head = self._ray.get_runtime_context().gcs_address
        self._known_cpus = 0
        self._next_look = 0.0
        self._unhush = _hush_ray()
        self._remote = self._ray.remote(max_retries=0)(work)

    @property
    def ahead(self) -> int:
        return 1 + max(1, self._cpus())

    def submit(self, chunk: Chunk) -> Any:
        return self._remote.remote(chunk)

    def wait(self, handles: Collection[Any]) -> Collection[Any]:
        seen = time.monotonic()
        while True:
            done, _ = self._ray.wait(list(handles), num_returns=1, timeout=_LOOK_SECONDS)
            if done:
                return done  # type: ignore[no-any-return]
            if self._cpus():
                seen = time.monotonic()
            elif time.monotonic() - seen > _DESERTED_SECONDS:
                raise SweepError(
                    "ray: the cluster has no CPUs; add nodes with `ray start --address=...`, and "
                    "continue with --resume"
                )

    def result(self, handle: Any) -> ChunkRows:
        errors = self._ray.exceptions
        try:
            return self._ray.get(handle)  # type: ignore[no-any-return]
        except (
            errors.WorkerCrashedError, errors.OutOfMemoryError, errors.NodeDiedError,
            errors.ObjectLostError,
        ) as error:  # fmt: skip
            raise WorkerLost(str(error)) from error
        except (errors.LocalRayletDiedError, errors.RaySystemError) as error:
            raise _lost_ray(error) from error

    def close(self) -> None:
        self._unhush()
        if self._own:
            self._ray.shutdown()

    def _cpus(self) -> int:
        """Of the cluster, looked up now and then, as nodes come and go."""
        if time.monotonic() >= self._next_look:
            try:
                # Asking a head that is gone would block until ray ends this process.
                _knock(self._head)
            except OSError as error:
                raise _lost_ray(error) from error
            self._known_cpus = int(self._ray.cluster_resources().get("CPU", 0))
            self._next_look = time.monotonic() + _LOOK_SECONDS
        return self._known_cpus


def _lost_ray(error: Exception) -> SweepError:
    return SweepError(
        f"ray: lost the cluster ({error}); what was finished is kept: continue with --resume"
    )


def _knock(address: str) -> None:
    """Fail at once where ray would try for minutes: nobody listens at ``host:port``."""
    host, colon, port = address.rpartition(":")
    if colon and "://" not in address and port.isdigit():
        socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS).close()


_NOWHERE = "http://127.0.0.1:9"

_ALONE = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _NOWHERE) | {
    "no_proxy": "",
    "NO_PROXY": "",
}
"""For the processes of a cluster started here: one of them asks the web in which cloud it is, even
with reports turned off. They find each other without a proxy."""

_ONE_ATTEMPT = {"RAY_gcs_server_port_wait_time_s": "1"}
"""Ray tries to connect once, for half a minute, where something else listens."""


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set variables for as long as ray starts, and put back what was there."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _hush_ray() -> Callable[[], None]:
    """Keep what ray tells of workers off the standard output, which is for results.

    It prints there whatever it is asked not to log; this backend reports dead workers itself.
    Returns what undoes it.
    """
    module = importlib.import_module("ray._private.worker")
    real = getattr(module, "print_to_stdstream", None)
    if real is None:
        return lambda: None
    module.print_to_stdstream = lambda *_, **__: None  # type: ignore[attr-defined]

    def undo() -> None:
        module.print_to_stdstream = real  # type: ignore[attr-defined]

    return undo


BACKENDS = ("local", "dask", "ray")


def _import(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SweepError(
            f"backend {extra}: the package {module} is not installed; "
            f"pip install 'stepsim[{extra}]'"
        ) from error
