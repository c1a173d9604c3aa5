"""How good the levels are, on docs/ensembles.md, is what ensembles of the ten tilings give."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stepsim as st
from tests.pages import DOCS
from tests.simulation.test_hdl_ladder import tilings

PAGE = (DOCS / "ensembles.md").read_text(encoding="utf-8")
VALIDATION = (DOCS / "validation.md").read_text(encoding="utf-8")


def tile(**bounds: Any) -> Callable[[st.Program], Any]:
    return lambda program: st.ensemble(
        program, "hdl-arbiter", runs=32, seed=0, bounds=bounds.get("bounds")
    )


def hardware(**bounds: Any) -> Callable[[st.Program], Any]:
    return lambda program: st.hardware.ensemble(
        program, "hdl", runs=32, seed=0, bounds=bounds.get("bounds")
    )


WITHOUT_DEPTHS = {"dram.read_queue": 0, "dram.write_queue": 0, "fifo_depth": 0}
ROWS = {
    "| tile, `hdl-arbiter` | by default: latency, first port, depths": tile(),
    "| | latency and first port": tile(bounds={"fifo.depth": 0}),
    "| | bases as well, by 0 to 3 requests": tile(bounds={"hbm.bases": (0, 3)}),
    "| hardware, `hdl` | by default": hardware(),
    "| | first port and latency": hardware(bounds=WITHOUT_DEPTHS),
}


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_table(row: str) -> None:
    errors, spreads = [], []
    for program, cycles in tilings():
        found = ROWS[row](program)
        errors.append(100 * (found.median / cycles - 1))
        spreads.append(100 * found.spread)
    sizes = np.abs(errors)
    assert (
        f"{row} | {sizes.mean():.1f} | {sizes.max():.1f} | {np.mean(errors):+.1f} | "
        f"{min(spreads):.0f} to {max(spreads):.0f} |\n"
    ) in PAGE


def test_the_noise_of_the_design_is_that_of_the_validation() -> None:
    noise = re.search(
        r"recorded counts by ([\d.]+ %) on average and by up to ([\d.]+ %)", VALIDATION
    )
    assert noise is not None
    assert f"by {noise[1]} on average and by up to {noise[2]} " in PAGE
    apart = re.search(r"tensors 1 MiB apart \| `hdl` \| ([\d.]+) ", VALIDATION)
    assert apart is not None
    assert f"({apart[1]} % slower where they are 1\nMiB apart)" in PAGE
    alone = re.search(r"\| hardware, `hdl` \| by default \| ([\d.]+) \|", PAGE)
    assert alone is not None
    assert f"its count to {alone[1]} % on average" in PAGE
