"""The example that sweeps how a layer is divided among chips."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from stepsim.sweep import read_runs, run_sweep
from stepsim.trace_io import synthetic_routing

EXAMPLE = Path(__file__).parents[2] / "examples" / "scaling"


@pytest.mark.slow
def test_the_sweep_of_eight_chips(tmp_path: Path) -> None:
    for file in EXAMPLE.glob("*.yaml"):
        shutil.copy(file, tmp_path)
    synthetic_routing(16, experts=128, k=8, seed=0).to_parquet(tmp_path / "routing.parquet")
    np.save(tmp_path / "lengths.npy", range(500, 2100, 100))
    done = run_sweep(tmp_path / "scaling.yaml", tmp_path / "out")
    assert done.errors == {}
    names = ["tp", "ep", "dp", "cycles", "offchip_bytes"]
    rows = read_runs(tmp_path / "out", names).to_pylist()
    cycles = {(row["tp"], row["ep"], row["dp"]): row["cycles"] for row in rows[:4]}
    one, tensor, data, both = cycles.values()
    assert both < data < tensor < one
    assert rows[4]["cycles"] > both
    # Attention weights are copied by dp, and no other weights.
    moved = [row["offchip_bytes"] for row in rows]
    assert moved[0] < moved[1] < moved[3] < moved[2]
