"""Decode layers of large models on 1 to 64 chips: how they scale, and what bounds each point.

    python examples/scaling/large_models.py

A point is one layer with experts for a batch of 64 requests with 1,000 to 4,000 cached tokens each.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from math import prod

import numpy as np

import stepsim as st

MACHINE = {
    "clock_ghz": 1, "onchip.bytes_per_cycle": 1024, "chips.topology": "fully-connected",
    "chips.gib_per_s": 50, "chips.latency_ns": 500,
}  # fmt: skip
"""Beside sda-1024, whose memory moves 1 TB/s at this clock: links to every other chip."""

POINTS: Mapping[str, tuple[dict[str, int], ...]] = {
    "mixtral-8x7b": ({}, {"tp": 8}, {"tp": 8, "dp": 8, "ep": 8}),
    "qwen3-30b-a3b": ({}, {"tp": 4, "dp": 2, "ep": 8}, {"tp": 4, "dp": 16, "ep": 64}),
    "qwen3-235b-a22b": ({}, {"tp": 4, "dp": 2, "ep": 8}, {"tp": 4, "dp": 16, "ep": 64}),
    "deepseek-v3": ({}, {"dp": 8, "ep": 8}, {"dp": 64, "ep": 64}),
}
BANDWIDTHS = {"qkv_bw": 1 << 18, "attention_bw": 1 << 17, "moe_bw": 1 << 15}
"""FLOPs per cycle of each matrix product, and of each operator of attention and of an expert."""

BATCH = 64
_CACHE = ("load_key", "load_value", "store_key", "store_value")


def point(model: str, split: Mapping[str, int]) -> dict[str, object]:
    """A layer on the chips of a split: its time, and the time of each resource alone.

    Times are in cycles: of weights and of the KV cache at the peak bandwidth of the memory of the
    chip that moves most; of the requests of the busiest load, one a cycle; of the busiest operator;
    and of the busiest link.
    """
    shape = st.workloads.Model.parse(model).moe
    routing = st.traces.synthetic_routing(BATCH, experts=shape.experts, k=shape.active, seed=0)
    lengths = np.random.default_rng(0).integers(1000, 4000, BATCH)
    data = st.workloads.Data.of(routing=routing.experts, kv_lengths=lengths)
    chips = prod(split.get(name, 1) for name in ("tp", "dp", "pp"))
    regions = min(8, max(1, 32 // chips))
    workload = st.workloads.Step.of(
        model=model, kv_tile=128, attention_regions=regions, **BANDWIDTHS, **split
    )
    machine = st.load_machine("sda-1024", MACHINE | {"chips.count": chips})
    built = workload.build_for(data, machine)
    result = st.simulate(built.program, machine, bindings=built.bindings(data))
    weights, cache = Counter[int](), Counter[int]()
    units = result.units.to_pylist()
    for unit in units:
        name, chip = unit["name"].split(".")[0], unit.get("chip", 0)
        (cache if name in _CACHE else weights)[chip] += unit["offchip_bytes"]
    every = [weights[chip] + cache[chip] for chip in range(chips)]
    links = result.links().to_pylist() if chips > 1 else []
    peak = machine.peak_bandwidth
    times = {
        "weights": round(max(weights.values()) / peak),
        "KV cache": round(max(cache.values()) / peak),
        "one load": max(unit["requests"] for unit in units),
        "operator": max(unit["busy"] for unit in units if not unit["requests"]),
        "link": max((link["link_busy_cycles"] for link in links), default=0),
    }
    return {
        "model": model, "chips": chips,
        "split": " ".join(f"{name} {value}" for name, value in split.items()) or "-",
        "cycles": result.cycles, **times, "imbalance": max(every) * chips / sum(every),
        "bound": bound(result.cycles, times),
    }  # fmt: skip


def bound(cycles: int, times: Mapping[str, int]) -> str:
    """The resource that needs most of the time alone; stages that wait for each other, if none
    needs half of it."""
    largest = max(times, key=lambda name: times[name])
    return largest if times[largest] > cycles / 2 else f"stages, then {largest}"


def table(points: Mapping[str, tuple[dict[str, int], ...]] = POINTS) -> str:
    """The table of all points, as Markdown."""
    head = ("model", "chips", "split", "cycles", "speed-up", "weights", "KV cache", "one load",
            "operator", "link", "imbalance", "bound")  # fmt: skip
    lines = [head, ["---" if name in ("model", "split", "bound") else "---:" for name in head]]
    for model, splits in points.items():
        made = [point(model, split) for split in splits]
        for one in made:
            shown = one | {
                "speed-up": f"{made[0]['cycles'] / one['cycles']:.1f}",
                "imbalance": f"{one['imbalance']:.2f}",
            }
            lines.append([f"{x:,}" if isinstance(x := shown[key], int) else x for key in head])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n")
