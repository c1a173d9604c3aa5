"""SIGTERM and SIGHUP end a sweep as Ctrl-C does: by an exception, so that all is put in order.

Without this they end the process on the spot, and the workers and temporary files stay behind.
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
    signal : which one it was.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.signal = signal.Signals(number)


@contextmanager
def ended_by_signals() -> Iterator[Ending]:
    """Raise `Ended` in the block when SIGTERM or SIGHUP comes; afterwards all is as before.

    Only the main thread can have it so; in another one nothing changes. Signals for which there is
    a handler, or which are ignored as under ``nohup``, are left alone. What comes while the first
    one is acted upon has no effect, and a second Ctrl-C has none either. Yields what tells the
    block's end that the process ends as well.
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
        # An exception would keep the other handlers from being put back.
        end.over = True
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if end.process_ends else handler)
        for late in () if end.process_ends else end.late[:1]:
            signal.raise_signal(late)


@contextmanager
def signals_held() -> Iterator[None]:
    """The first signal that Python acts on waits for the end of the block; later ones are lost.

    For what must not be left half done. In another thread than the main one nothing changes, as
    Python acts on no signal there.
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
    """Whether this thread can have handlers of signals."""
    return threading.current_thread() is threading.main_thread()


class _UnderWay:
    """Lives as long as the exception of a signal."""


class Ending:
    """A handler that raises, unless what it has raised before is still under way.

    Ignoring the others by ``SIG_IGN`` would not do: of one that has come already Python complains
    with a traceback. An exception that was lost, as in a ``__del__``, is not under way any more.

    Attributes
    ----------
    process_ends : to be set when nothing but the end of the process follows the block. Signals
        have no effect from then on: the default action would end it with another exit code, and
        without what is done at its exit.
    over : whether signals are only noted.
    late : those that were noted.
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
        # No variable of this frame may hold it: its traceback holds the frame.
        raise self._exception(number)

    def _exception(self, number: int) -> BaseException:
        error = KeyboardInterrupt() if number == signal.SIGINT else Ended(number)
        mark = _UnderWay()
        vars(error)["under_way"] = mark
        self._first = weakref.ref(mark)
        return error
