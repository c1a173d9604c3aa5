"""Chunks computed in this process, or in processes of this machine."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from functools import partial
from typing import Any

from stepsim.errors import WorkerError
from stepsim.processes import FreshProcesses, ResultLost
from stepsim.sweep.backends.base import Work, WorkerLost, WorkerNotStarted
from stepsim.sweep.planning.plan import Chunk
from stepsim.sweep.running.signals import signals_held
from stepsim.sweep.running.work import ChunkRows, execute_chunk
from stepsim.typed import typed

_log = logging.getLogger("stepsim")

_STARTS = 4
"""How often in a row a process may die before it begins to work."""

_OFFERED = 64
"""Chunks queued for each worker."""

_Task = tuple[Chunk, "Future[ChunkRows]"]


class LocalBackend:
    """Processes of this machine, run by loky's executor; with ``jobs=1`` the calling process.

    ``inline=False`` uses a separate process even for a single job. A process continues with the
    design point it has prepared as long as there are chunks of it. A process that died is replaced;
    if one cannot be started, the others continue without it, after a warning. An object
    that is kept serves many sweeps without restarting its processes.
    """

    def __init__(self, jobs: int, work: Work = execute_chunk, *, inline: bool = True) -> None:
        self._inline = inline and jobs == 1
        self._jobs = jobs
        self._work = work
        self._offered: dict[int, deque[_Task]] = {}
        """Waiting chunks by design point, in the order of submission."""
        self._next: _Task
        self._seats: list[_Seat] = []
        try:
            for _ in range(0 if self._inline else jobs):
                try:
                    self._seats.append(_Seat(work))
                except WorkerError as error:
                    self._go_on_with(self._seats, error)
                    # If memory or disk space ran out, more processes make it worse.
                    break
        except BaseException:
            # Nothing else ends the processes that have started.
            with signals_held():
                self.close()
            raise

    @property
    def ahead(self) -> int:
        return 1 if self._inline else _OFFERED * len(self._seats)

    def submit(self, chunk: Chunk) -> Future[ChunkRows]:
        future: Future[ChunkRows] = Future()
        if self._inline:
            self._next = chunk, future
        else:
            self._offered.setdefault(chunk.point.index, deque()).append((chunk, future))
        return future

    def wait(self, handles: Collection[Any]) -> Collection[Any]:
        if self._inline:
            chunk, handle = self._next
            handle.set_result(self._work(chunk))
        self._hand_out()
        done = wait(handles, return_when=FIRST_COMPLETED).done
        # At once, so that no worker waits while these rows are saved.
        self._hand_out()
        return done

    def result(self, handle: Any) -> ChunkRows:
        try:
            return handle.result()  # type: ignore[no-any-return]
        except _NotStarted as error:
            raise WorkerNotStarted(str(error)) from error
        except (BrokenExecutor, ResultLost) as error:
            raise WorkerLost(str(error)) from error

    @typed
    def close(self) -> None:
        self._offered.clear()
        for seat in self._seats:
            seat.leave()

    def _hand_out(self) -> None:
        """Give every worker one chunk to compute and one to continue with."""
        while self._offered:
            seat = min(self._seats, key=_Seat.load)
            if seat.load() == 2:
                return
            chunk, future = self._choose(seat)
            try:
                seat.take(chunk, future)
            except WorkerError as error:
                self._offered.setdefault(chunk.point.index, deque()).appendleft((chunk, future))
                self._go_on_with([other for other in self._seats if other is not seat], error)

    def _go_on_with(self, seats: list[_Seat], error: WorkerError) -> None:
        """Continue with these workers if any of them works, else raise the error."""
        if not any(seat.works() for seat in seats):
            raise error
        self._seats = seats
        reason = str(error).partition(";")[0]
        _log.warning("%s; continuing with %d of %d workers", reason, len(seats), self._jobs)

    def _choose(self, seat: _Seat) -> _Task:
        """A chunk of the prepared design point, else of an unassigned one, else of the longest
        queue."""
        prepared = {other.design for other in self._seats}
        if seat.design in self._offered:
            design = seat.design
        else:
            free = (design for design in self._offered if design not in prepared)
            longest = max(self._offered, key=lambda design: len(self._offered[design]))
            design = next(free, longest)
        tasks = self._offered[design]
        task = tasks.popleft()
        if not tasks:
            del self._offered[design]
        return task


class _NotStarted(BrokenExecutor):
    """A process died before it began to work."""


class _Seat:
    """A worker process and its replacements.

    Attributes
    ----------
    design : index of the design point it was given last.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._process: FreshProcesses | None = self._started()
        self._failed_starts = 0
        self._under_way: list[Future[ChunkRows]] = []
        self.design = -1

    def load(self) -> int:
        """Chunks it was given and has not returned."""
        self._under_way = [future for future in self._under_way if not future.done()]
        return len(self._under_way)

    def take(self, chunk: Chunk, future: Future[ChunkRows]) -> None:
        """Compute a chunk; the future gets the outcome."""
        if self._process is None:
            self._process = self._started()
        try:
            inner = self._process.submit(self._work, chunk)
        except BrokenExecutor:
            self._failed_starts = self._failed_starts + 1 if self._process.never_began else 0
            self.leave()
            if self._failed_starts >= _STARTS:
                raise WorkerError(
                    f"local: a worker process died {_STARTS} times before it began to work; its "
                    "output shows why. Finished runs are kept: check that there is enough memory "
                    "and that nothing kills it, or use --jobs 1, and continue with --resume"
                ) from None
            self.take(chunk, future)
            return
        self._under_way.append(inner)
        self.design = chunk.point.index
        inner.add_done_callback(partial(_pass_on, future, self._process))

    def works(self) -> bool:
        """Whether its process has begun to work; waits for one that is just starting."""
        return self._process is not None and self._process.began()

    def leave(self) -> None:
        """End the process; its chunks are lost."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def _started(self) -> FreshProcesses:
        try:
            return FreshProcesses(1, "stepsim.sweep.running.work")
        except OSError as error:
            raise WorkerError(
                f"local: a worker process cannot be started ({error.strerror}); what was finished "
                "is kept: check that there is memory and space for temporary files, or use "
                "--jobs 1, and continue with --resume"
            ) from error


def _pass_on(future: Future[ChunkRows], process: FreshProcesses, done: Future[ChunkRows]) -> None:
    error = done.exception()
    if isinstance(error, BrokenExecutor) and process.never_began:
        future.set_exception(_NotStarted(str(error)))
    elif error is not None:
        future.set_exception(error)
    else:
        future.set_result(done.result())
