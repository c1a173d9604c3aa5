"""Chunks computed by the nodes of a ray cluster."""

from __future__ import annotations

import atexit
import ctypes
import io
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Collection, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from typing import Any, TextIO

from stepsim.deferred import require
from stepsim.errors import SweepError, WorkerError
from stepsim.sweep.backends import patience
from stepsim.sweep.backends.base import Work, WorkerLost
from stepsim.sweep.planning.plan import Chunk
from stepsim.sweep.running.work import ChunkRows, execute_chunk

_STORE_BYTES = 128 * 2**20
"""Shared memory of ray for rows in transit; by default ray would take a third of all memory."""

_NOWHERE = "http://127.0.0.1:9"

_ALONE = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _NOWHERE) | {
    "no_proxy": "",
    "NO_PROXY": "",
}
"""Environment of a cluster started here: one of its processes queries the network for its cloud,
even with usage reports turned off. The processes find each other without a proxy."""

_ONE_ATTEMPT = {"RAY_gcs_server_port_wait_time_s": "1"}
"""Settings with which ray tries to connect once: half a minute if another service listens."""


class RayBackend:
    """A ray cluster at ``address``, or one started here with ``jobs`` CPUs.

    If this process is connected to a cluster already, that cluster is used.
    """

    def __init__(self, jobs: int, address: str | None = None, work: Work = execute_chunk) -> None:
        # Read when ray is loaded, and by the processes it starts: usage is not reported.
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        self._ray = require("ray", SweepError)
        self._closing = ExitStack()
        self._abandoned = False
        if not self._ray.is_initialized():
            before = frozenset(threading.enumerate())
            try:
                if address is not None:
                    _knock(address)
                # Without "local" it would look for another user's cluster on this machine.
                own = {"address": "local", "num_cpus": jobs, "object_store_memory": _STORE_BYTES}
                with _environment(_ONE_ATTEMPT if address else _ALONE), _own_signals():
                    self._ray.init(
                        **({"address": address} if address else own),
                        include_dashboard=False, log_to_driver=False, logging_level="ERROR",
                    )  # fmt: skip
            # The errors are of many types, some of them plain exceptions.
            except Exception as error:
                where = f"no cluster responds at {address}" if address else "cannot start here"
                cure = (
                    "check the address, as in host:6379, set RAY_AUTH_MODE=token if the cluster "
                    "asks for one, and run this on one of its nodes"
                    if address
                    else "check that this machine can run `ray start --head`"
                )
                kind = SweepError if address else WorkerError
                raise kind(f"ray: {where} ({error}); {cure}") from error
            started = frozenset(threading.enumerate()) - before
            self._closing.callback(self._shut_down)
            self._closing.enter_context(_keeping_stdout_for_results(started))
        self._head = self._ray.get_runtime_context().gcs_address
        self._known_cpus = 0
        self._next_look = 0.0
        self._remote = self._ray.remote(max_retries=0)(work)

    @property
    def ahead(self) -> int:
        return 1 + max(1, self._cpus())

    def submit(self, chunk: Chunk) -> Any:
        with self._connected():
            return self._remote.remote(chunk)

    def wait(self, handles: Collection[Any]) -> Collection[Any]:
        seen = time.monotonic()
        while True:
            with self._connected():
                done, _ = self._ray.wait(
                    list(handles), num_returns=1, timeout=patience.LOOK_SECONDS
                )
            if done:
                return done  # type: ignore[no-any-return]
            if self._cpus():
                seen = time.monotonic()
            elif time.monotonic() - seen > patience.DESERTED_SECONDS:
                raise WorkerError(
                    "ray: the cluster has no CPUs; add nodes with `ray start --address=...`, and "
                    "continue with --resume"
                )

    def result(self, handle: Any) -> ChunkRows:
        errors = self._ray.exceptions
        try:
            with self._connected():
                return self._ray.get(handle)  # type: ignore[no-any-return]
        except (
            errors.WorkerCrashedError, errors.OutOfMemoryError, errors.NodeDiedError,
            errors.ObjectLostError,
        ) as error:  # fmt: skip
            raise WorkerLost(str(error)) from error

    def close(self) -> None:
        self._closing.close()

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Report the loss of the cluster, whatever the request was and however ray reports it."""
        errors = self._ray.exceptions
        of_workers = (
            errors.RayTaskError, errors.WorkerCrashedError, errors.OutOfMemoryError,
            errors.NodeDiedError, errors.ObjectLostError,
        )  # fmt: skip
        try:
            yield
        except of_workers:
            raise
        # A lost agent takes its node down with it; which one fails first is a matter of chance.
        except (errors.RayError, ConnectionError) as error:
            raise _lost_ray(error) from error

    def _shut_down(self) -> None:
        if self._abandoned:
            return
        # It prints pending reports of dead workers now.
        with redirect_stdout(io.StringIO()):
            self._ray.shutdown()

    def _cpus(self) -> int:
        """CPUs of the cluster, queried from time to time, since nodes come and go."""
        if time.monotonic() >= self._next_look:
            try:
                # Fails sooner than a query.
                _knock(self._head)
            except OSError as error:
                raise _lost_ray(error) from error
            with self._connected():
                self._known_cpus = int(self._resources().get("CPU", 0))
            self._next_look = time.monotonic() + patience.LOOK_SECONDS
        return self._known_cpus

    def _resources(self) -> dict[str, float]:
        """Those of the cluster, unless its head does not respond in time.

        A query to a head that is lost meanwhile blocks until ray ends this process. So it is made
        by a thread, which the end of the process does not wait for.
        """
        answer: Future[dict[str, float]] = Future()

        def query() -> None:
            try:
                answer.set_result(self._ray.cluster_resources())
            except Exception as error:
                answer.set_exception(error)

        threading.Thread(target=query, name="ray query", daemon=True).start()
        try:
            return answer.result(patience.ANSWER_SECONDS)
        except TimeoutError:
            self._abandon()
            error = TimeoutError(f"no response of its head in {patience.ANSWER_SECONDS:g} s")
            raise _lost_ray(error) from None

    def _abandon(self) -> None:
        """Leave ray as it is, where shutting it down would block, now and when the process ends."""
        self._abandoned = True
        atexit.unregister(self._ray.shutdown)
        if sys.excepthook.__module__.startswith("ray."):  # it asks the head to take a report
            sys.excepthook = sys.__excepthook__
        # Its threads would crash while objects of C++ are destroyed, after the end of Python.
        with suppress(AttributeError):  # other C libraries than that of GNU
            library = ctypes.CDLL(None)
            library.on_exit(library._exit, None)


def _lost_ray(error: Exception) -> WorkerError:
    return WorkerError(
        f"ray: lost the cluster ({_first_line(error)}); what was finished is kept: continue with "
        "--resume"
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _knock(address: str) -> None:
    """Fail at once if nothing listens at ``host:port``, where ray would retry for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and "://" not in address and port.isdigit():
        socket.create_connection((host, int(port)), timeout=patience.ANSWER_SECONDS).close()


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables while ray starts, and restore them afterwards."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the handler of SIGTERM, since that of ray ends the process without a message."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


class _Selective:
    """A stream that drops the output of some threads."""

    def __init__(self, stream: TextIO, dropped: frozenset[threading.Thread]) -> None:
        self._stream = stream
        self._dropped = dropped

    def write(self, text: str) -> int:
        dropped = threading.current_thread() in self._dropped
        return len(text) if dropped else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _keeping_stdout_for_results(threads: frozenset[threading.Thread]) -> Iterator[None]:
    """Drop the output of ray's threads to stdout, which is for results.

    They print dead workers there even with logging turned off; this backend reports those
    itself.
    """
    real = sys.stdout
    sys.stdout = selective = _Selective(real, threads)
    try:
        yield
    finally:
        # Other code may have replaced it meanwhile.
        if sys.stdout is selective:
            sys.stdout = real
