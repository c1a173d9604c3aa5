"""Disturb sweeps at random: kill what computes and what directs, fill the disk and free it."""

from __future__ import annotations

import contextlib
import os
import random
import re
import resource
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from stepsim.cli.exit_codes import BAD_INPUT, NOT_WRITTEN, RUN_FAILED, SIGNAL, WORKERS_LOST
from tests.sweep.dask_cluster import DaskCluster
from tests.sweep.support import saved, sweep_command, timings, wait_until

__all__ = ["Chaos", "Disk", "own_tracebacks", "small_disk"]

_TRACEBACK = re.compile(r"^Traceback.*\n?(?:[ \t].*\n?|\n)*(?:\S.*)?", re.MULTILINE)
"""With the line of the error that ends it."""

_FRAME = re.compile(r'^  File "(.*)", line', re.MULTILINE)

_SMALL = 24 * 2**20
_POLITE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DONE = 0


class Disk:
    """A place for folders that can be made full, and have room again.

    Where a file system of its own may be mounted it is really full. Elsewhere the process that
    writes may write no long files.
    """

    def __init__(self, folder: Path, *, mounted: bool) -> None:
        self.folder = folder
        self._mounted = mounted
        self._filler = folder / "filler"
        self._limited: list[int] = []

    def fill(self, process: int, left: int) -> None:
        """Leave room for so many bytes."""
        if not self._mounted:
            _, most = resource.prlimit(process, resource.RLIMIT_FSIZE)
            resource.prlimit(process, resource.RLIMIT_FSIZE, (left, most))
            self._limited.append(process)
            return
        space = os.statvfs(self.folder)
        with contextlib.suppress(OSError), self._filler.open("ab") as file:
            file.write(bytes(max(0, space.f_bavail * space.f_frsize - left)))

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)
        while self._limited:
            with contextlib.suppress(ProcessLookupError):
                process = self._limited.pop()
                _, most = resource.prlimit(process, resource.RLIMIT_FSIZE)
                resource.prlimit(process, resource.RLIMIT_FSIZE, (most, most))


@contextmanager
def small_disk(folder: Path, *, mount: bool = True) -> Iterator[Disk]:
    """A disk at ``folder``; without ``mount`` as where nothing may be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={_SMALL}", "none", str(folder)]
    try:
        mounted = mount and subprocess.run(command, capture_output=True).returncode == 0
    except OSError:  # no such command
        mounted = False
    try:
        yield Disk(folder, mounted=mounted)
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


class Chaos:
    """Sweeps into one folder, one after the other, none of which is left in peace.

    Attributes
    ----------
    log : what was done and how the sweeps ended, in words, with how often.
    """

    def __init__(self, spec: Mapping[str, Any], disk: Disk, place: Path, seed: int) -> None:
        self.log: Counter[str] = Counter()
        self._dice = random.Random(seed)
        self._spec, self._disk, self._place = spec, disk, place
        self._cluster: DaskCluster | None = None
        self._temporary = disk.folder / "temporary"
        self._temporary.mkdir()

    def disturb(self, folder: Path, end: float) -> bool:
        """Start a sweep again and again until it is complete or the time is over; returns which."""
        before: set[str] = set()
        while time.monotonic() < end:
            code = self._start(folder)
            if (folder / "sweep.json").exists():
                after = saved(folder)
                assert before <= after, f"{len(before - after)} runs were lost"
                before = after
            if code == _DONE:
                return True
        return False

    def close(self) -> None:
        self._disk.free()
        if self._cluster is not None:
            self._cluster.close()

    def _start(self, folder: Path) -> int:
        options = ["--resume", "--jobs", "2"]
        if self._dice.random() < 0.3:
            options += ["--backend", "dask", "--address", self._scheduler()]
        environment = {
            **os.environ, "TMPDIR": str(self._temporary),
            # Python takes bytecode that it could write only in part for whole.
            "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        with (
            (self._place / "errors").open("w+") as errors,
            subprocess.Popen(
                sweep_command(self._spec, folder, *options), env=environment,
                start_new_session=True, stdout=subprocess.DEVNULL, stderr=errors,
            ) as sweep,
        ):  # fmt: skip
            done: set[str] = set()
            family: set[psutil.Process] = set()
            try:
                if self._dice.random() < 0.8:
                    # Most of the time there is to be something that can be lost.
                    saved_before = len(timings(folder))
                    wait_until(
                        lambda: len(timings(folder)) != saved_before or sweep.poll() is not None
                    )
                while sweep.poll() is None:
                    done.add(self._act(sweep, family))
            finally:
                sweep.kill()
            self._disk.free()
            errors.seek(0)
            said = errors.read()
        _, alive = psutil.wait_procs(family, timeout=60)
        assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE], f"{done}: left {alive}"
        self._check_end(sweep.returncode, done, said)
        return sweep.returncode

    def _act(self, sweep: subprocess.Popen[bytes], family: set[psutil.Process]) -> str:
        """Wait for a while and do something; returns what."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            sweep.wait(self._dice.choice([0.1, 1, 3, 6, 12]) * self._dice.random())
            return "nothing"
        with contextlib.suppress(psutil.Error):
            family.update(psutil.Process(sweep.pid).children(recursive=True))
        self._disk.free()
        what = self._dice.choice(
            ["worker", "worker", "worker", "parent", "polite", "polite to all", "full", "full",
             "scheduler", "dask worker", "nothing"]
        )  # fmt: skip
        try:
            self._do(what, sweep, family)
        except (psutil.Error, ProcessLookupError):
            return "nothing"
        self.log[what] += 1
        return what

    def _do(self, what: str, sweep: subprocess.Popen[bytes], family: set[psutil.Process]) -> None:
        alive = [process for process in family if process.is_running()]
        if what == "worker" and alive:
            # Of all that there are, such as the one of loky that clears up after the others.
            self._dice.choice(alive).kill()
        elif what == "parent":
            sweep.kill()
        elif what == "polite":
            sweep.send_signal(self._dice.choice(_POLITE))
        elif what == "polite to all":
            os.killpg(sweep.pid, self._dice.choice(_POLITE))
        elif what == "full":
            self._disk.fill(sweep.pid, self._dice.choice([0, 2_000, 20_000, 60_000]))
        elif what == "scheduler" and self._cluster is not None:
            self._cluster.close()
            self._cluster = None
        elif what == "dask worker" and self._cluster is not None:
            self._dice.choice(self._cluster.processes[1:]).kill()
            self._cluster.add_worker()

    def _scheduler(self) -> str:
        if self._cluster is None:
            place = self._place / f"cluster-{self._dice.getrandbits(32):x}"
            place.mkdir()
            self._cluster = DaskCluster(place)
            self._cluster.start(workers=2)
        return self._cluster.address

    def _check_end(self, code: int, done: set[str], said: str) -> None:
        """A sweep ends in a way that fits what was done to it, and says so."""
        self.log[f"exit {code}"] += 1
        expected = {_DONE}
        last = said.splitlines()[-1] if said else ""
        if "parent" in done:
            expected.add(-signal.SIGKILL)
        if done & {"polite", "polite to all"}:
            expected |= {SIGNAL + number for number in _POLITE}
            # Before anything of ours has come to be.
            expected |= {-number for number in _POLITE}
        if "full" in done and last.startswith("error: "):
            expected.add(NOT_WRITTEN)
        if done & {"scheduler", "worker"} and last.startswith("error: "):
            expected.add(WORKERS_LOST)
        if "scheduler" in done and "no scheduler responds" in last:
            expected.add(BAD_INPUT)
        if done & {"worker", "dask worker"}:
            expected.add(RUN_FAILED)
        assert code in expected, f"after {done} it ended with {code}:\n{said}"
        if code != -signal.SIGINT:
            assert not own_tracebacks(said), f"after {done} it ended with {code}:\n{said}"


def own_tracebacks(said: str) -> list[str]:
    """Tracebacks in what a sweep wrote, without those of a process that is not ours.

    The process of loky that clears up after the others complains of what one before it, which was
    killed, knew. Its tracebacks lie in its own file and say which file or semaphore that is.
    """
    return [text for text in _TRACEBACK.findall(said) if not _of_tracker(text)]


def _of_tracker(traceback: str) -> bool:
    files = _FRAME.findall(traceback)
    return bool(files) and files[0].endswith("resource_tracker.py")
