"""The example that sweeps how a layer is divided among chips."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from stepsim.sweep import read_runs, run_sweep
from stepsim.trace_io import synthetic_routing

EXAMPLE = Path(__file__).parents[2] / "examples" / "scaling"


@pytest.mark.long
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


@pytest.mark.slow
def test_the_sweep_of_large_models(tmp_path: Path) -> None:
    spec = yaml.safe_load((EXAMPLE / "large_models.yaml").read_text())
    assert {(one["model"], one["machine.chips.count"]) for one in spec["points"]} == {
        (model, chips)
        for model in ("mixtral-8x7b", "qwen3-30b-a3b", "qwen3-235b-a22b", "deepseek-v3")
        for chips in (1, 8, 64)
    }
    np.save(tmp_path / "lengths.npy", np.random.default_rng(0).integers(1000, 4000, 64))
    small = spec | {
        "machine": str(EXAMPLE / spec["machine"]),
        "lengths": {"files": [str(tmp_path / "lengths.npy")]},
        "points": spec["points"][3:5],  # of the smallest model
    }
    assert run_sweep(small, tmp_path / "out").errors == {}
    names = ["cycles", "resource_kind", "resource_target", "bound_cycles"]
    alone, divided = read_runs(tmp_path / "out", names).to_pylist()
    # Those of the table in docs/parallel.md.
    assert (alone["cycles"], divided["cycles"]) == (1_347_984, 262_083)
    assert alone["resource_kind"] == divided["resource_kind"] == "hbm_bandwidth"
    assert alone["bound_cycles"] > 0.95 * alone["cycles"]
    assert divided["resource_target"].startswith("chip ")
    assert divided["bound_cycles"] < divided["cycles"] < alone["cycles"] / 4
