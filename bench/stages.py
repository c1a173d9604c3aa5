"""Where the CPU time of ``stepsim run moe`` goes: ``make bench-page``.

A fresh process (bench/stage_calls.py) does what the command does, one call after the other, and
times them; the command itself is timed as a whole. What the calls do not account for is the command
line's own: its imports, the formulas of the summary, and printing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from bench.page import machine_line, replace_block, table
from bench.processes import STEPSIM, run_measured

__all__ = ["HEADER", "MODEL", "STAGES", "TILE", "main"]

HEADER: Final = ("stage", "CPU ms", "share")
STAGES: Final = (
    "interpreter and numpy",
    "imports for building and running",
    "build of the program",
    "preparation: shapes, FIFOs, image",
    "loading the compiled engine",
    "engine",
    "binding and tables of the result",
    "command line: its imports, formulas, output",
)
_TURNS: Final = 3
MODEL: Final = "qwen3-30b-a3b"
TILE: Final = 32


def _measure(routing: Path) -> dict[str, float]:
    """The medians of several turns of both processes, in alternation."""
    command = [*STEPSIM, "run", "moe", "--model", MODEL, "--routing", str(routing)]
    command += ["--tile", str(TILE), "--config", "published", "--json"]
    run_measured(command)  # its files are in the cache of the system afterwards
    turns = []
    for _ in range(_TURNS):
        calls = [sys.executable, "-m", "bench.stage_calls", MODEL, str(TILE), str(routing)]
        stages = [float(seconds) for seconds in json.loads(run_measured(calls)[1])]
        turns.append([*stages, run_measured(command)[0] - sum(stages)])
    medians = [statistics.median(column) for column in zip(*turns, strict=True)]
    return dict(zip(STAGES, medians, strict=True))


def _routing(path: Path) -> None:
    random = np.random.default_rng(1)
    rows = [random.choice(128, 8, replace=False) for _ in range(64)]
    np.save(path, np.array(rows, np.int64))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.stages", description=__doc__)
    parser.add_argument("--page", action="store_true", help="write the table into the page")
    page = parser.parse_args().page
    with TemporaryDirectory() as folder:
        routing = Path(folder) / "routing.npy"
        _routing(routing)
        found = _measure(routing)
    total = sum(found.values())
    found["whole process"] = total
    rows = [[name, f"{1000 * s:.1f}", f"{100 * s / total:.0f} %"] for name, s in found.items()]
    for row in (HEADER, *rows):
        print("  ".join(row))
    if page:
        replace_block("stages", [machine_line(), "", *table(HEADER, rows)])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
