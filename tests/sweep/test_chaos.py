"""A sweep that is never left in peace gives, in the end, what an undisturbed one gives.

For ten minutes with STEPSIM_DRAWS=new, else for a quarter of one; STEPSIM_CHAOS_SECONDS says how
long else, and STEPSIM_CHAOS_SEED which draws. With STEPSIM_CHAOS_MOUNT=0 no disk is mounted that
could be full: the sweep may write no long files instead, as where nobody may mount.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.property_profile import THOROUGH
from tests.sweep.support import sweep_command, tiny

pytest.importorskip("distributed", reason="dask.distributed is not installed")
from tests.sweep.chaos import Chaos, own_tracebacks, small_disk

SPEC = tiny(
    name="chaos",
    traces={"synthetic": {"tokens": 12, "layers": 5, "steps": 30, "seed": 1}},
    grid={"tile": [1, 2, 4, "dynamic"]},
    chunk=1,
)
"""600 runs, each a chunk of its own, so that there is much to write."""

NOT_RESULTS = {".lock", "timings.jsonl"}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in NOT_RESULTS
    }


@pytest.mark.long
@pytest.mark.chaos
@pytest.mark.usefixtures("signals_by_default")
def test_a_sweep_in_chaos_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    seconds = float(os.environ.get("STEPSIM_CHAOS_SECONDS", 600 if THOROUGH else 15))
    seed = int(os.environ.get("STEPSIM_CHAOS_SEED", random.getrandbits(32) if THOROUGH else 1))
    subprocess.run(sweep_command(SPEC, tmp_path / "undisturbed"), check=True)
    expected = contents(tmp_path / "undisturbed")
    assert len(expected) == 3 + 2 * 4
    mount = os.environ.get("STEPSIM_CHAOS_MOUNT") != "0"
    with small_disk(tmp_path / "disk", mount=mount) as disk:
        chaos = Chaos(SPEC, disk, tmp_path, seed)
        end = time.monotonic() + seconds
        try:
            number = 0
            while time.monotonic() < end:
                folder = disk.folder / f"sweep-{number}"
                if not chaos.disturb(folder, end):
                    chaos.close()
                    subprocess.run(sweep_command(SPEC, folder, "--resume"), check=True)
                assert contents(folder) == expected
                shutil.rmtree(folder)
                number += 1
        finally:
            chaos.close()
            # With the seed, for whoever looks for what went wrong.
            sys.stdout.write(f"seed {seed}, {number} sweeps: {dict(chaos.log)}\n")


TRACKER = """\
Traceback (most recent call last):
  File "/lib/loky/backend/resource_tracker.py", line 277, in main
    registry[rtype].remove(name)
KeyError: '/loky-1-abc'
"""

OURS = """\
Traceback (most recent call last):
  File "/lib/stepsim/sweep/storage/store.py", line 1, in save
    raise OSError(28)

OSError: [Errno 28] resource_tracker.py
"""


def test_only_tracebacks_of_the_process_that_clears_up_are_passed_over() -> None:
    assert own_tracebacks(f"a note\n{TRACKER}a note\n{TRACKER}") == []
    assert own_tracebacks("Traceback (most recent call last):") != []
    for said in (OURS, f"{TRACKER}{OURS}", f"{OURS}{TRACKER}", f"note\n{TRACKER}a\n{OURS}b\n"):
        (found,) = own_tracebacks(said)
        assert found.startswith(OURS[:80])
