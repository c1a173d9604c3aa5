"""Networks whose times are known without a simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.noc import Topology

_SHAPES: dict[str, dict[str, Any]] = {
    "mesh": {"rows": 3, "cols": 5},
    "torus": {"rows": 4, "cols": 5},
    "ring": {"cols": 7},
    "switch": {"cols": 5},
}
_LISTED = {"name": "l", "topology": "links", "cols": 4, "links": "0-1 1-2 2>3 3>0", "flits": {}}


def _networks() -> list[Any]:
    named = [st.noc.load_network(name, shape) for name, shape in _SHAPES.items()]
    return [*named, st.machine.Network(**_LISTED), *map(st.noc.load_network, ("wormhole",))]


def _pairs(places: int) -> tuple[Any, Any]:
    source, to = np.divmod(np.arange(places * places), places)
    return source, to


def _hops(network: Any, source: int, to: int) -> int:
    """Distance by the definition of the topology, not by a route."""
    if network.topology == "switch":
        return 0 if source == to else 2
    if network.topology == "links":
        known = {(0, 3): 3, (1, 3): 2, (2, 0): 2, (3, 1): 2, (0, 2): 2, (3, 2): 3}
        return 0 if source == to else known.get((source, to), 1)
    (row, col), (to_row, to_col) = divmod(source, network.cols), divmod(to, network.cols)
    down, right = abs(to_row - row), abs(to_col - col)
    if network.topology != "mesh":
        down, right = min(down, network.rows - down), min(right, network.cols - right)
    return down + right


@pytest.mark.parametrize("network", _networks()[:-1], ids=lambda one: one.name)
@pytest.mark.parametrize("flits", [1, 4, 23])
def test_every_pair_takes_the_zero_load_latency(network: Any, flits: int) -> None:
    source, to = _pairs(network.places)
    # So far apart in time that none meets another.
    time = np.arange(len(source)) * 1000
    run = st.noc.simulate(
        {"time": time, "source": source, "destination": to, "flits": np.full(len(source), flits)},
        network,
    )
    hops = [_hops(network, a, b) + 1 for a, b in zip(source.tolist(), to.tolist(), strict=True)]
    assert run.routes.links.tolist() == [one - 1 for one in hops]
    assert np.array_equal(run.arrival - time, 2 + 5 * np.array(hops) + flits - 1)
    assert not run.contention.any()
    assert run.waited is not None
    assert not run.waited.any()


@pytest.mark.parametrize("back", [0, 1])
def test_one_way_tori_go_one_way(back: int) -> None:
    network = st.noc.load_network("wormhole")
    source, to = _pairs(network.places)
    routes = Topology(network).routes(source, to, np.full(len(source), back))
    row, col = np.divmod(source, 10)
    to_row, to_col = np.divmod(to, 10)
    down, right = (to_row - row) % 12, (to_col - col) % 10
    expected = (-down % 12) + (-right % 10) if back else down + right
    assert np.array_equal(routes.links, expected)
    links = routes.path[routes.path < Topology(network).link_count]
    assert set((links % 4).tolist()) == ({2, 3} if back else {0, 1})


@pytest.mark.parametrize("network", _networks(), ids=lambda one: one.name)
def test_routes_are_connected(network: Any) -> None:
    topology = Topology(network)
    source, to = _pairs(network.places)
    routes = topology.routes(source, to, source * 0)
    for i in range(0, len(source), 7):
        links = routes.path[routes.begin[i] + 1 : routes.sinks[i]]
        leaves, reaches = topology.places_of(links)
        assert topology.exists(links).all()
        assert [*leaves, to[i]] == [source[i], *reaches]


def test_a_saturated_link_carries_its_bandwidth() -> None:
    # Three places send over the link from 2 to 3, all at once and for long.
    count = 3000
    run = st.noc.simulate(
        {"source": [0, 1, 2] * count, "destination": [3] * 3 * count, "flits": [4] * 3 * count},
        st.noc.load_network("mesh", {"rows": 1, "cols": 4}),
    )
    link = run.links().to_pylist()[[one["to_place"] for one in run.links().to_pylist()].index("3")]
    assert link["link_flits"] == 12 * count
    assert link["link_share"] == pytest.approx(1, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["link", "flow"])
def test_a_saturated_link_carries_its_bytes(model: str) -> None:
    # Ethernet cores of one row send east through (0, 4) > (0, 5), a DRAM core sends too.
    count, nbytes = 40, 1 << 20
    run = st.noc.simulate(
        {
            "source": [(0, 3), (0, 4)] * count,
            "destination": [(1, 6), (1, 7)] * count,
            "bytes": [nbytes] * 2 * count,
        },
        "wormhole",
        model=model,
    )
    if model == "flow":
        assert run.busiest_link == "(0, 4) east"
        assert run.share[: run.topology.link_count].max() == pytest.approx(1, rel=1e-3)
    else:
        # Transfers take port after port, so that a source is what is always busy.
        assert run.share.max() == pytest.approx(1, rel=1e-3)


def test_flow_shares_are_max_min_fair() -> None:
    # A to C and B to C share the sink of C; the rest of B's source goes to D.
    network = st.noc.load_network("mesh", {"rows": 1, "cols": 4, "rates.link": 1000.0})
    run = st.noc.simulate(
        {"source": [0, 1, 1], "destination": [2, 2, 3], "bytes": [1600, 1600, 3200]},
        network,
        model="flow",
    )
    # 16 B/cycle each until 100; then what is left of the third has the port for itself.
    assert run.arrival.tolist() == pytest.approx([100, 100, 150])


def test_npe_alone_takes_the_rate_of_its_packets() -> None:
    run = st.noc.simulate(
        {"source": [(1, 1)], "destination": [(1, 2)], "bytes": [281 * 100], "packets": [1]},
        "wormhole",
        model="npe",
    )
    # A single packet has the largest rate, which the port of a worker, 28.1, limits. A step of 128
    # cycles moves whole bytes, 3596 of 3596.8: seven of them leave 2928 bytes, 105 cycles.
    assert run.arrival.tolist() == [7 * 128 + 105]


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_lost_and_order_is_kept(seed: int) -> None:
    draw = np.random.default_rng(seed)
    network = st.noc.load_network("torus", {"rows": 3, "cols": 4})
    count = 400
    pair = draw.integers(0, 12, (count, 2))
    time = draw.integers(0, 300, count)
    size = draw.integers(1, 12, count)
    run = st.noc.simulate(
        {"time": time, "source": pair[:, 0], "destination": pair[:, 1], "flits": size}, network
    )
    topology = run.topology
    assert run.port_flits[: topology.link_count].sum() == (size * run.routes.links).sum()
    assert (run.arrival >= time + run.alone).all()
    # Packets of a source to the same place arrive in the order in which they were created.
    by = np.lexsort((np.arange(count), time, pair[:, 1], pair[:, 0]))
    same = (pair[by][1:] == pair[by][:-1]).all(axis=1)
    assert (np.diff(run.arrival[by])[same] > 0).all()
    # No link takes more than a flit per cycle.
    assert run.share.max() <= 1


@pytest.mark.parametrize("model", ["link", "flow", "npe"])
def test_a_transfer_starts_after_those_it_waits_for(model: str) -> None:
    run = st.noc.simulate(
        {
            "source": [(1, 1), (2, 2), (3, 3)],
            "destination": [(1, 2), (2, 3), (3, 4)],
            "bytes": [28100, 2810, 281],
            "after": [None, None, [0, 1]],
            "delay": [0, 0, 500],
        },
        "wormhole",
        model=model,
    )
    assert run.start[2] == max(run.arrival[:2]) + 500
    assert run.table().to_pylist()[2]["ready_cycle"] == run.start[2]
