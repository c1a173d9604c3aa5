"""What a place to compute chunks has to offer."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from stepsim.sweep.planning.plan import Chunk
from stepsim.sweep.running.work import ChunkRows

Work = Callable[[Chunk], ChunkRows]


class WorkerLost(Exception):
    """The process that computed a chunk died."""


class WorkerNotStarted(WorkerLost):
    """The process that was to compute a chunk died before it could begin; no chunk is to blame."""


class Backend(Protocol):
    """A place to compute chunks."""

    @property
    def ahead(self) -> int:
        """Chunks to hand out: more than are computed, so that no worker waits for the next."""
        ...

    def submit(self, chunk: Chunk) -> Any:
        """Start a chunk; returns a handle. Raises WorkerError when no worker can be started."""
        ...

    def wait(self, handles: Collection[Any]) -> Collection[Any]:
        """Block until some handles are done; returns those. Raises WorkerError as `submit` does."""
        ...

    def result(self, handle: Any) -> ChunkRows:
        """Rows of a handle that is done.

        Raises WorkerLost when its process died or its rows were lost, WorkerNotStarted when it
        never came to work. A backend gives up with WorkerError when processes that it starts anew
        never do.
        """
        ...

    def close(self) -> None:
        """Drop what is not done and let the workers go."""
        ...
