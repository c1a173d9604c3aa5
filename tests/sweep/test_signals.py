"""What signals do to a sweep of a Python program, and what is left of it afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from stepsim.sweep import Ended, run_sweep
from stepsim.sweep.backends import LocalBackend
from stepsim.sweep.running import run
from stepsim.sweep.running.signals import ended_by_signals
from tests.children import started
from tests.samples import sampled
from tests.sweep.support import (
    assert_as_undisturbed,
    saved,
    sweep_command,
    timings,
    tiny,
    wait_until,
)

pytestmark = pytest.mark.usefixtures("signals_by_default")

BOTH = [signal.SIGTERM, signal.SIGHUP]


def handlers() -> list[Any]:
    return [signal.getsignal(number) for number in BOTH]


@pytest.mark.slow
@pytest.mark.parametrize("number", BOTH)
def test_a_signal_ends_a_sweep_with_an_exception(tmp_path: Path, number: signal.Signals) -> None:
    before = handlers()

    def kill(progress: Any) -> None:
        os.kill(os.getpid(), number)

    with pytest.raises(Ended) as caught:
        run_sweep(tiny(), tmp_path / "out", progress=kill)
    assert (caught.value.signal, caught.value.code) == (number, 128 + number)
    assert handlers() == before == [signal.SIG_DFL] * 2
    assert len(saved(tmp_path / "out")) == 4
    run_sweep(tiny(), tmp_path / "out", resume=True)
    assert_as_undisturbed(tmp_path / "out")


@pytest.mark.slow
def test_handlers_of_the_program_and_ignored_signals_are_left_alone(tmp_path: Path) -> None:
    seen: list[int] = []
    before = handlers()
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    mine = handlers()
    try:

        def kill(progress: Any) -> None:
            for number in BOTH:
                os.kill(os.getpid(), number)

        assert run_sweep(tiny(), tmp_path, progress=kill).complete
        assert handlers() == mine
    finally:
        for number, handler in zip(BOTH, before, strict=True):
            signal.signal(number, handler)
    assert seen == [signal.SIGTERM] * 8


@pytest.mark.slow
def test_a_sweep_in_another_thread_takes_no_signals(tmp_path: Path) -> None:
    found: list[Any] = []

    def look(progress: Any) -> None:
        found.extend(handlers())

    thread = threading.Thread(target=run_sweep, args=(tiny(), tmp_path), kwargs={"progress": look})
    thread.start()
    thread.join()
    assert found == [signal.SIG_DFL] * 16


@pytest.mark.parametrize("first", [*BOTH, signal.SIGINT])
@pytest.mark.parametrize("second", [*BOTH, signal.SIGINT])
def test_only_the_first_signal_counts(first: signal.Signals, second: signal.Signals) -> None:
    in_order: list[bool] = []

    def put_in_order() -> None:
        os.kill(os.getpid(), second)
        in_order.append(True)

    def disturbed() -> None:
        with ended_by_signals(), ExitStack() as ending:
            ending.callback(put_in_order)
            os.kill(os.getpid(), first)

    with pytest.raises((Ended, KeyboardInterrupt)) as caught:
        disturbed()
    assert in_order == [True]
    assert getattr(caught.value, "signal", signal.SIGINT) is first
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_signals_that_come_at_once_leave_no_complaint(capfd: pytest.CaptureFixture[str]) -> None:
    def disturbed() -> None:
        with ended_by_signals(), ExitStack() as ending:
            before = signal.pthread_sigmask(signal.SIG_BLOCK, BOTH)
            ending.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
            for number in BOTH:
                # To this thread, as others block nothing.
                signal.raise_signal(number)

    with pytest.raises(Ended):
        disturbed()
    assert capfd.readouterr().err == ""


def test_a_signal_whose_exception_was_lost_is_followed_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda said: lost.append(said.exc_type))

    class Losing:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    with ended_by_signals():
        Losing()
        assert lost == [Ended]
        with pytest.raises(Ended):
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize("number", sampled([signal.SIGTERM, signal.SIGINT], signal.SIGTERM))
def test_a_signal_waits_until_the_workers_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    ended: list[bool] = []

    class Closing(LocalBackend):
        def close(self) -> None:
            os.kill(os.getpid(), number)
            super().close()
            ended.append(True)

    monkeypatch.setattr(run, "LocalBackend", Closing)
    with pytest.raises((Ended, KeyboardInterrupt)) as caught:
        run_sweep(tiny(), tmp_path / "out")
    assert getattr(caught.value, "signal", signal.SIGINT) is number
    assert ended == [True]
    monkeypatch.undo()
    assert_as_undisturbed(tmp_path / "out")


@pytest.mark.slow
def test_a_sweep_that_is_to_outlive_its_terminal_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; what is started inherits it
    with started(
        sweep_command(tiny(chunk=1), folder), stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: bool(timings(folder)) or process.poll() is not None)
        process.send_signal(signal.SIGHUP)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert len(saved(folder)) == 24


@pytest.mark.slow
@pytest.mark.parametrize("first", sampled([*BOTH, signal.SIGINT], signal.SIGINT))
def test_signals_have_no_effect_while_the_ended_process_exits(
    tmp_path: Path, first: signal.Signals
) -> None:
    program = f"""
import atexit, os, signal, sys
from stepsim.cli.sweeps import run
from stepsim.cli.main import main

def at_exit():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        os.kill(os.getpid(), number)
    print("in order", flush=True)

atexit.register(at_exit)
run._run = lambda *_, **__: os.kill(os.getpid(), {int(first)})
main(["sweep", "run", "spec.yaml", "--out", {str(tmp_path)!r}])
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 128 + first, ended.stderr
    assert ended.stdout == "in order\n"
    assert "Traceback" not in ended.stderr
