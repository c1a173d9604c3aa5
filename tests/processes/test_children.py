"""A test that fails with a child process running ends it."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from tests.children import started

SLEEPER = "import time; time.sleep(3600)"
PARENT = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {SLEEPER!r}])
print(child.pid, flush=True)
time.sleep(3600)
"""


@pytest.mark.slow
def test_a_failure_ends_the_process_and_its_children() -> None:
    seen: list[psutil.Process] = []

    def fails() -> None:
        command = [sys.executable, "-c", PARENT]
        with started(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            seen.append(psutil.Process(process.pid))
            seen.append(psutil.Process(int(process.stdout.readline())))
            process.wait(timeout=0.01)

    with pytest.raises(subprocess.TimeoutExpired):
        fails()
    _, alive = psutil.wait_procs(seen, timeout=30)
    assert len(seen) == 2
    assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]
