"""``python -m tests.fuzz NAME --seconds N --seed S --out FOLDER``: a campaign of one fuzzer.

The cases S, S + 1, ... run in a process of their own, so that a crash or an endless loop costs one
case. Every distinct failure is written to ``FOLDER/NAME-SEED.txt`` with its traceback and what the
case did; ``--case SEED`` runs that case alone, in this process, ``--minimize`` shortens it. Cases
are those of STEPSIM_DRAWS=new, on machines with a DRAM too, unless the variable says otherwise.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.fuzz.driver import fuzzers, load, minimize, run_case
from tests.fuzz.supervisor import report, supervise


def main() -> int:
    # Before any fuzzer is imported: what they draw depends on it.
    os.environ.setdefault("STEPSIM_DRAWS", "new")
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("name", choices=fuzzers())
    parser.add_argument("--seconds", type=float, default=60.0, help="length of the campaign")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first case")
    parser.add_argument("--out", type=Path, default=Path("fuzz-out"), help="folder of the failures")
    parser.add_argument("--case", type=int, help="run this case alone")
    parser.add_argument("--minimize", action="store_true", help="shorten the failing --case")
    given = parser.parse_args()
    if given.case is not None:
        return _single(given.name, given.case, given.minimize)
    found = supervise(given.name, given.seed, given.seconds, given.out)
    sys.stdout.write(f"{given.name}: {found.summary()}\n")
    return 1 if found.failures else 0


def _single(name: str, seed: int, shorten: bool) -> int:
    outcome = run_case(load(name), seed)
    if isinstance(outcome, str):
        sys.stdout.write(f"{name} {seed}: {outcome}\n")
        return 0
    if shorten:
        outcome = minimize(load(name), seed, outcome.key) or outcome
    sys.stdout.write(report(name, seed, outcome))
    return 1


if __name__ == "__main__":
    sys.exit(main())
