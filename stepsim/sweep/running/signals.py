"""SIGTERM and SIGHUP end a sweep as Ctrl-C does: by an exception, so that it can clean up.

Otherwise they end the process at once and leave the workers and temporary files behind.
"""

from __future__ import annotations

import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_ENDING = [
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
]  # Windows has one of them.


class Ended(SystemExit):
    """A signal ends the sweep.

    A script that does not catch it ends without a traceback and with the exit code of shells for
    the signal, 143 for SIGTERM and 129 for SIGHUP.

    Attributes
    ----------
    signal : the signal that arrived.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.signal = signal.Signals(number)


@contextmanager
def ended_by_signals() -> Iterator[Ending]:
    """Raise `Ended` in the block on SIGTERM or SIGHUP; restore the handlers afterwards.

    This works in the main thread only and has no effect in others. Signals for which there is
    a handler, or which are ignored as under ``nohup``, are left alone. Signals that arrive while
    the first one is handled have no effect; a second Ctrl-C has none either. Yields the object
    that the block informs when the process ends with it.
    """
    before: dict[signal.Signals, Any] = {}
    if _in_main_thread():
        by_default: dict[signal.Signals, Any] = dict.fromkeys(_ENDING, signal.SIG_DFL)
        by_default[signal.SIGINT] = signal.default_int_handler
        before = {n: then for n, then in by_default.items() if signal.getsignal(n) is then}
    end = Ending()
    try:
        for number in before:
            signal.signal(number, end)
        yield end
    finally:
        # An exception would keep the other handlers from being restored.
        end.over = True
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if end.process_ends else handler)
        for late in () if end.process_ends else end.late[:1]:
            signal.raise_signal(late)


@contextmanager
def signals_held() -> Iterator[None]:
    """Delay the first signal until the end of the block; later ones are lost.

    It protects work that must not be left half done. It has no effect outside the main thread,
    since Python handles no signals there.
    """
    before: dict[signal.Signals, Any] = {}
    if _in_main_thread():
        found = {number: signal.getsignal(number) for number in (signal.SIGINT, *_ENDING)}
        before = {number: handler for number, handler in found.items() if callable(handler)}
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    try:
        for number in before:
            signal.signal(number, note)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for held in came[:1]:
            signal.raise_signal(held)


def _in_main_thread() -> bool:
    """Whether this thread can have signal handlers."""
    return threading.current_thread() is threading.main_thread()


class _UnderWay:
    """Lives as long as the exception of a signal."""


class Ending:
    """A handler that raises, unless its earlier exception is still propagating.

    Ignoring further signals by ``SIG_IGN`` is not enough: for one that has arrived Python complains
    with a traceback. An exception that was lost, as in a ``__del__``, no longer propagates.

    Attributes
    ----------
    process_ends : to be set when the process ends right after the block. Signals
        have no effect from then on: the default action would end the process with another exit
        code, and skip its exit handlers.
    over : whether signals are only recorded.
    late : the signals that were recorded.
    """

    def __init__(self) -> None:
        self.process_ends = False
        self.over = False
        self.late: list[int] = []
        self._first: Callable[[], _UnderWay | None] = lambda: None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._first() is not None:
            return
        if self.over:
            self.late.append(number)
            return
        # No variable of this frame may refer to it, since its traceback refers to the frame.
        raise self._exception(number)

    def _exception(self, number: int) -> BaseException:
        error = KeyboardInterrupt() if number == signal.SIGINT else Ended(number)
        mark = _UnderWay()
        vars(error)["under_way"] = mark
        self._first = weakref.ref(mark)
        return error
