"""Collectives against closed forms, a plain program of the same rules, and moved values."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from stepsim.machine import Chips
from stepsim.noc import CollectiveRun, simulate_collective
from tests.oracle import chip_values, chips as oracle

_KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
_ALGORITHMS = ("ring", "direct", "halving-doubling")


def _chips(topology: str, count: int, bandwidth: float = 50.0, latency: float = 500.0) -> Chips:
    return Chips(topology=topology, count=count, gib_per_s=bandwidth, latency_ns=latency)


def _run(
    kind: str, algorithm: str, chips: Chips, nbytes: int, splits: int = 1, endpoint: int = 10,
    memory: float = 50.0,
) -> CollectiveRun:  # fmt: skip
    adds = kind in ("all-reduce", "reduce-scatter")
    return simulate_collective(
        kind, nbytes, chips, algorithm=algorithm, splits=splits, endpoint_ns=endpoint,
        memory_gbps=memory if adds else None,
    )  # fmt: skip


def _possible(counts: tuple[int, ...]) -> list[tuple[str, str, int]]:
    """Kinds, algorithms and numbers of chips that go together."""
    return [
        (kind, algorithm, count)
        for kind, algorithm, count in itertools.product(_KINDS, _ALGORITHMS, counts)
        if algorithm != "halving-doubling" or (count & (count - 1) == 0 and kind != "all-to-all")
    ]


@pytest.mark.slow
def test_published_run_of_the_reference() -> None:
    run = _run("all-reduce", "ring", _chips("ring", 8), 1 << 20, splits=4)
    assert run.finish_ns.tolist() == [117_780] * 8
    assert run.ns == 117_780


def _closed(
    kind: str, algorithm: str, chips: Chips, chunk: int, endpoint: int, memory: float
) -> int:
    """The table of closed forms for one chunk, without contention for links."""
    [dimension] = chips.dimensions
    n, g = dimension.chips, dimension.chips.bit_length() - 1
    passed = 2 if dimension.topology == "switch" else 1

    def c(size: int) -> int:
        return passed * int(dimension.latency_ns + size / oracle.bytes_per_ns(dimension[2]))

    def r(size: int) -> int:
        return 3 * int(size / (memory * 1e9) * 1e9)

    if algorithm == "halving-doubling":
        halves = [chunk >> k for k in range(1, g + 1)]
        return {
            "all-reduce": lambda: sum(2 * c(m) for m in halves) + sum(map(r, halves[1:]))
            + (2 * g + 1) * endpoint,
            "all-gather": lambda: sum(c(chunk << k) for k in range(g)) + (g + 1) * endpoint,
            "reduce-scatter": lambda: sum(map(c, halves)) + sum(map(r, halves[1:]))
            + (g + 1) * endpoint,
        }[kind]()  # fmt: skip
    m = chunk if kind == "all-gather" else chunk // n
    if algorithm == "direct":
        return {
            "all-reduce": 2 * c(m) + 3 * endpoint + r(m),
            "all-gather": c(m) + 2 * endpoint,
            "reduce-scatter": c(m) + r(m) + 2 * endpoint,
            "all-to-all": c(m) + 2 * endpoint,
        }[kind]
    steps = n * (n - 1) // 2
    return {
        "all-reduce": 2 * (n - 1) * c(m) + (2 * n - 1) * endpoint + (n - 1) * r(m),
        "all-gather": (n - 1) * c(m) + n * endpoint,
        "reduce-scatter": (n - 1) * (c(m) + r(m)) + n * endpoint,
        "all-to-all": steps * c(m) + (steps + 1) * endpoint,
    }[kind]


@pytest.mark.parametrize("topology", ["ring", "fully-connected", "switch"])
@pytest.mark.parametrize(("kind", "algorithm", "count"), _possible((3, 4, 8)))
def test_closed_forms(kind: str, algorithm: str, count: int, topology: str) -> None:
    if algorithm == "direct" and topology != "fully-connected":
        return  # messages wait for links
    if algorithm == "halving-doubling" and topology == "ring":
        return
    chips = _chips(topology, count, bandwidth=37.5, latency=411.5)
    chunk = 16384 * count
    run = _run(kind, algorithm, chips, 3 * chunk, splits=3, endpoint=7, memory=90)
    one = _closed(kind, algorithm, chips, chunk, 7, 90)
    assert run.chunks == 3
    assert run.finish_ns.tolist() == [3 * one] * count
    assert not run.messages()["message_wait_ns"].to_numpy().any()


def _random(rng: random.Random) -> tuple[str, str, Chips, dict[str, Any]]:
    topology = rng.choice(("ring", "fully-connected", "switch"))
    kind, algorithm, count = rng.choice(_possible((3, 4, 5, 6, 8)))
    bandwidth, latency = rng.choice((0.5, 12.5, 50, 900)), rng.choice((0, 0.5, 20.25, 500))
    options = {
        "nbytes": rng.choice((64, 1000, 65536, 3_000_001)),
        "splits": rng.randint(1, 4),
        "endpoint": rng.choice((1, 10, 100)),
        "memory": rng.choice((50, 1600)),
    }
    return kind, algorithm, _chips(topology, count, bandwidth, latency), options


@pytest.mark.parametrize("seed", range(30))
def test_random_collectives_are_those_of_the_oracle(seed: int) -> None:
    kind, algorithm, chips, options = _random(random.Random(seed))
    run = _run(kind, algorithm, chips, **options)
    [dimension] = chips.dimensions
    network = oracle.Network(oracle.Clock(), dimension[0], *dimension[1:])
    plain = oracle.Collective(
        network, kind.replace("-", "_"), algorithm.replace("-", "_"), options["nbytes"],
        options["splits"], options["endpoint"], options["memory"],
    )  # fmt: skip
    assert run.finish_ns.tolist() == plain.finish
    assert run.last_event_ns == plain.last
    found = zip(
        run.chunk, run.source, run.destination, run.nbytes, run.sent_ns, run.arrived_ns,
        run.received_ns, strict=True,
    )  # fmt: skip
    assert [tuple(map(int, each)) for each in found] == [
        (m.chunk, m.source, m.destination, m.size, m.sent, m.arrived, m.received)
        for m in plain.messages
    ]


@pytest.mark.parametrize("topology", ["ring", "fully-connected", "switch"])
@pytest.mark.parametrize(("kind", "algorithm", "count"), _possible((3, 5, 8)))
def test_every_chip_ends_with_its_values(
    kind: str, algorithm: str, count: int, topology: str
) -> None:
    """A step that sends too early, to the wrong chip or too little leaves wrong values."""
    nbytes = 4096 * count
    run = _run(kind, algorithm, _chips(topology, count), nbytes)
    given = np.random.default_rng(count).integers(1, 1 << 40, (count, count))
    held, per_block = chip_values.moved(run, given)
    for node, wanted in enumerate(chip_values.expected(kind, given)):
        assert {block: held[node][block] for block in wanted} == wanted, node
    if kind == "reduce-scatter":
        # Every block is whole on the chip that the algorithm leaves it on.
        after = 1 if algorithm == "ring" else 0
        for node in range(count):
            block = (node + after) % count
            assert held[node][block, 0] == given[:, block].sum()
    assert set(per_block) == {nbytes if kind == "all-gather" else 4096}


@pytest.mark.parametrize("topology", ["ring", "fully-connected", "switch"])
@pytest.mark.parametrize(("kind", "algorithm"), [pair[:2] for pair in _possible((8,))])
def test_bytes_are_conserved(kind: str, algorithm: str, topology: str) -> None:
    run = _run(kind, algorithm, _chips(topology, 8), 80_000, splits=2)
    messages, chips, links = run.messages(), run.per_chip(), run.links()
    total = sum(messages["message_bytes"].to_pylist())
    assert sum(chips["sent_bytes"].to_pylist()) == total == sum(chips["received_bytes"].to_pylist())
    hop_bytes = (run.nbytes * run.hops).sum()
    assert sum(links["link_bytes"].to_pylist()) == hop_bytes
    assert sum(links["link_messages"].to_pylist()) == run.hops.sum()
    assert sum(links["link_waited_ns"].to_pylist()) == sum(messages["message_wait_ns"].to_pylist())
    factor = {"all-reduce": 2, "all-gather": 8, "reduce-scatter": 1, "all-to-all": 1}[kind]
    if (kind, algorithm) != ("all-to-all", "ring"):
        # Seven eighths of the data, twice for an all-reduce; every shard goes to seven chips.
        assert total == factor * 7 * 80_000
    assert (run.sent_ns < run.arrived_ns).all()
    assert (run.arrived_ns <= run.received_ns).all()
    assert (run.received_ns < run.finish_ns[run.destination]).all()
    assert np.array_equal(links["link_busy_share"].to_numpy() <= 1, np.ones(len(links), bool))
