"""Methods to size FIFOs in one table."""

from __future__ import annotations

from collections import Counter

from stepsim.sizing.baselines import BASELINES, baseline_table
from stepsim.sizing.network_search import Search
from tests.sizing.drawn_networks import rate_networks

SAFE = {"all T", "peak", "greedy", "random", "annealing", "lp + repair", "lp + repair + shrink"}
"""Methods that keep the speed of every network."""


def test_what_each_method_keeps_and_costs() -> None:
    slots: Counter[str] = Counter()
    deadlocks: Counter[str] = Counter()
    least = 0
    for network in rate_networks(11, 40):
        rows = {row.method: row for row in baseline_table(network, runs=60)}
        assert list(rows) == list(BASELINES)
        for name, row in rows.items():
            assert row.slots == sum(row.depths)
            assert row.bits == sum(
                d * f.bits for d, f in zip(row.depths, network.fifos, strict=True)
            )
            slots[name] += row.slots
            deadlocks[name] += row.makespan is None
            if name in SAFE:
                assert row.makespan == network.unbounded.makespan
        assert rows["all T"].runs == rows["all 2"].runs == rows["lp effective"].runs == 0
        assert rows["peak"].runs == 1
        assert rows["random"].runs <= 60
        least += sum(Search(network).least().depths)
    assert slots["lp + repair + shrink"] <= 1.05 * least
    for worse in ("all T", "peak", "random", "annealing"):
        assert slots["lp + repair + shrink"] < slots[worse]
    assert slots["lp + repair"] < 0.5 * slots["all T"]
    assert deadlocks["all 2"] > 5
    assert deadlocks["lp effective"] == 0


def test_the_seed_decides_what_is_random() -> None:
    (network,) = rate_networks(12, 1)
    tables = [baseline_table(network, ("random", "annealing"), seed=seed) for seed in (1, 1, 2)]
    assert tables[0] == tables[1]
    assert {row.method for row in tables[2]} == {"random", "annealing"}
