"""Outputs that cannot take what is printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepsim.cli.exit_codes import NOT_WRITTEN

COMMAND = [sys.executable, "-c", "from stepsim.cli import main; main()", "machines"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("options", [[], ["--json"], ["--show", "sda-1024"]])
def test_a_full_disk_is_told_without_traceback(options: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*COMMAND, *options], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == NOT_WRITTEN
    assert done.stderr == "error: the output cannot be written: No space left on device\n"


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*COMMAND, "--schema"], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")
