"""How much of a known space of compiled designs a search runs; minutes of compiling 560 designs."""

from __future__ import annotations

import statistics
from pathlib import Path

from bench.compile_share import SEEDS, evaluations, outcomes


def test_a_fifth_of_the_space_holds_its_best(tmp_path: Path) -> None:
    known = outcomes(tmp_path)
    assert len(known) == 560
    assert sum(one is None for one in known.values()) == 80
    for sampler in ("tpe", "nsga2"):
        tried = evaluations(known, sampler, SEEDS)
        assert statistics.median(tried) <= 0.2 * len(known), (sampler, tried)
