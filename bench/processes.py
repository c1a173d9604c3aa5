"""CPU seconds of whole processes."""

from __future__ import annotations

import resource
import subprocess
import sys

__all__ = ["BY_CPU_CLOCK", "STEPSIM", "run_measured"]

STEPSIM = [sys.executable, "-m", "stepsim"]

_BY_CPU = """
import runpy, sys, time
time.perf_counter = time.process_time
sys.argv[0] = "stepsim"
runpy.run_module("stepsim", run_name="__main__")
"""
BY_CPU_CLOCK = [sys.executable, "-c", _BY_CPU]
"""The same command; the seconds that it reports of its engine are CPU seconds."""


def run_measured(command: list[str]) -> tuple[float, str]:
    """User and system seconds of one process, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, done.stdout
