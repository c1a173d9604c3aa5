"""Methods to size FIFOs in one table."""

from __future__ import annotations

from collections import Counter

import pytest

import stepsim as st
from stepsim.errors import ArgError
from stepsim.reproduce import fifo_table
from stepsim.reproduce.streamtensor.sizing_methods import METHODS, method_table, network_task
from tests.design.search.small import SIZES
from tests.sizing.drawn_networks import rate_networks

SAFE = {"all T", "peak", "greedy", "random", "annealing", "lp + repair", "lp + repair + shrink"}
"""Methods that keep the speed of every network."""


@pytest.mark.slow
def test_what_each_method_keeps_and_costs() -> None:
    slots: Counter[str] = Counter()
    deadlocks: Counter[str] = Counter()
    for network in rate_networks(11, 40):
        rows = {row.method: row for row in method_table(network_task(network), runs=60)}
        assert list(rows) == list(METHODS)
        for name, row in rows.items():
            slots[name] += row.slots
            deadlocks[name] += row.status == "deadlock"
            if name in SAFE:
                assert (row.cycles, row.slowdown) == (network.cycles, 0.0)
        assert rows["all T"].runs == rows["all 2"].runs == rows["lp effective"].runs == 0
        assert rows["peak"].runs == 1
        assert rows["random"].runs <= 60
        least = network_task(network).solved(10_000)
        assert least.proved
        slots["least"] += int(least.depths.sum())
    assert slots["lp + repair + shrink"] <= 1.05 * slots["least"]
    for worse in ("all T", "peak", "random", "annealing"):
        assert slots["lp + repair + shrink"] < slots[worse]
    assert slots["lp + repair"] < 0.5 * slots["all T"]
    assert deadlocks["all 2"] > 5
    assert deadlocks["lp effective"] == 0


def test_the_seed_decides_what_is_random() -> None:
    (network,) = rate_networks(12, 1)
    task, random = network_task(network), ("random", "annealing")
    tables = [method_table(task, random, seed=seed) for seed in (1, 1, 2)]
    assert tables[0] == tables[1]
    assert {row.method for row in tables[2]} == set(random)


@pytest.mark.slow
def test_baselines_of_a_compiled_model_stand_in_one_table() -> None:
    compiled = st.compile("gpt2-medium", phase="prefill", **SIZES)
    rows = {row.method: row for row in fifo_table(compiled, runs=40)}
    assert list(rows) == [name for name in METHODS if name != "path lp"]
    assert rows["all 2"].status == "deadlock"
    assert rows["all T"].slowdown == 0
    ours = rows["lp + repair + shrink"]
    assert ours.slowdown is not None
    assert ours.slowdown <= 0.005
    assert ours.bytes < rows["peak"].bytes < rows["all T"].bytes


def test_methods_that_are_not_there_are_refused() -> None:
    (network,) = rate_networks(12, 1)
    with pytest.raises(ArgError, match="no method 'greedi'; did you mean 'greedy'"):
        method_table(network_task(network), ["greedi"])
