"""The example of a workload that makes steps with a chunk of a prompt, in a sweep."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from stepsim.simulation import make_case
from stepsim.sweep import read_runs, run_sweep
from stepsim.trace_io import synthetic_routing
from stepsim.workloads import Data

EXAMPLE = Path(__file__).parents[2] / "examples" / "serving" / "chunk.yaml"


@pytest.mark.long
def test_runs_are_steps_with_a_chunk(tmp_path: Path) -> None:
    spec = yaml.safe_load(EXAMPLE.read_text())
    spec["workload"] = f"{EXAMPLE.with_name('chunk.py')}:Chunk"
    spec["grid"] = {"decoding": [4, 12], "tile": [8, None]}
    spec["traces"] = {"synthetic": {"tokens": 20, "layers": 1, "steps": 1, "seed": 1}}
    run_sweep(spec, tmp_path / "out")
    rows = read_runs(tmp_path / "out", ["decoding", "tile", "cycles"]).to_pylist()
    assert len(rows) == 4
    routing = synthetic_routing(20, experts=128, k=8, seed=1, layer=0, step=0).experts
    for row in rows:
        decoding = row["decoding"]
        data = Data.of(
            routing=routing, kv_lengths=[0] + [1200] * decoding,
            new_tokens=[20 - decoding] + [1] * decoding,
        )  # fmt: skip
        case = make_case("step", data, model="qwen3-30b-a3b", tile=row["tile"] or "dynamic")
        assert row["cycles"] == case.run(data).cycles
