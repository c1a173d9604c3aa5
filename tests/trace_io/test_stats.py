"""Load statistics: by hand, and on the recorded traces against their published numbers."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import pytest

from stepsim.errors import ArgError, TraceError
from stepsim.trace_io import RoutingCounter, RoutingTable, read_routing, routing_statistics


def test_by_hand():
    stats = routing_statistics(RoutingTable(np.array([[0, 1], [0, 2], [0, 1], [1, 0]])), 4)
    assert (stats.tokens, stats.k, stats.experts) == (4, 2, 4)
    assert stats.counts.tolist() == [4, 3, 1, 0]
    assert (stats.idle, stats.active, stats.max, stats.mean) == (1, 3, 4, 2.0)
    assert stats.imbalance == 2.0
    assert stats.std == pytest.approx(math.sqrt(10 / 4))
    assert stats.cv == pytest.approx(math.sqrt(10 / 4) / 2)
    assert [stats.tiles(tile) for tile in (1, 2, 3, 4, 100)] == [8, 5, 4, 3, 3]
    with pytest.raises(ArgError, match="tile is 0 rows"):
        stats.tiles(0)


def test_a_counter_takes_no_more_experts_than_it_can_count():
    table = RoutingTable(np.array([[0, 1], [65_536, 1]]), layer=2, first_token=7)
    where = "array: layer 2, step 0, token 8: expert id 65536 is out of range, expected"
    with pytest.raises(TraceError, match=rf"{where} 0\.\.65535 when .*; give --experts"):
        RoutingCounter().add(table)
    with pytest.raises(TraceError, match=rf"{where} 0\.\.7; check that the trace belongs"):
        RoutingCounter(8).add(table)
    for experts in (0, 2**20 + 1):
        with pytest.raises(ArgError, match=rf"experts is {experts}, expected 1\.\.1048576, since"):
            RoutingCounter(experts)
    counter = RoutingCounter(2**20)
    counter.add(table)
    assert counter.summary().idle == 2**20 - 3


def test_ids_are_checked():
    with pytest.raises(TraceError, match="expert id 3 is out of range"):
        routing_statistics(RoutingTable(np.array([[3]])), 3)


@dataclass(frozen=True)
class Published:
    """One recorded trace: its row of the table, its loads and tiles, as text."""

    shape: tuple[int, int]
    experts: int
    idle: int
    max: int
    std: str


PUBLISHED = {
    "expert_routing/mixtral_b1024/019_009.npz": Published((1024, 2), 8, 0, 414, "71.351"),
    "expert_routing/mixtral_b64/008_010.npz": Published((64, 2), 8, 0, 24, "5.000"),
    "expert_routing/qwen_b1024/022_016.npz": Published((1024, 8), 128, 45, 814, "134.994"),
    "expert_routing/qwen_b64/032_012.npz": Published((64, 8), 128, 68, 42, "7.360"),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_recorded_traces(recorded_traces, name):
    published = PUBLISHED[name]
    tokens, k = published.shape
    table = read_routing(recorded_traces / name, experts=published.experts, k=k, tokens=tokens)
    stats = routing_statistics(table, published.experts)
    assert (stats.idle, stats.max) == (published.idle, published.max)
    assert f"{stats.std:.3f}" == published.std
    assert stats.mean == tokens * k / published.experts
    assert stats.imbalance == published.max / stats.mean

    readme = (recorded_traces / "README.md").read_text()
    section = readme.split(f"### {name}\n")[1].split("\n#")[0]
    loads = re.search(r"^`([0-9 ]+)`$", section, re.MULTILINE).group(1)
    assert stats.counts.tolist() == [int(load) for load in loads.split()]
    tiles = re.findall(r"tN=(\d+): (\d+)", section)
    assert len(tiles) >= 4
    for tile, count in tiles:
        assert stats.tiles(int(tile)) == int(count)
    assert f"active experts: {stats.active}" in section
