"""Forked processes: answers in order, errors, death of either side, signals, what they inherit.

Each test forks in a fresh interpreter, as the command line does; this one may have threads.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import psutil
import pytest

from stepsim.processes import can_fork
from tests.children import started
from tests.sweep.support import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux only")

_HEAD = """
import gc, os, signal, sys, threading, time
from concurrent.futures import BrokenExecutor
from stepsim.processes import ForkedProcesses, can_fork
assert can_fork()
frozen = gc.get_freeze_count()
here = object()
two = ForkedProcesses(2)
assert gc.get_freeze_count() == frozen
nothing = lambda task: None
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _HEAD + code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_answers_in_order_and_of_any_size_without_threads_here() -> None:
    out = run(
        """
ended = []
found = two.map(bytes, [3_000_000, 1, 0, 7], ended.append)
print([len(one) for one in found], sorted(ended), threading.active_count())
print(two.map(eval, ["'stepsim.processes.forked' in __import__('sys').modules"] * 3, nothing))
print(two.map(bytes, [], nothing), os.getpid() in two.map(eval, ["os.getpid()"], nothing))
two.stop()
two.stop()
""".replace('eval, ["os', "eval, [\"__import__('os')")
    )
    assert out.splitlines() == [
        "[3000000, 1, 0, 7] [0, 1, 7, 3000000] 1",
        "[True, True, True]",
        "[] False",
    ]


def test_the_first_error_is_raised_at_once_and_ends_the_processes() -> None:
    out = run("""
begin = time.monotonic()
try:
    two.map(eval, ["__import__('time').sleep(3600)", "int('x')"], nothing)
except ValueError as error:
    print(error, "|", error.__notes__[0].splitlines()[0], time.monotonic() - begin < 30)
""")
    assert out == "invalid literal for int() with base 10: 'x' | in a worker process: True\n"


def test_what_cannot_be_sent_is_an_error_of_the_work() -> None:
    out = run("""
try:
    two.map(eval, ["__import__('threading').Lock()"], nothing)
except TypeError as error:
    print(error)
""")
    assert "cannot pickle" in out


@pytest.mark.parametrize("busy", [True, False])
def test_a_killed_process_is_noticed(busy: bool) -> None:
    kill = "__import__('os').kill(__import__('os').getpid(), 9)"
    tasks = [kill, "__import__('time').sleep(3600)"] if busy else [kill]
    out = run(f"""
try:
    two.map(eval, {tasks!r}, nothing)
except BrokenExecutor:
    print("died")
""")
    assert out == "died\n"


def test_signals_of_a_terminal_are_left_to_the_parent() -> None:
    out = run("""
blocked = "sorted(map(int, __import__('signal').pthread_sigmask(0, [])))"
print(two.map(eval, [blocked], nothing), eval(blocked))
two.stop()
""")
    assert out == f"[{sorted([int(signal.SIGINT), int(signal.SIGHUP)])}] []\n"


@pytest.mark.slow
def test_processes_end_with_their_parent() -> None:
    code = (
        _HEAD
        + """
print(*(process.pid for process in two._processes.values()), flush=True)
two.map(eval, ["__import__('time').sleep(3600)"], nothing)
"""
    )
    with started([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as here:
        assert here.stdout is not None
        copies = [int(pid) for pid in here.stdout.readline().split()]
        assert len(copies) == 2
        here.kill()
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in copies))


def test_no_fork_beside_a_thread() -> None:
    with_thread = threading.Event()
    thread = threading.Thread(target=with_thread.wait)
    thread.start()
    try:
        assert not can_fork()
    finally:
        with_thread.set()
        thread.join()
