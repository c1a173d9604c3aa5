"""Links between chips: routes lead where they should, with the numbers of one dimension."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from stepsim.errors import ArgError
from stepsim.machine import Chips
from stepsim.noc import ChipLinks, simulate_chips
from stepsim.noc.chips.messages import hops_of


def _chips(topology: Any, count: Any) -> Chips:
    return Chips(topology=topology, count=count, gib_per_s=50, latency_ns=500)


@pytest.mark.parametrize(
    ("topology", "count"),
    [
        ("ring", 3),
        ("ring", 6),
        ("switch", 4),
        ("fully-connected", 5),
        (("ring", "switch", "fully-connected"), (3, 2, 4)),
        (("switch", "ring"), (2, 5)),
        (("fully-connected", "ring", "switch"), (2, 1, 3)),
    ],
)
def test_routes_take_one_dimension_after_the_other(topology: Any, count: Any) -> None:
    links = ChipLinks(_chips(topology, count))
    dimensions = links.chips.dimensions
    assert len(set(zip(links.begin.tolist(), links.end.tolist(), strict=True))) == links.count
    for source, to in itertools.product(range(links.chips.total), repeat=2):
        path = links.path(source, to)
        here = source
        for link in path:
            assert links.begin[link] == here
            here = links.end[link]
        assert here == to
        taken = [int(links.dimension[link]) for link in path]
        assert taken == sorted(taken)
        a, b = source, to
        for number, one in enumerate(dimensions):
            ends = np.array([a % one.chips]), np.array([b % one.chips])
            a, b = a // one.chips, b // one.chips
            assert taken.count(number) == (hops_of(one, *ends)[0] if ends[0] != ends[1] else 0)


@pytest.mark.parametrize("topology", ["ring", "switch", "fully-connected"])
def test_links_are_those_of_messages(topology: str) -> None:
    chips = _chips(topology, 4)
    links = ChipLinks(chips)
    for source, to in itertools.permutations(range(4), 2):
        run = simulate_chips({"source": [source], "destination": [to], "bytes": [64]}, chips)
        rows = [row for row in run.links().to_pylist() if row["link_bytes"]]
        used = {(row["from_device"], row["to_device"]) for row in rows}
        path = links.path(source, to)
        assert {(links.begin[link], links.end[link]) for link in path} == used


def test_rates_are_those_of_the_clock() -> None:
    latency, rate = ChipLinks(_chips("ring", 3)).rates(2.0)
    assert set(latency.tolist()) == {1000.0}
    assert set(rate.tolist()) == {50 * 2**30 / 1e9 / 2}


def test_too_many_links_and_too_few_chips_are_refused() -> None:
    with pytest.raises(ArgError, match="4096 chips have 16773120 links, more than the 4194304"):
        ChipLinks(_chips("fully-connected", 4096))
    with pytest.raises(ArgError, match="topology 'ring' joins 3 chips or more, found 2"):
        ChipLinks(_chips(("ring", "switch"), (2, 2)))
