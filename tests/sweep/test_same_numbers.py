"""A column of one name has one value, whether a run stands alone, in a sweep, or in Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from stepsim.cli.main import main
from stepsim.simulation.cases.case import make_case
from stepsim.sweep import open_table, run_sweep
from stepsim.trace_io import synthetic_routing
from stepsim.workloads import Data

LENGTHS = np.array([5, 40, 0, 33])
ROUTING = {"mixtral-8x7b": (8, 2), "qwen3-30b-a3b": (128, 8)}
OWN = {"run", "point", "design", "versions", "workload_digest"}
"""Columns that only rows of sweeps have."""

CASES: list[tuple[str, dict[str, Any], str | None]] = [
    ("moe", {"model": "qwen3-30b-a3b", "tile": 8, "tile_inter": 48, "fifo_depth": 5}, None),
    ("moe", {"model": "mixtral-8x7b", "tile": "dynamic"}, "published"),
    ("moe", {"model": "qwen3-30b-a3b", "tile": 8, "regions": 32}, "published"),
    ("attention", {"model": "qwen3-30b-a3b", "strategy": "coarse", "regions": 2}, None),
    ("attention", {"model": "qwen3-30b-a3b", "strategy": "dynamic"}, "published"),
    (
        "swiglu",
        {"batch": 8, "hidden": 16, "intermediate": 32, "tile": 4, "tile_inter": 8},
        None,
    ),
    ("swiglu", {"tile": 16, "tile_inter": 64}, "published"),
    ("decoder", {"model": "mixtral-8x7b", "variant": "memory-matched"}, "published"),
    ("decoder", {"model": "mixtral-8x7b", "tile": 4, "strategy": "dynamic"}, None),
]


def as_text(value: Any) -> str:
    """What is nested in JSON is text in tables, and so are heights of tiles."""
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else str(value)


ONE_OF_EACH = [CASES[number] for number in (1, 3, 5, 7)]
"""Each workload, with a configuration and without."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "given", "config"),
    [pytest.param(*case, marks=() if case in ONE_OF_EACH else pytest.mark.slow) for case in CASES],
)
def test_run_sweep_and_python_agree(
    workload: str,
    given: dict[str, Any],
    config: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = {"routing": "routing.npy", "kv_lengths": "lengths.npy"}
    if workload in ("moe", "decoder"):
        drawn = synthetic_routing(4, *ROUTING[given["model"]], seed=1)
        np.save(tmp_path / "routing.npy", drawn.experts)
    if workload in ("attention", "decoder"):
        np.save(tmp_path / "lengths.npy", LENGTHS)
    arrays = {n: tmp_path / f for n, f in files.items() if (tmp_path / f).exists()}
    machine = "sda-hdl" if workload == "swiglu" and config else "sda-1024"
    keys = ["traces", "lengths"][: len(arrays)]
    spec = {
        "workload": workload,
        "machine": machine,
        "parameters": {**given, **({"config": config} if config else {})},
        **{key: {"files": [str(file)]} for key, file in zip(keys, arrays.values(), strict=True)},
    }
    assert run_sweep(spec, tmp_path / "out").failures == 0
    (row,) = open_table(tmp_path / "out").to_table().to_pylist()

    # --config of a sweep stands among the parameters, of a command it is an option of its own.
    out = tmp_path / "run.parquet"
    options = {**given, **arrays, **({"config": config} if config else {}), "out": out}
    texts = [text for k, v in options.items() for text in ("--" + k.replace("_", "-"), str(v))]
    with pytest.raises(SystemExit, match="0"):
        main(["run", workload, *texts, "--json"])
    printed = json.loads(capsys.readouterr().out)
    (alone,) = pq.read_table(out).to_pylist()
    shared = row.keys() & alone.keys()
    assert {name for name in row.keys() - shared if row[name] is not None} <= OWN
    assert {name: row[name] for name in shared} == {name: alone[name] for name in shared}
    types = {field.name: field.type for field in pq.read_schema(out)}
    for field in open_table(tmp_path / "out").schema:
        if field.name in shared and row[field.name] is not None:
            assert field.type == types[field.name], field.name
            assert as_text(row[field.name]) == as_text(printed[field.name])

    fed = {name: np.load(file) for name, file in arrays.items()}
    data = Data.of(**fed)
    case = make_case(workload, data, machine=machine, config=config, **given)
    result = case.result(data)
    assert {**case.measures(result, data), "status": result.status}.items() <= row.items()
    if case.counting == "executed":
        assert (row["flops"], row["offchip_bytes"]) == (result.flops, result.offchip_bytes)
