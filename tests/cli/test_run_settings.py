"""Which value of a parameter holds: given, of the machine, published, or the default."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepsim.machine import load_machine
from stepsim.workloads import Data, resolve
from stepsim.workloads.loading import find_workload

QWEN, MIXTRAL = "qwen3-30b-a3b", "mixtral-8x7b"
DEEP = {"fifo.depth": 7}
STATIC = {"tile_inter": 64, "compute_bw": 4096, "pack_bw": 4096, "fifo_depth": 2}
LAYER = ("tile", "tile_inter", "strategy", "expert_regions", "attention")
COARSE = {"model": QWEN, "strategy": "coarse"}

Case = tuple[str, dict[str, Any], dict[str, Any]]
"""Workload; what is given, where batch, machine and config are none of its parameters; what holds.
"""

CASES: dict[str, Case] = {
    "defaults": ("moe", {"model": QWEN, "tile": 32}, STATIC),
    "static as published": ("moe", {"model": QWEN, "tile": 32, "config": "published"}, STATIC),
    "dynamic as published": (
        "moe",
        {"model": QWEN, "tile": "dynamic", "config": "published"},
        {"tile_inter": 64, "compute_bw": 6400, "pack_bw": 1024, "fifo_depth": 2},
    ),
    "large batch as published": (
        "moe",
        {"model": QWEN, "tile": 32, "config": "published", "batch": 1024},
        {**STATIC, "fifo_depth": 1024},
    ),
    "options win": (
        "moe",
        {
            "model": QWEN, "tile": "dynamic", "config": "published", "tile_inter": 48,
            "compute_bw": 512, "fifo_depth": 3,
        },
        {"tile_inter": 48, "compute_bw": 512, "pack_bw": 1024, "fifo_depth": 3},
    ),
    "options win with regions": (
        "moe",
        {"model": QWEN, "tile": 4, "regions": 16, "config": "published", "tile_inter": 64},
        {"tile_inter": 64, "compute_bw": 1024, "pack_bw": 1024, "fifo_depth": 2},
    ),
    "the machine wins over the configuration": (
        "moe",
        {"model": QWEN, "tile": 32, "config": "published", "machine": DEEP},
        {**STATIC, "fifo_depth": 7},
    ),
    "an option wins over the machine": (
        "moe",
        {"model": QWEN, "tile": 32, "fifo_depth": 5, "machine": DEEP},
        {**STATIC, "fifo_depth": 5},
    ),
    "attention as published": (
        "attention",
        {**COARSE, "config": "published", "batch": 16},
        {"regions": 4, "compute_bw": 2048, "fifo_depth": 1, "max_length": 4672},
    ),
    "attention on a machine with a depth": (
        "attention",
        {**COARSE, "config": "published", "batch": 16, "machine": DEEP},
        {"fifo_depth": 7, "max_length": 4672},
    ),
    "options of attention win": (
        "attention",
        {
            **COARSE, "config": "published", "batch": 16, "machine": DEEP, "regions": 2,
            "compute_bw": 64, "fifo_depth": 3, "max_length": 64,
        },
        {"regions": 2, "compute_bw": 64, "fifo_depth": 3, "max_length": 64},
    ),
    "options of a decoder win": (
        "decoder",
        {
            "model": QWEN, "variant": "dynamic", "tile": 16, "tile_inter": 64, "machine": DEEP,
            "strategy": "interleaved", "expert_regions": 16, "fifo_depth": 4,
        },
        {"tile": 16, "tile_inter": 64, "strategy": "interleaved", "expert_regions": 16,
         "fifo_depth": 4},
    ),
    **{
        f"{model} {variant}": (
            "decoder",
            {"model": model, "variant": variant, "config": "published"},
            dict(zip(LAYER, (tile, inner, strategy, regions, heads), strict=True)),
        )
        for model, variant, tile, inner, strategy, regions, heads in (
            (MIXTRAL, "memory-matched", 16, 64, "interleaved", None, MIXTRAL),
            (MIXTRAL, "performance-matched", 32, 64, "interleaved", None, MIXTRAL),
            (MIXTRAL, "dynamic", "dynamic", 64, "dynamic", None, MIXTRAL),
            (QWEN, "memory-matched", 8, 48, "interleaved", None, QWEN + "-step"),
            (QWEN, "performance-matched", 64, 48, "interleaved", None, QWEN + "-step"),
            (QWEN, "dynamic", "dynamic", 48, "dynamic", 32, QWEN + "-step"),
        )
    },
    "swiglu": (
        "swiglu",
        {"tile": 16, "tile_inter": 16, "config": "published", "hidden": 128, "machine": DEEP},
        {"batch": 64, "hidden": 128, "intermediate": 512, "fifo_depth": 7},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("workload", "given", "expected"), CASES.values(), ids=CASES)
def test_settings(workload: str, given: dict[str, Any], expected: dict[str, Any]) -> None:
    given = dict(given)
    machine = load_machine("sda-1024", given.pop("machine", None))
    data = [Data.of(kv_lengths=np.zeros(given.pop("batch", 64), dtype=int))]
    config = given.pop("config", None)
    kind = find_workload(workload).load()
    found = resolve(kind, given, machine=machine, config=config, data=data)
    values = found.workload.values()
    named = {name: getattr(values[name], "name", values[name]) for name in expected}
    assert named == expected
    origins = {name: found.origins[name] for name in expected}
    assert all(origins[name] == "given" for name in expected.keys() & given.keys())
    assert origins.get("fifo_depth") != "default" or expected["fifo_depth"] != 7
