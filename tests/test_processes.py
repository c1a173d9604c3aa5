"""Worker processes end at once when they are told to, busy or not, and without a word."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import BrokenExecutor
from typing import Any

import psutil
import pytest

from stepsim.processes import start_processes, stop_processes


@pytest.mark.parametrize("waiting", [0, 1, 30])
def test_busy_processes_are_ended(monkeypatch: pytest.MonkeyPatch, waiting: int) -> None:
    errors: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", errors.append)
    executor = start_processes(2, "json")
    workers = {executor.submit(os.getpid).result(timeout=60)}
    futures = [executor.submit(time.sleep, 3600) for _ in range(waiting)]
    stop_processes(executor)
    assert all(isinstance(future.exception(), BrokenExecutor) for future in futures)
    assert not any(psutil.pid_exists(worker) for worker in workers)
    assert not errors


def test_the_module_is_loaded_before_the_first_work() -> None:
    executor = start_processes(1, "colorsys")
    try:
        assert executor.submit(eval, "'colorsys' in __import__('sys').modules").result(timeout=60)
    finally:
        stop_processes(executor)
