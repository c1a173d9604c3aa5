"""What the journal has of a network on chip: packets, their waits for ports, and their flits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, strategies as st

from stepsim.kernels.layout import Cause
from stepsim.lowering import Network, TimingParams, build_image
from stepsim.simulation.recording.record import Record
from tests.kernels.test_recorded import check, recorded
from tests.oracle.build import NetBuilder
from tests.oracle.carriers import CARRIERS
from tests.oracle.fabric import Steps, Unit
from tests.oracle.interpreter import interpret
from tests.oracle.random_networks import faulty_networks, random_networks, routed_networks
from tests.oracle.random_places import placed, placed_networks
from tests.property_profile import profile

PLACED = placed_networks(
    st.one_of(random_networks(max_slack=1), routed_networks(), faulty_networks())
)


def _carried(network: Network) -> Any:
    """The network on chip of the plain interpreter, after a run."""
    seen = []

    def seeing(body: Callable[[Unit], Steps]) -> Callable[[Unit], Steps]:
        def watched(u: Unit) -> Steps:
            seen.append(u.carries)
            return body(u)

        return watched

    bodies = {name: seeing(CARRIERS[name]) for name in ("SendPacket", "MulticastPacket")}
    interpret(network, bodies=bodies)
    return seen[0] if seen else None


@pytest.mark.slow
@profile(60)
@given(PLACED)
def test_recorded_runs_are_the_same(network: Network) -> None:
    check(network)


@profile(30)
@given(PLACED)
def test_small_pieces_of_memory_change_nothing(network: Network) -> None:
    image = build_image(network)
    whole, in_pieces = recorded(image)[1], recorded(image, piece=2)[1]
    for name in ("waits", "rises", "crossings", "port_waits", "flits"):
        assert (getattr(whole, name) == getattr(in_pieces, name)).all(), name


class _Route(NamedTuple):
    """A route by its number: ports on the way, and those of the tree if it is of a reader."""

    along: tuple[int, ...]
    tree: int | None
    path: tuple[int, ...]
    before: tuple[int, ...]


def _routes(network: Network) -> list[_Route]:
    found: list[_Route] = []
    for unit in network.units:
        if unit.op not in ("SendPacket", "MulticastPacket"):
            continue
        path = tuple(unit.params["path"])
        before = tuple(unit.params.get("before", range(-1, len(path) - 1)))
        found.append(_Route(path, None, path, before))
        number = len(found) - 1
        for end in unit.params.get("ends", ()):
            along: list[int] = []
            while end >= 0:
                along.insert(0, path[end])
                end = before[end]
            found.append(_Route(tuple(along), number, (), ()))
    return found


@pytest.mark.slow
@profile(60)
@given(PLACED)
def test_packets_are_those_of_the_interpreter(network: Network) -> None:
    record = recorded(build_image(network))[1]
    mesh = _carried(network)
    if mesh is None:
        assert not len(record.crossings)
        assert not len(record.flits)
        return
    routes = _routes(network)
    wanted = [(number.route, number.create, end + 1) for number, end in mesh.arrival.items()]
    columns = (record.crossings[name].tolist() for name in ("route", "begin", "end"))
    assert sorted(zip(*columns, strict=True)) == sorted(wanted)
    _check_waits(record, network, mesh, routes)
    sent = sum(len(mesh.packets[r]) for r, one in enumerate(routes) if r + 1 == len(routes)
               or routes[r + 1].tree != r)  # fmt: skip
    if len(mesh.arrival) < sent:
        return
    outputs: dict[int, list[int]] = defaultdict(list)
    inputs: dict[int, set[int]] = defaultdict(set)
    for one in record.flits:
        path, hop = routes[one["route"]].path, int(one["hop"])
        cycles = range(int(one["begin"]), int(one["end"]))
        outputs[path[hop]] += cycles
        if hop:
            inputs[path[routes[one["route"]].before[hop]]] |= {*cycles}
    for (side, port), taken in mesh.taken.items():
        assert sorted(outputs[port] if side == "out" else inputs[port]) == sorted(taken)


def _check_waits(record: Record, network: Network, mesh: Any, routes: list[_Route]) -> None:
    """A packet takes its time alone and its waits, which are a part of those of all segments."""
    its = network.carriage
    assert its is not None
    flits = {}
    for number, end in mesh.arrival.items():
        tree = routes[number.route].tree
        sent = number if tree is None else number._replace(route=tree)
        flits[number.route, number.create, end] = mesh.flits[sent]
    waits = record.port_waits
    for number, one in enumerate(record.crossings):
        route, begin, end = int(one["route"]), int(one["begin"]), int(one["end"])
        own = waits[waits["crossing"] == number]
        tree = routes[route].tree
        assert (own["route"] == (route if tree is None else tree)).all()
        assert (np.diff(own["hop"]) > 0).all()
        assert (own["end"] > own["begin"]).all()
        assert (own["begin"][1:] >= own["end"][:-1]).all()
        assert (own["end"] - own["begin"]).sum() == one["waited"]
        alone = its.crossing(routes[route].along) + flits[route, begin, end - 1] - 1
        assert end - 1 - begin == alone + one["waited"]
        assert (own["begin"] >= begin).all()
        assert (own["end"] < end).all()


def _shared(tokens: int, tile: list[int]) -> Network:
    b = NetBuilder(TimingParams(), 8)
    for name in "ab":
        each = [{"tile": tile, "level": 0}] * tokens
        b.unit(f"source {name}", "Src", [], [name], tokens=each, n=1)
        b.unit(f"sink {name}", "Consumer", [name], [])
    # Both streams pass the link from place 1 to place 2.
    return placed(b.network(), [0, 2, 1, 3], rows=1, cols=4)


@pytest.mark.parametrize("piece", [2, 1 << 12])
def test_streams_of_one_link_wait_for_it(piece: int) -> None:
    network = _shared(200, [16, 16, 2, 0, 16])
    record = recorded(build_image(network), piece)[1]
    paths = [unit.params["path"] for unit in network.units if unit.op == "SendPacket"]
    link = 6 * 1  # from place 1 to the east
    at = np.array([paths[one["route"]][one["hop"]] for one in record.flits])
    own = np.sort(record.flits[at == link], order="begin")
    assert (own["end"] - own["begin"]).sum() == 2 * 200 * 32
    assert (own["begin"][1:] >= own["end"][:-1]).all()
    waited = np.array([paths[one["route"]][one["hop"]] for one in record.port_waits])
    assert (waited == link).any()
    assert (record.waits["cause"] == Cause.PACKET).any()
