"""Messages between chips: closed forms, random traffic against the oracle, and bad input."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import stepsim as st
from stepsim.errors import ArgError, MachineError
from stepsim.machine import Chips, load_machine
from stepsim.noc import simulate_chips, simulate_collective
from tests.oracle import chips as oracle


def _chips(topology: Any, count: Any, bandwidth: float = 50.0, latency: float = 500.0) -> Chips:
    return Chips(topology=topology, count=count, gib_per_s=bandwidth, latency_ns=latency)


def _messages(rows: list[tuple[int, int, int, int]]) -> dict[str, Any]:
    names = ("time", "source", "destination", "bytes")
    return dict(zip(names, np.array(rows).reshape(-1, 4).T, strict=True))


@pytest.mark.parametrize(
    ("topology", "congested", "alone"),
    [
        ("ring", 60_093, 21_031),
        ("fully-connected", 20_031, 20_031),
        ("switch", 40_062, 20_531),
    ],
)
def test_one_message_takes_what_the_reference_says(
    topology: str, congested: int, alone: int
) -> None:
    for congestion, taken in ((True, congested), (False, alone)):
        run = simulate_chips(
            _messages([(0, 1, 4, 1 << 20)]), _chips(topology, 16), congestion=congestion
        )
        assert (run.ns, run.last_event_ns) == (taken, taken)


def test_all_pairs_at_once_on_a_ring() -> None:
    rows = [(0, i, j, 1 << 20) for i in range(16) for j in range(16) if i != j]
    run = simulate_chips(_messages(rows), _chips("ring", 16))
    assert run.ns == 704_116


@pytest.mark.parametrize("seed", range(20))
def test_random_messages_are_those_of_the_oracle(seed: int) -> None:
    rng = random.Random(seed)
    topology = ("ring", "fully-connected", "switch")[seed % 3]
    count = rng.randint(3, 9)
    bandwidth, latency = rng.choice((0.5, 50, 900)), rng.choice((0, 1.5, 500))
    rows = []
    for _ in range(rng.randint(1, 80)):
        source, destination = rng.sample(range(count), 2)
        size = rng.choice((1, 64, 4096, 1 << 20))
        rows.append((rng.choice((0, 0, rng.randint(0, 3000))), source, destination, size))
    run = simulate_chips(_messages(rows), _chips(topology, count, bandwidth, latency))
    arrived, last = oracle.arrivals(topology, count, bandwidth, latency, rows)
    assert run.arrived_ns.tolist() == arrived
    assert run.last_event_ns == last
    assert (run.messages()["message_wait_ns"].to_numpy() >= 0).all()
    links = run.links()
    assert sum(links["link_bytes"].to_pylist()) == (run.nbytes * run.hops).sum()
    columns = (links[name].to_pylist() for name in ("from_device", "to_device", "link_messages"))
    used = {(begin, end) for begin, end, count in zip(*columns, strict=True) if count}
    network = oracle.Network(oracle.Clock(), topology, count, bandwidth, latency)
    paths = [network.path(row[1], row[2]) for row in rows]
    assert used == {pair for path in paths for pair in itertools.pairwise(path)}


def test_a_busy_link_carries_its_bandwidth() -> None:
    chips = _chips("ring", 4, bandwidth=100, latency=100)
    run = simulate_chips(_messages([(0, 0, 1, 1 << 20)] * 100), chips)
    rate = 100 * (1 << 20) / run.last_event_ns
    assert rate == pytest.approx(100 * 2**30 / 1e9, rel=1e-3)
    assert run.links()["link_busy_share"].to_pylist()[0] > 0.98


def test_only_the_lowest_dimension_that_differs_counts() -> None:
    chips = Chips(
        topology=["ring", "switch"], count=[4, 2], gib_per_s=[50, 25], latency_ns=[500, 9]
    )
    run = simulate_chips(
        _messages([(3, 0, 2, 4096), (3, 1, 5, 4096), (3, 0, 6, 4096)]), chips, congestion=False
    )
    first = int(2 * 500 + 4096 / oracle.bytes_per_ns(50))
    second = int(2 * 9 + 4096 / oracle.bytes_per_ns(25))
    assert (run.arrived_ns - 3).tolist() == [first, second, first]
    assert run.messages().column_names[-1] == "arrived_ns"


def test_tables_and_no_messages() -> None:
    chips = _chips("switch", 4)
    table = pa.table({"source": [0, 1], "destination": [1, 2], "bytes": [64, 128]})
    run = simulate_chips(table, chips)
    assert run.sent_ns.tolist() == [0, 0]
    finish = run.per_chip()["chip_finish_ns"].to_pylist()
    assert finish[0] is None
    assert finish[1] == run.arrived_ns[0]
    nothing = simulate_chips(_messages([]), chips)
    assert (nothing.ns, nothing.last_event_ns, nothing.messages().num_rows) == (0, 0, 0)


def test_a_machine_with_chips_is_one_network() -> None:
    changes = {
        "chips.count": 4, "chips.topology": "switch", "chips.gib_per_s": 50,
        "chips.latency_ns": 500, "clock_ghz": 1,
    }  # fmt: skip
    machine = load_machine("sda-1024", changes)
    run = simulate_collective("all-reduce", 1 << 20, machine)
    stated = simulate_collective(
        "all-reduce", 1 << 20, _chips("switch", 4), memory_gbps=machine.peak_bandwidth
    )
    assert run.ns == stated.ns
    assert "operators are on chip 0 of 4 unless" in " ".join(machine.notes)
    assert load_machine("sda-1024").notes == ()
    assert load_machine("sda-1024").chips is None
    assert "chips" not in load_machine("sda-1024").to_dict()
    assert st.Machine(**machine.to_dict()) == machine


_ONE = {"source": [0], "destination": [1], "bytes": [64]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"messages": [[0, 1, 64]]}, "expected an Arrow table or a mapping of columns"),
        ({"messages": {"source": [0], "bytes": [1]}}, "expected a column 'destination'"),
        ({"messages": {**_ONE, "tme": [0]}}, "unknown column 'tme'; did you mean 'time'?"),
        ({"messages": {**_ONE, "bytes": [0.5]}}, "whole numbers"),
        ({"messages": {**_ONE, "bytes": [0]}}, "messages[0]: bytes: expected 1 to 2**50 bytes"),
        ({"messages": {**_ONE, "bytes": [1, 2]}}, "one number for each of 1 sources, found 2"),
        ({"messages": {**_ONE, "destination": [0]}}, "chip 0 sends to itself"),
        ({"messages": {**_ONE, "destination": [4]}}, "expected one of the chips 0 to 3, found 4"),
        ({"messages": {**_ONE, "time": [-1]}}, "messages[0]: time: expected ns from 0"),
        ({"messages": {**_ONE, "time": [1 << 62]}}, "expected numbers up to 2**61"),
        ({"chips": _chips("ring", 2)}, "joins 3 chips or more, found 2"),
        ({"chips": _chips("switch", 1)}, "joins 2 chips or more, found 1"),
        ({"chips": _chips(["ring", "ring"], 4)}, "in one dimension, found 2"),
        ({"chips": _chips("fully-connected", 3000)}, "more than the 4194304 links"),
        ({"chips": _chips("switch", 4, bandwidth=1e-300)}, "may not end within 2**62 ns"),
        ({"chips": _chips("switch", 4, latency=1e300)}, "may not end within 2**62 ns"),
        ({"chips": load_machine("sda-1024")}, "machine 'sda-1024' is one chip"),
        ({"chips": 4}, "expected a stepsim.machine.Chips"),
        ({"congestion": 1}, "congestion must be True or False"),
    ],
)
def test_what_is_refused_of_messages(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgError) as caught:
        simulate_chips(**{"messages": _ONE, "chips": _chips("switch", 4), **changes})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "allreduce"}, "kind: expected one of 'all-reduce'"),
        ({"algorithm": "tree"}, "algorithm: expected one of 'ring', 'direct', 'halving-doubling'"),
        ({"algorithm": "halving-doubling", "kind": "all-to-all"}, "no steps for kind 'all-to-all'"),
        ({"algorithm": "halving-doubling", "chips": _chips("switch", 6)}, "power of two, found 6"),
        ({"nbytes": 0}, "nbytes must be an int from 1"),
        ({"splits": 0}, "splits must be an int from 1"),
        ({"endpoint_ns": 0}, "endpoint_ns must be an int from 1"),
        ({"kind": "all-gather", "nbytes": 3, "splits": 4}, "3 bytes cannot be split into 4 parts"),
        ({"memory_gbps": 5}, "does not reduce and so does not depend on it"),
        ({"kind": "all-reduce"}, "whose bandwidth is not known"),
        ({"kind": "all-reduce", "memory_gbps": float("nan")}, "a number above 0"),
        ({"kind": "all-reduce", "memory_gbps": 0}, "a number above 0"),
        ({"kind": "all-reduce", "memory_gbps": 1e-300}, "more than 2**61"),
        ({"chips": _chips("ring", 4096)}, "more than the 8388608 that can be kept"),
        ({"chips": _chips("ring", 2)}, "joins 3 chips or more, found 2"),
    ],
)
def test_what_is_refused_of_collectives(changes: dict[str, Any], words: str) -> None:
    given = {"kind": "all-gather", "nbytes": 1024, "chips": _chips("switch", 4), **changes}
    with pytest.raises(ArgError) as caught:
        simulate_collective(**given)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gib_per_s": 0}, "gib_per_s: expected a number above 0"),
        ({"gib_per_s": float("nan")}, "gib_per_s: expected a number above 0"),
        ({"latency_ns": float("nan")}, "latency_ns: expected a number from 0"),
        ({"latency_ns": [1, -1]}, "latency_ns: expected a number from 0"),
        ({"topology": "mesh"}, "topology: expected 'ring', 'fully-connected', 'switch'"),
        ({"count": []}, "count: expected an integer from 1 to 65536"),
        ({"count": [4, 2], "latency_ns": [1, 2, 3]}, "different lengths: count 2, latency_ns 3"),
        ({"count": [4, 2], "topology": ["ring"]}, "different lengths: count 2, topology 1"),
        ({"count": [65536, 2]}, "expected 65536 chips or fewer in all dimensions"),
    ],
)
def test_what_is_refused_of_descriptions(changes: dict[str, Any], words: str) -> None:
    given = {"topology": "ring", "count": 4, "gib_per_s": 50, "latency_ns": 500, **changes}
    with pytest.raises(MachineError) as caught:
        Chips(**given)
    assert words in str(caught.value)


def test_links_need_congestion() -> None:
    run = simulate_chips(_ONE, _chips("switch", 4), congestion=False)
    with pytest.raises(ArgError, match="run with congestion"):
        run.links()
