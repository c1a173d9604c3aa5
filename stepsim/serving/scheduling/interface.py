"""What a scheduler is to the rest of a service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Batch:
    """What one step computes. Entries are in the order in which tokens were granted.

    Attributes
    ----------
    request : index of each request. [entries]
    new : tokens of it that the step computes. [entries]
    before : tokens of it that have keys and values already. [entries]
    emits : whether the step yields a token of it: its last known token is computed. [entries]
    """

    request: NDArray[np.int64]
    new: NDArray[np.int64]
    before: NDArray[np.int64]
    emits: NDArray[np.bool_]


class Scheduler(Protocol):
    """Decides for every step; it holds the waiting and the running requests and their blocks.

    Times are in ns after the start of the service.
    """

    def arrive(self, request: int) -> None:
        """Put a request at its place among those that wait."""
        ...

    def schedule(self, now_ns: int) -> Batch:
        """The next step; an empty batch if nothing can run."""
        ...

    def complete(self, end_ns: int) -> NDArray[np.int64]:
        """End the step that was scheduled last; the requests that are finished, in order."""
        ...

    @property
    def running(self) -> int:
        """Number of requests that have blocks."""
        ...

    @property
    def waiting(self) -> int:
        """Number of requests that have arrived and are not running."""
        ...

    @property
    def free_blocks(self) -> int:
        """Number of blocks that could be taken now."""
        ...
