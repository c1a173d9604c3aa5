"""Random networks whose units are on random chips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from stepsim.lowering.carriers import with_messages
from stepsim.lowering.network import ChipLinks, Network

__all__ = ["TOPOLOGIES", "chip_networks", "chip_path", "on_chips"]

TOPOLOGIES = ("ring", "fully-connected", "switch")


def chip_path(topology: str, chips: int, source: int, to: int) -> list[tuple[int, int]]:
    """The links of a route between two chips; the switch has the number behind the last chip."""
    if topology == "fully-connected":
        return [(source, to)]
    if topology == "switch":
        return [(source, chips), (chips, to)]
    step = 1 if 2 * ((to - source) % chips) <= chips else -1
    found, here = [], source
    while here != to:
        found.append((here, (here + step) % chips))
        here = (here + step) % chips
    return found


def on_chips(
    network: Network, places: Sequence[int], *, topology: str, chips: int, latency: float,
    rate: float, token_bytes: int = 0,
) -> Network:  # fmt: skip
    """The network with its units on these chips."""
    producer = {c: place for place, u in zip(places, network.units, strict=True) for c in u.outputs}
    consumer = {c: place for place, u in zip(places, network.units, strict=True) for c in u.inputs}
    links: dict[tuple[int, int], int] = {}
    paths = []
    for c in range(len(network.channels)):
        way = chip_path(topology, chips, producer[c], consumer[c])
        if producer[c] == consumer[c]:
            way = []
        paths.append(tuple(links.setdefault(link, len(links)) for link in way))
    count = len(links)
    between = ChipLinks(tuple(places), (latency,) * count, (rate,) * count)
    return with_messages(network, between, paths, [token_bytes] * len(paths))


@st.composite
def chip_networks(
    draw: st.DrawFn, networks: st.SearchStrategy[Network], *, memories: bool = True
) -> Network:
    """Networks on random chips, with random links, and random memories instead of their own."""
    network = draw(networks)
    chips = draw(st.integers(1, 5))
    topology = draw(st.sampled_from(TOPOLOGIES))
    place = st.integers(0, chips - 1)
    places = draw(st.lists(place, min_size=len(network.units), max_size=len(network.units)))
    if memories:
        timing = replace(
            network.timing,
            memory_model=draw(st.sampled_from(["published", "interleaved", "uncontended"])),
            outstanding=draw(st.sampled_from([None, None, 1, 5])),
        )
        network = replace(network, timing=timing)
    return on_chips(
        network,
        places,
        topology=topology,
        chips=chips,
        latency=draw(st.sampled_from([0.0, 0.5, 1.0, 7.25, 60.0])),
        rate=draw(st.sampled_from([0.5, 3.7, 16.0, 53.687, 1e6])),
        token_bytes=draw(st.sampled_from([0, 64, 4096])),
    )
