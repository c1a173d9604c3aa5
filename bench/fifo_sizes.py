"""What sizing FIFOs saves on the published graphs: ``python -m bench.fifo_sizes [FIGURE ...]``.

One line for each graph of the figures: slots, bytes, cycles against unbounded FIFOs, simulations,
and the bytes saved against one depth of 2, 8 and 1024 for all FIFOs. Traces are those of
STEPSIM_SHARED, else synthetic.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from stepsim.reproduce import Inputs, Run, machine_of, points_of, source_of
from stepsim.simulation import Case, counting_of
from stepsim.sizing import sized
from stepsim.workloads import resolve

__all__ = ["line_of"]

_FIGURES = ("9", "10", "14", "17")


def line_of(name: str, run: Run, inputs: Inputs) -> str:
    """Size the FIFOs of a run, as a line of a table."""
    source, machine = source_of(run), machine_of(run)
    data = inputs.data(run, source.load())
    resolved = resolve(
        source.load(), run.parameters, machine=machine, config=run.config, data=[data]
    )
    case = Case(source, resolved, data, machine, counting_of(run.counting, run.config))
    begin = time.perf_counter()
    sizes = sized(case.prepared, case.bound(data))
    seconds = time.perf_counter() - begin
    saved = " ".join(
        f"{row['uniform_depth']}:{row['bytes_saved'] / row['fifo_bytes']:.1%}"
        + ("" if row["status"] == "ok" else f"({row['status']})")
        for row in sizes.uniform().to_pylist()
    )
    return (
        f"{name:28} {len(sizes.depths):6} FIFOs {sizes.slots:7} slots {sizes.bytes:13,} bytes "
        f"{sizes.slowdown:+.3%} {sizes.simulations_before}/{sizes.simulations} simulations "
        f"{seconds:5.1f} s, saved against {saved}"
    )


def main(figures: list[str]) -> None:
    """Print the lines of some figures."""
    shared = Path(os.environ.get("STEPSIM_SHARED", "shared"), "data")
    inputs = Inputs(shared if shared.is_dir() else None)
    for figure in figures:
        for point in points_of(figure):
            print(line_of(f"{figure} {point.point_id}", point.run, inputs), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(_FIGURES))
