"""The heartbeat: silent at first, then a line now and then, never on stdout."""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass

import pytest

from stepsim.cli.heartbeat import Heartbeat, format_progress
from stepsim.compilation import compiling


@dataclass
class Moment:
    """A progress report as the engine gives it."""

    cycle: int = 1_234_567
    steps: int = 10
    steps_per_second: float = 12_340_000.0
    fraction: float | None = None
    eta_seconds: float | None = None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_progress_shows_what_is_known() -> None:
    assert format_progress(Moment()) == "cycle 1,234,567, 12.3 M steps/s"
    assert format_progress(Moment(fraction=0.256, eta_seconds=12.4)) == (
        "cycle 1,234,567, 12.3 M steps/s, 26 % done, about 12 s left"
    )


def test_nothing_before_two_seconds() -> None:
    clock, stream = Clock(), io.StringIO()
    heartbeat = Heartbeat(stream, clock=clock)
    clock.now += 1.99
    heartbeat.beat()
    assert stream.getvalue() == ""
    clock.now += 0.01
    heartbeat.beat()
    assert stream.getvalue() == "starting ... 2 s\n"


def test_a_log_gets_a_line_every_five_seconds() -> None:
    clock, stream = Clock(), io.StringIO()
    heartbeat = Heartbeat(stream, clock=clock)
    heartbeat.phase("compiling the engine")
    for _ in range(121):
        heartbeat.beat()
        clock.now += 0.1
    assert stream.getvalue() == "compiling the engine ... 2 s\ncompiling the engine ... 7 s\n"


def test_progress_replaces_the_elapsed_time_until_the_next_phase() -> None:
    clock, stream = Clock(), io.StringIO()
    heartbeat = Heartbeat(stream, clock=clock, quiet_seconds=0)
    heartbeat.phase("simulating")
    heartbeat.progress(Moment())
    heartbeat.beat()
    clock.now += 5
    heartbeat.phase("writing")
    clock.now += 1
    heartbeat.beat()
    assert stream.getvalue() == ("simulating: cycle 1,234,567, 12.3 M steps/s\nwriting ... 1 s\n")


def test_a_terminal_line_renews_itself_and_goes_away() -> None:
    clock, stream = Clock(), Terminal()
    with Heartbeat(stream, clock=clock, quiet_seconds=0) as heartbeat:
        heartbeat.phase("simulating")
        clock.now += 1
        heartbeat.beat()
    assert "\n" not in stream.getvalue()
    assert stream.getvalue().endswith("simulating ... 1 s\r\x1b[2K")


def test_the_thread_beats_by_itself_and_ends() -> None:
    seen = threading.Event()

    class Watched(io.StringIO):
        def write(self, text: str) -> int:
            seen.set()
            return super().write(text)

    with Heartbeat(Watched(), quiet_seconds=0):
        assert seen.wait(30)
    assert "heartbeat" not in [thread.name for thread in threading.enumerate()]


def test_an_error_inside_passes_through() -> None:
    with pytest.raises(RuntimeError, match="inner"), Heartbeat(io.StringIO()):
        raise RuntimeError("inner")


def test_a_closed_stream_does_not_stop_the_run() -> None:
    stream = io.StringIO()
    heartbeat = Heartbeat(stream, quiet_seconds=0)
    stream.close()
    heartbeat.beat()


def test_what_is_compiled_is_named() -> None:
    clock, stream = Clock(), io.StringIO()
    heartbeat = Heartbeat(stream, clock=clock)
    heartbeat.phase("simulating")
    clock.now += 3
    with compiling("engine of model 'dram'"):
        heartbeat.beat()
    clock.now += 6
    heartbeat.beat()
    assert stream.getvalue().splitlines() == [
        "simulating: compiling the engine of model 'dram', only once on this machine ... 3 s",
        "simulating ... 9 s",
    ]
