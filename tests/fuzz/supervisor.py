"""A campaign in a process of its own: a crash or an endless loop costs one case."""

from __future__ import annotations

import faulthandler
import multiprocessing
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

from stepsim.simulation import warm_up
from tests.fuzz.driver import CASE_SECONDS, Failure, Found, again, load, run_case

__all__ = ["report", "supervise"]

_GRACE = 2 * CASE_SECONDS
"""Seconds after which a case that does not answer is ended with its process."""


def report(name: str, seed: int, failure: Failure) -> str:
    text = f"{failure.key}\n{again(name, seed)}\n\n{failure.notes}\n\n{failure.traceback}\n"
    # Cases draw halves of characters too, which no file of text can hold.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def supervise(name: str, seed: int, seconds: float, out: Path) -> Found:
    """Run cases in a worker for so long; a worker that dies or hangs is replaced."""
    out.mkdir(parents=True, exist_ok=True)
    found, deadline = Found(), time.monotonic() + seconds
    context = multiprocessing.get_context("spawn")
    while time.monotonic() < deadline:
        ours, theirs = context.Pipe(duplex=False)
        worker = context.Process(target=_work, args=(name, seed, theirs, str(out)), daemon=True)
        worker.start()
        theirs.close()
        while time.monotonic() < deadline:
            lost = None
            try:
                if not ours.poll(_GRACE):
                    lost = f"no answer within {_GRACE:g} seconds"
                else:
                    outcome = ours.recv()
            except EOFError:
                worker.join()
                lost = f"the process ended with exit code {worker.exitcode}"
            if lost is not None:
                left = out / f"{name}-crash.txt"
                trace = left.read_text(encoding="utf-8") if left.exists() else ""
                outcome = Failure(f"{lost}: {_crashed_at(trace)}", trace, "")
            if found.add(seed, outcome):
                path = out / f"{name}-{seed}.txt"
                path.write_text(report(name, seed, outcome), encoding="utf-8")
                sys.stdout.write(f"{name} {seed}: {outcome.key}\n")
                sys.stdout.flush()
            seed += 1
            if lost is not None:
                break
        worker.kill()
        worker.join()
    (out / f"{name}-crash.txt").unlink(missing_ok=True)
    return found


def _crashed_at(trace: str) -> str:
    places = [line.strip() for line in trace.splitlines() if "/stepsim/" in line]
    return places[0] if places else "no place of stepsim"


def _work(name: str, seed: int, answers: Connection, out: str) -> None:
    """Answer with the outcomes of the cases from ``seed`` on, for ever."""
    one = load(name)
    warm_up()
    with (Path(out) / f"{name}-crash.txt").open("w", encoding="utf-8") as crash:
        faulthandler.enable(crash)
        while True:
            # Ends with the process where a time limit in Python code does not help.
            faulthandler.dump_traceback_later(0.8 * _GRACE, file=crash)
            answers.send(run_case(one, seed))
            seed += 1
