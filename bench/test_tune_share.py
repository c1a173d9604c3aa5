"""How much of a space a search runs until it has found the whole front; a minute of searches."""

from __future__ import annotations

from pathlib import Path

from bench.tune_share import GRID, SEEDS, outcomes, share
from tests.shared import TRACES, needs_traces


@needs_traces
def test_a_quarter_of_the_published_qwen_space_holds_its_front(tmp_path: Path) -> None:
    routing = TRACES / "expert_routing" / "qwen_b64" / "032_012.npz"
    # Of one FIFO depth: `python -m bench.tune_share` takes all three, in which it is easier.
    grid = {**GRID, "fifo_depth": [2]}
    costs = outcomes(routing, tmp_path, grid, "cycles", "onchip_bytes")
    nsga2, tpe, chance = (share(costs, name, SEEDS, grid) for name in ("nsga2", "tpe", "random"))
    table = f"{nsga2}\n{tpe}\n{chance}"
    assert (len(costs), nsga2.front) == (400, 6)
    assert nsga2.median <= 0.25, table
    assert tpe.median <= 0.25, table
    assert chance.median > 0.5, table
