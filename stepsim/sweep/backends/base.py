"""The interface of backends, which compute chunks."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from stepsim.sweep.planning.plan import Chunk
from stepsim.sweep.running.work import ChunkRows

Work = Callable[[Chunk], ChunkRows]


class WorkerLost(Exception):
    """The process that computed a chunk died."""


class WorkerNotStarted(WorkerLost):
    """The process for a chunk died before it began to work; the chunk is not to blame."""


class Backend(Protocol):
    """A backend, which computes chunks."""

    @property
    def ahead(self) -> int:
        """Number of chunks to submit ahead, so that no worker waits for the next one."""
        ...

    def submit(self, chunk: Chunk) -> Any:
        """Start a chunk; returns a handle. Raises WorkerError when no worker can be started."""
        ...

    def wait(self, handles: Collection[Any]) -> Collection[Any]:
        """Block until some handles are done; returns these. Raises WorkerError like `submit`."""
        ...

    def result(self, handle: Any) -> ChunkRows:
        """Rows of a handle that is done.

        Raises WorkerLost when its process died or its rows were lost, WorkerNotStarted when it
        never began to work. A backend gives up with WorkerError when processes that it restarts
        never begin.
        """
        ...

    def close(self) -> None:
        """Drop unfinished chunks and release the workers."""
        ...
