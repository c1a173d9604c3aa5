"""Progress on stderr for anything that takes longer than two seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from stepsim.compilation import under_compilation

if TYPE_CHECKING:
    from types import TracebackType

    from stepsim.simulation import Progress

LOADING_ENGINE = "loading the engine (compiled on first use)"
"""Name of the step that may compile."""

QUIET_SECONDS = 2.0
"""Time before the first line of progress."""

_TERMINAL_SECONDS = 0.5
_LOG_SECONDS = 5.0


class Heartbeat:
    """Reports progress: a line that is updated on a terminal, else a line from time to time.

    Use it as a context manager, call `phase` when another step begins, and give `progress` to
    ``simulate``. A thread does the printing, so long steps that report nothing are covered too.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        quiet_seconds: float = QUIET_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._interval = _TERMINAL_SECONDS if self._terminal else _LOG_SECONDS
        self._clock = clock
        self._next = clock() + quiet_seconds
        self._phase = "starting"
        self._phase_start = clock()
        self._progress: Progress | str | None = None
        self._drawn = False
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        with self._lock:
            if self._drawn and self._terminal:
                self._write("\r\x1b[2K")

    def phase(self, what: str) -> None:
        """Start a step of this name."""
        with self._lock:
            self._phase = what
            self._phase_start = self._clock()
            self._progress = None

    def progress(self, progress: Progress | str) -> None:
        """Record the progress of a simulation, or, in words, of anything else."""
        with self._lock:
            self._progress = progress

    def beat(self) -> None:
        """Print the state if a line is due."""
        with self._lock:
            now = self._clock()
            if now < self._next:
                return
            self._next = now + self._interval
            compiled = under_compilation()
            if compiled is not None:
                line = f"{self._phase}: compiling the {compiled}, only once on this machine"
                line += f" ... {now - self._phase_start:.0f} s"
            elif self._progress is None:
                line = f"{self._phase} ... {now - self._phase_start:.0f} s"
            else:
                known = self._progress
                text = known if isinstance(known, str) else format_progress(known)
                line = f"{self._phase}: {text}"
            self._write(f"\r\x1b[2K{line}" if self._terminal else f"{line}\n")
            self._drawn = True

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            self.beat()

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            # A closed stderr must not end the run.
            self._ended.set()


def format_progress(progress: Progress) -> str:
    """Cycle, rate, fraction done and time left, as far as they are known."""
    parts = [
        f"cycle {progress.cycle:,}",
        f"{progress.steps_per_second / 1e6:.1f} M steps/s",
    ]
    if progress.fraction is not None:
        parts.append(f"{100 * progress.fraction:.0f} % done")
    if progress.eta_seconds is not None:
        parts.append(f"about {progress.eta_seconds:.0f} s left")
    return ", ".join(parts)
