"""Decoder layers of dense models in a sweep: no routing is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepsim.errors import SweepError
from stepsim.simulation import make_case
from stepsim.sweep import open_table, plan_sweep, run_sweep
from stepsim.sweep.analysis import design_costs
from stepsim.workloads import Data

DENSE = {
    "name": "dense", "model_dim": 64, "dense": {"inner_dim": 64},
    "attention": {"heads": 4, "kv_heads": 2, "head_dim": 16},
}  # fmt: skip
EXPERTS = {**DENSE, "name": "moe", "experts": {"count": 4, "active": 2, "inner_dim": 64}}
LENGTHS = np.array([5, 0, 40, 31, 32, 63, 64, 7])


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    np.save(tmp_path / "kv.npy", LENGTHS)
    return {
        "workload": "decoder",
        "model": DENSE,
        "lengths": {"files": [str(tmp_path / "kv.npy")], "tokens": 4, "windows": "all"},
        "parameters": {"tile_inter": 32, "strategy": "interleaved"},
        "grid": {"tile": [2, "dynamic"]},
    }


def rows_of(spec: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    assert run_sweep(spec, folder).failures == 0
    rows = open_table(folder).to_table().to_pylist()
    return sorted(rows, key=lambda row: (row["tile"], row["lengths_window"]))


@pytest.mark.slow
def test_rows_are_those_of_single_runs(given: dict[str, Any], tmp_path: Path) -> None:
    rows = rows_of(given, tmp_path / "out")
    assert [(row["tile"], row["lengths_window"]) for row in rows] == [
        ("2", 0), ("2", 1), ("dynamic", 0), ("dynamic", 1),
    ]  # fmt: skip
    for row in rows:
        first = 4 * row["lengths_window"]
        data = Data.of(kv_lengths=LENGTHS[first : first + 4])
        tile = row["tile"] if row["tile"] == "dynamic" else int(row["tile"])
        case = make_case("decoder", data, model=DENSE, tile=tile, **given["parameters"])
        single = case.describe(data) | case.measures(case.run(data), data)
        names = ("cycles", "flops", "offchip_bytes", "onchip_bytes", "padded_flops", "batch")
        names += ("active_experts", "max_load")
        assert {name: row[name] for name in names} == {name: single[name] for name in names}
        assert (row["active_experts"], row["max_load"]) == (1, 4)
        assert (row["trace"], row["trace_id"], row["lengths"]) == (None, None, "kv.npy")
    assert design_costs(tmp_path / "out", "cycles", "onchip_bytes").traces == 2


@pytest.mark.slow
def test_a_given_routing_is_the_same(given: dict[str, Any], tmp_path: Path) -> None:
    np.save(tmp_path / "routing.npy", np.zeros((8, 1), dtype=int))
    files = {"files": [str(tmp_path / "routing.npy")], "tokens": 4, "windows": [0]}
    routed = rows_of({**given, "traces": files}, tmp_path / "routed")
    alone = rows_of(given, tmp_path / "alone")
    for one, other in zip(routed, alone, strict=True):
        assert (one["cycles"], one["lengths_id"]) == (other["cycles"], other["lengths_id"])
        assert one["trace"] == "routing.npy"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model": EXPERTS}, "traces: missing; workload decoder needs files or synthetic ones"),
        ({"lengths": None}, "lengths: missing; workload decoder needs files of cache lengths"),
        ({"pairs": "step"}, "pairs: there are no traces to pair lengths with; give traces, or"),
        ({"grid": {"tile": [0]}}, "tile: expected a whole number from 1, or 'dynamic', found 0"),
    ],
)
def test_what_is_missing_is_reported(
    given: dict[str, Any], changes: dict[str, Any], expected: str
) -> None:
    with pytest.raises(SweepError) as caught:
        plan_sweep({**given, **changes})
    assert expected in str(caught.value)
    assert ("traces: missing" in str(caught.value)) == expected.startswith("traces: missing")


def test_a_batch_that_does_not_fit_is_named(given: dict[str, Any]) -> None:
    changed = {**given, "parameters": {**given["parameters"], "max_length": 33}}
    with pytest.raises(SweepError) as caught:
        plan_sweep(changed)
    assert "max_length: expected a multiple of the KV tile of 32 that holds" in str(caught.value)
