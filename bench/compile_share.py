"""How much of a compiler's space a search runs: ``python -m bench.compile_share [FOLDER] [JOBS]``.

All designs of the space are compiled and simulated once, into FOLDER if one is given, which takes
some minutes. Then each sampler is asked for designs, with ten seeds, until one is within 2 % of the
least cycles of all designs that fit the budgets.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.tune_share import BATCH, SEEDS
from stepsim.sweep import Place, Sampler, Space, make_proposals, open_table, read_designs, run_sweep

__all__ = ["GRID", "LANES", "MEMORY", "evaluations", "outcomes"]

GRID: dict[str, list[Any]] = {
    "tile": [4, 8, 16, 32, 64],
    "unroll": [16, 64, 128, 256, 512, 1024, 2048],
    "order": ["reductions_outermost", "reductions_innermost"],
    "vectors": ["tile", "narrow"],
    "budget": [0, 1_000, 10_000, 1_000_000],
}

MEMORY, LANES = 50_000, 1_500
"""Bytes on chip and FLOPs per cycle that designs may have."""

_WITHIN = 1.02

Outcome = tuple[float, bool] | None
"""Cycles of a design, and whether it fits the budgets; None for one that cannot be compiled."""


def outcomes(
    folder: Path, jobs: int = 1, grid: Mapping[str, list[Any]] = GRID
) -> dict[Place, Outcome]:
    """What comes of all designs of the space; the sweep is continued."""
    spec = {
        "workload": "compiled",
        "model": "gpt2-medium",
        "machine": "u55c",
        "parameters": {
            "phase": "decode", "context": 32, "hidden": 64, "inner": 256, "heads": 4,
            "kv_heads": 4, "head_dim": 16, "shrink": False,
        },
        "grid": dict(grid),
    }  # fmt: skip
    run_sweep(spec, folder, jobs=jobs, resume=True)
    space, designs = Space.of(grid), read_designs(folder)
    found: dict[Place, Outcome] = dict.fromkeys(space.places())
    columns = ["design", "status", "cycles", "onchip_bytes", "allocated_flops_per_cycle"]
    for row in open_table(folder).to_table(columns=columns).to_pylist():
        place = space.place(designs[row["design"]])
        if place is not None and row["status"] == "ok":
            fits = row["onchip_bytes"] <= MEMORY and row["allocated_flops_per_cycle"] <= LANES
            found[place] = float(row["cycles"]), fits
    return found


def evaluations(
    known: Mapping[Place, Outcome],
    sampler: Sampler,
    seeds: Sequence[int] = SEEDS,
    grid: Mapping[str, list[Any]] = GRID,
) -> list[int]:
    """Designs that a sampler proposes, by seed, until one is within 2 % of the best."""
    least = min(one[0] for one in known.values() if one is not None and one[1])
    return [_tried(Space.of(grid), known, least * _WITHIN, sampler, seed) for seed in seeds]


def _tried(
    space: Space, known: Mapping[Place, Outcome], wanted: float, sampler: Sampler, seed: int
) -> int:
    proposals = make_proposals(sampler, space, 1, seed=seed, batch=BATCH)
    tried = 0
    while True:
        for place in proposals.batch(BATCH):
            tried += 1
            found = known[place]
            if found is None:
                proposals.learn(place, None)
                continue
            cycles, fits = found
            if fits and cycles <= wanted:
                return tried
            proposals.learn(place, [cycles], allowed=fits)


def main() -> None:
    """Print a line for each sampler."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary) / "space"
        known = outcomes(folder, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    failed = sum(one is None for one in known.values())
    fitting = sorted(one[0] for one in known.values() if one is not None and one[1])
    near = sum(one <= fitting[0] * _WITHIN for one in fitting)
    print(
        f"{len(known)} designs: {failed} cannot be compiled, {len(fitting)} fit the budgets, "
        f"{near} are within 2 % of the best, {fitting[0]:,.0f} cycles"
    )
    samplers: tuple[Sampler, ...] = ("tpe", "nsga2", "random", "grid")
    for sampler in samplers:
        tried = evaluations(known, sampler)
        print(
            f"{sampler}: {statistics.median(tried) / len(known):.1%} of the designs (median of "
            f"{len(tried)} seeds), {min(tried) / len(known):.1%} to {max(tried) / len(known):.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
