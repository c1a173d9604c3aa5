"""How much of a space a search runs: ``python -m bench.tune_share [--three] [FOLDER]``.

All designs of the space are simulated once, into FOLDER if one is given, which takes about a
minute. Then each sampler is asked for designs, with ten seeds, until it has proposed the whole
Pareto front: by cycles and on-chip memory, with ``--three`` by channels too. The routing is that of
STEPSIM_SHARED.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepsim.sweep import (
    Place,
    Sampler,
    Space,
    frontier,
    make_proposals,
    open_table,
    read_designs,
    run_sweep,
)

__all__ = ["GRID", "TILES", "Share", "outcomes", "share"]

SEEDS = range(10)
BATCH = 8
TILES: list[Any] = [8, 16, 32, 64, "dynamic"]
"""Of figure 9."""

GRID: dict[str, list[Any]] = {
    "tile": TILES,
    "regions": [8, 16, 32, 64, 128],
    "tile_inter": [32, 64, 128, 256],
    "fifo_depth": [2, 8, 32],
    "machine.hbm.channels": [8, 16, 32, 64],
}
"""Tiles and regions of figures 9 and 12, and what they leave at one value."""

Costs = tuple[float, ...]


@dataclass(frozen=True)
class Share:
    """Runs until the whole front was found, as shares of the space, by seed."""

    sampler: str
    front: int
    shares: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.shares)

    def __str__(self) -> str:
        return (
            f"{self.sampler}: the {self.front} points of the front after {self.median:.1%} of the "
            f"runs (median), {min(self.shares):.1%} to {max(self.shares):.1%}"
        )


def outcomes(
    routing: Path, folder: Path, grid: Mapping[str, list[Any]], *objectives: str
) -> dict[Place, Costs | None]:
    """Costs of all designs of a space, None for those that failed; the sweep is continued."""
    spec = {
        "workload": "moe",
        "model": "qwen3-30b-a3b",
        "traces": {"files": [str(routing)]},
        "grid": dict(grid),
    }
    run_sweep(spec, folder, resume=True)
    space, designs = Space.of(grid), read_designs(folder)
    found: dict[Place, Costs | None] = dict.fromkeys(space.places())
    wanted = [name for name in objectives if name not in grid]
    for row in open_table(folder).to_table(columns=["design", "status", *wanted]).to_pylist():
        design = designs[row["design"]]
        place = space.place(design)
        if place is not None and row["status"] == "ok":
            found[place] = tuple({**row, **design}[name] for name in objectives)
    return found


def share(
    costs: Mapping[Place, Costs | None],
    sampler: Sampler,
    seeds: Sequence[int],
    grid: Mapping[str, list[Any]] = GRID,
) -> Share:
    """How many designs a sampler proposes until the front is complete."""
    known = [one for one in costs.values() if one is not None]
    front = {known[i] for i in frontier(known)}
    space = Space.of(grid)
    return Share(sampler, len(front), tuple(_tried(space, costs, front, sampler, s) for s in seeds))


def _tried(
    space: Space,
    costs: Mapping[Place, Costs | None],
    front: set[Costs],
    sampler: Sampler,
    seed: int,
) -> float:
    objectives = len(next(iter(front)))
    proposals = make_proposals(sampler, space, objectives, seed=seed, batch=BATCH)
    missing, tried = set(front), 0
    while missing:
        for place in proposals.batch(BATCH):
            tried += 1
            found = costs[place]
            proposals.learn(place, found)
            if found is not None:
                missing.discard(found)
    return tried / space.count


def main() -> None:
    """Print a line for each sampler, and the front of the published tiles alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--three", action="store_true")
    parser.add_argument("folder", nargs="?", type=Path)
    given = parser.parse_args()
    shared = Path(os.environ["STEPSIM_SHARED"], "data", "traces")
    routing = shared / "expert_routing" / "qwen_b64" / "032_012.npz"
    objectives = ["cycles", "onchip_bytes"] + ["machine.hbm.channels"] * given.three
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        tiles = outcomes(routing, folder / "tiles", {"tile": TILES}, *objectives[:2])
        known = {place[0]: one for place, one in tiles.items() if one is not None}
        best = [list(known)[i] for i in frontier(list(known.values()))]
        print(f"front of the tiles alone: {[TILES[at] for at in best]} of {TILES}")
        costs = outcomes(routing, folder / "space", GRID, *objectives)
        samplers: tuple[Sampler, ...] = ("nsga2", "tpe", "random")
        for sampler in samplers:
            print(share(costs, sampler, SEEDS), flush=True)


if __name__ == "__main__":
    main()
