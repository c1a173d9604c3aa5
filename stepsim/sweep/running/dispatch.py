"""Feed chunks to a backend, a few ahead, and survive the death of workers.

When a process dies, it is unknown which of its chunks was to blame. They are run again one
by one, with nothing else running; a chunk that then loses its worker several times is given up.
If a process died before it began, no chunk is to blame; how often to start another is up to the
backend.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from stepsim.sweep.backends import Backend, WorkerLost, WorkerNotStarted
from stepsim.sweep.planning.plan import Chunk
from stepsim.sweep.running.work import ChunkRows

_LIVES = 2
"""How often a chunk may lose its worker while it runs alone."""


def dispatch(
    chunks: Iterable[Chunk], backend: Backend, save: Callable[[ChunkRows], None]
) -> list[tuple[Chunk, str]]:
    """Run all chunks and save each when it is done; returns those given up, with the reason."""
    finished: deque[ChunkRows] = deque()
    try:
        return _dispatch(chunks, backend, save, finished)
    finally:
        # Computed rows are kept, whatever went wrong meanwhile.
        _save_all(finished, save)


def _dispatch(
    chunks: Iterable[Chunk],
    backend: Backend,
    save: Callable[[ChunkRows], None],
    finished: deque[ChunkRows],
) -> list[tuple[Chunk, str]]:
    waiting = iter(chunks)
    again: deque[Chunk] = deque()
    suspects: deque[Chunk] = deque()
    lost: list[tuple[Chunk, str]] = []
    active: dict[Any, Chunk] = {}
    exhausted = False
    while True:
        while not exhausted and not suspects and len(active) < backend.ahead:
            chunk = again.popleft() if again else next(waiting, None)
            if chunk is None:
                exhausted = True
            else:
                active[backend.submit(chunk)] = chunk
        # Only now, so that no worker waits for the disk.
        _save_all(finished, save)
        if active:
            for handle in backend.wait(active.keys()):
                chunk = active.pop(handle)
                try:
                    finished.append(backend.result(handle))
                except WorkerNotStarted:
                    again.append(chunk)
                    exhausted = False
                except WorkerLost:
                    suspects.append(chunk)
        elif suspects:
            chunk = suspects.popleft()
            reason = _alone(chunk, backend, save)
            if reason:
                lost.append((chunk, reason))
        elif exhausted:
            return lost


def _save_all(finished: deque[ChunkRows], save: Callable[[ChunkRows], None]) -> None:
    while finished:
        save(finished.popleft())


def _alone(chunk: Chunk, backend: Backend, save: Callable[[ChunkRows], None]) -> str:
    """Run a chunk alone; returns the reason if it is given up."""
    reason = ""
    lives = _LIVES
    while lives:
        handle = backend.submit(chunk)
        backend.wait([handle])
        try:
            save(backend.result(handle))
        except WorkerNotStarted:
            continue
        except WorkerLost as error:
            reason = str(error) or "its worker died"
            lives -= 1
        else:
            return ""
    return reason
