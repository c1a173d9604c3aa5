"""Worker processes end at once when they are told to, busy or not, and without a word."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import tempfile
import threading
import time
from concurrent.futures import BrokenExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pytest

from stepsim.errors import OutputError, StepSimError
from stepsim.processes import FreshProcesses, pool_of
from stepsim.processes.fresh import _loaded, _outcome
from tests.samples import sampled
from tests.sweep.support import die_while_sending, kill_self


@pytest.mark.parametrize("waiting", [0, 1, 30])
def test_busy_processes_are_ended(monkeypatch: pytest.MonkeyPatch, waiting: int) -> None:
    errors: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", errors.append)
    processes = FreshProcesses(2, "json")
    worker = processes.submit(os.getpid).result(timeout=60)
    futures = [processes.submit(time.sleep, 3600) for _ in range(waiting)]
    processes.stop()
    assert all(isinstance(future.exception(), BrokenExecutor) for future in futures)
    assert not psutil.pid_exists(worker)
    assert not errors


def test_the_module_is_loaded_before_the_first_work() -> None:
    processes = FreshProcesses(1, "colorsys")
    try:
        assert processes.submit(eval, "'colorsys' in __import__('sys').modules").result(timeout=60)
    finally:
        processes.stop()


_HELD = "sorted(map(int, __import__('signal').pthread_sigmask(0, [])))"


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no signal masks here")
@pytest.mark.parametrize("_", range(2))  # nothing clears up after processes before the first ones
def test_what_a_terminal_sends_to_all_does_not_reach_them(_: int) -> None:
    processes = FreshProcesses(2, "json")
    try:
        for _ in range(4):
            assert {signal.SIGINT, signal.SIGHUP} <= set(processes.submit(eval, _HELD).result(60))
    finally:
        processes.stop()
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.slow
def test_processes_that_cannot_start_are_reported_from_those_that_die(
    capfd: pytest.CaptureFixture[str],
) -> None:
    processes = FreshProcesses(1, "no_such_module_as_this")
    assert isinstance(processes._first.exception(timeout=60), BrokenExecutor)
    assert processes.never_began
    processes.stop()
    assert "no_such_module_as_this" in capfd.readouterr().err
    processes = FreshProcesses(1, "json")
    assert isinstance(processes.submit(kill_self).exception(timeout=60), BrokenExecutor)
    assert not processes.never_began
    processes.stop()


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_results_and_errors_of_any_size_come_back(size: int) -> None:
    processes = FreshProcesses(1, "json")
    try:
        assert processes.submit(bytes, size).result(timeout=60) == bytes(size)
        error = processes.submit(int, "x" * size).exception(timeout=60)
        assert isinstance(error, ValueError)
        assert "in a worker process" in error.__notes__[0]
        assert isinstance(processes.submit(threading.Lock).exception(timeout=60), TypeError)
    finally:
        processes.stop()


@pytest.mark.slow
def test_a_process_that_dies_while_it_sends_is_noticed_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A place of its own, since other tests run beside this one.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    processes = FreshProcesses(2, "json")
    future = processes.submit(die_while_sending)
    assert list(tmp_path.glob("stepsim-*"))
    assert isinstance(future.exception(timeout=60), BrokenExecutor)
    processes.stop()
    assert not list(tmp_path.glob("stepsim-*"))


def test_results_that_cannot_be_put_down_are_an_error_of_the_place(tmp_path: Path) -> None:
    succeeded, error = _loaded(_outcome(str(tmp_path / "gone"), bytes, (100_000,)))
    assert not succeeded
    assert isinstance(error, OutputError)
    # A full disk has an exit code of its own, by the cause.
    assert isinstance(error.__cause__, FileNotFoundError)
    assert str(error).startswith(f"{tmp_path / 'gone'}: a worker process cannot write its results")


def blocked() -> set[int]:
    return {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])}


@pytest.mark.slow
def test_processes_leave_the_signals_of_a_terminal_to_this_one() -> None:
    before = blocked()
    processes = FreshProcesses(1, "json")
    try:
        assert {signal.SIGINT, signal.SIGHUP} <= processes.submit(blocked).result()
    finally:
        processes.stop()
    assert blocked() == before


def _error_of_a_pool(fork: bool, answers: Connection) -> None:
    try:
        with pool_of(2, "json", fork=fork):
            answers.send("started")
    except StepSimError as error:
        answers.send(str(error))


@pytest.mark.slow
@pytest.mark.parametrize("fork", sampled([False, True], False))
def test_a_daemonic_process_is_refused_children(fork: bool) -> None:
    """As of a worker of multiprocessing.Pool; Python would raise an AssertionError."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_error_of_a_pool, args=(fork, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        assert ours.poll(60)
        assert re.search(r"daemonic process .* use jobs=1 \(--jobs 1\) here", ours.recv())
    finally:
        process.kill()
        process.join()
