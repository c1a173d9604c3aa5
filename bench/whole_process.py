"""Whole processes beside those of an optimized build of the reference: ``make bench-page``.

The seconds of the engine are those that the run itself reports, by the clock of the CPU. Needs the
recorded traces.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
from pathlib import Path
from typing import Final

from bench.page import machine_line, replace_block, table
from bench.processes import BY_CPU_CLOCK, run_measured
from tests.shared import NO_TRACES, TRACES

__all__ = ["COMMANDS", "HEADER", "main", "reference"]

HEADER: Final = (
    "run", "reference, process (s)", "stepsim, process (s)", "reference / stepsim",
    "stepsim, engine (s)", "cycles of the reference", "cycles of stepsim",
)  # fmt: skip
_TURNS: Final = 3
_ROUTING: Final = TRACES / "expert_routing"
_KV: Final = "b64/conv_stdev0995_0733_0796.npy"


def _moe(model: str, routing: str) -> list[str]:
    return ["moe", "--model", model, "--routing", str(_ROUTING / routing), "--tile", "64"]


def _attention(strategy: str, lengths: str = _KV) -> list[str]:
    file = str(TRACES / "azure_trace" / lengths)
    command = ["attention", "--model", "qwen3-30b-a3b", "--kv-lengths", file]
    return [*command, "--strategy", strategy]


COMMANDS: Final[dict[str, list[str]]] = {
    "MoE Mixtral-8x7B, 64 rows, tile 64": _moe("mixtral-8x7b", "mixtral_b64/008_010.npz"),
    "MoE Qwen3-30B-A3B, 64 rows, tile 64": _moe("qwen3-30b-a3b", "qwen_b64/032_012.npz"),
    "Attention, 64 requests, dynamic": _attention("dynamic"),
    "Attention, 64 requests, interleaved": _attention("interleaved"),
    "Attention, 64 requests, coarse": _attention("coarse"),
    "Attention, 16 requests, dynamic": _attention("dynamic", "b16/conv_stdev1454_0985_1000.npy"),
    "SwiGLU, tile 16x16": [
        "swiglu", "--tile", "16", "--tile-inter", "16", "--machine", "sda-hdl"
    ],
}  # fmt: skip
"""By workload, as in reference_release.csv: arguments of ``stepsim run``."""


def reference() -> dict[str, tuple[int, float]]:
    """Cycles and CPU seconds of the reference by workload."""
    path = Path(__file__).parent / "reference_release.csv"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return {
        row["workload"]: (int(row["cycles"]), float(row["cpu_seconds"]))
        for row in csv.DictReader(lines)
    }


def _row(name: str, arguments: list[str], cycles: int, seconds: float) -> list[str]:
    command = [*BY_CPU_CLOCK, "run", *arguments, "--config", "published", "--json"]
    run_measured(command)  # its files are in the cache of the system afterwards
    turns = [run_measured(command) for _ in range(_TURNS)]
    ours = statistics.median(cpu for cpu, _ in turns)
    results = [json.loads(printed) for _, printed in turns]
    engine = min(float(result["wall_seconds"]) for result in results)
    return [
        name, f"{seconds:g}", f"{ours:.2f}", f"{seconds / ours:.2g}", f"{engine:.2g}",
        str(cycles), str(results[0]["cycles"]),
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.whole_process", description=__doc__)
    parser.add_argument("--page", action="store_true", help="write the table into the page")
    page = parser.parse_args().page
    if not TRACES.is_dir():
        raise SystemExit(NO_TRACES)
    rows = []
    for name, (cycles, seconds) in reference().items():
        rows.append(_row(name, COMMANDS[name], cycles, seconds))
        print("  ".join(rows[-1]), flush=True)
    if page:
        replace_block("whole process", [machine_line(), "", *table(HEADER, rows)])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
