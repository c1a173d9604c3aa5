"""Chunks computed by the nodes of a ray cluster."""

from __future__ import annotations

import io
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import Any, TextIO

from stepsim.deferred import require
from stepsim.errors import SweepError, WorkerError
from stepsim.sweep.backends import patience
from stepsim.sweep.backends.base import Work, WorkerLost
from stepsim.sweep.planning.plan import Chunk
from stepsim.sweep.running.work import ChunkRows, execute_chunk

_STORE_BYTES = 128 * 2**20
"""Shared memory that ray takes for rows on their way; it would take a third of all there is."""

_NOWHERE = "http://127.0.0.1:9"

_ALONE = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _NOWHERE) | {
    "no_proxy": "",
    "NO_PROXY": "",
}
"""For the processes of a cluster started here: one of them asks the web in which cloud it is, even
with reports turned off. They find each other without a proxy."""

_ONE_ATTEMPT = {"RAY_gcs_server_port_wait_time_s": "1"}
"""Ray tries to connect once, for half a minute, where something else listens."""


class RayBackend:
    """A ray cluster at ``address``, or one started here with ``jobs`` CPUs.

    A process that is connected to a cluster already computes there.
    """

    def __init__(self, jobs: int, address: str | None = None, work: Work = execute_chunk) -> None:
        # Read when ray is loaded, and by the processes it starts: nothing is sent to its makers.
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        self._ray = require("ray", SweepError)
        self._closing = ExitStack()
        if not self._ray.is_initialized():
            before = frozenset(threading.enumerate())
            try:
                if address is not None:
                    _knock(address)
                # Without "local" it would look for a cluster of somebody else on this machine.
                own = {"address": "local", "num_cpus": jobs, "object_store_memory": _STORE_BYTES}
                with _environment(_ONE_ATTEMPT if address else _ALONE), _own_signals():
                    self._ray.init(
                        **({"address": address} if address else own),
                        include_dashboard=False, log_to_driver=False, logging_level="ERROR",
                    )  # fmt: skip
            # Of many kinds, some of them plain exceptions.
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
        """Name the loss of the cluster, whatever was asked of it and however ray tells of it."""
        errors = self._ray.exceptions
        of_workers = (
            errors.RayTaskError, errors.WorkerCrashedError, errors.OutOfMemoryError,
            errors.NodeDiedError, errors.ObjectLostError,
        )  # fmt: skip
        try:
            yield
        except of_workers:
            raise
        # An agent that is lost takes its node along: what fails first is a matter of chance.
        except (errors.RayError, ConnectionError) as error:
            raise _lost_ray(error) from error

    def _shut_down(self) -> None:
        # What it has not told yet of dead workers it prints now.
        with redirect_stdout(io.StringIO()):
            self._ray.shutdown()

    def _cpus(self) -> int:
        """Of the cluster, looked up now and then, as nodes come and go."""
        if time.monotonic() >= self._next_look:
            try:
                # Asking a head that is gone would block until ray ends this process.
                _knock(self._head)
            except OSError as error:
                raise _lost_ray(error) from error
            with self._connected():
                self._known_cpus = int(self._ray.cluster_resources().get("CPU", 0))
            self._next_look = time.monotonic() + patience.LOOK_SECONDS
        return self._known_cpus


def _lost_ray(error: Exception) -> WorkerError:
    return WorkerError(
        f"ray: lost the cluster ({_first_line(error)}); what was finished is kept: continue with "
        "--resume"
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _knock(address: str) -> None:
    """Fail immediately where ray would try for minutes: nothing listens at ``host:port``."""
    host, colon, port = address.rpartition(":")
    if colon and "://" not in address and port.isdigit():
        socket.create_connection((host, int(port)), timeout=patience.ANSWER_SECONDS).close()


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


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the handler of SIGTERM: that of ray ends the process without a word."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


class _Selective:
    """A stream that drops what some threads write."""

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
    """Drop what threads of ray print to the standard output, which is for results.

    They tell there of dead workers, whatever they are asked not to log; this backend reports those
    itself.
    """
    real = sys.stdout
    sys.stdout = selective = _Selective(real, threads)
    try:
        yield
    finally:
        # Somebody else may have taken its place.
        if sys.stdout is selective:
            sys.stdout = real
