"""The models of a network: what each needs of it, and how traffic becomes what its engine runs."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import ArgError
from stepsim.kernels import (
    new_byte_traffic,
    new_link_traffic,
    new_stepped_traffic,
    run_link_traffic,
    run_ports,
    run_shares,
    run_steps,
)
from stepsim.machine import packet_table
from stepsim.noc.dependence import Dependence, stated, with_channels
from stepsim.noc.multicast import multicast_routes
from stepsim.noc.topology import Routes, Topology
from stepsim.noc.traffic import Traffic

Whole = NDArray[np.int64]

_MOST_BITS: Final = 62  # of the key of an event
_MOST_STEPPED_BYTES: Final = (1 << 32) - 1  # tt-npe counts them in 32 bits
_EXACT_CYCLES: Final = 1 << 24  # of float32


class Outcome(NamedTuple):
    """What became of transfers; int64 where a model counts whole cycles.

    Attributes
    ----------
    start, arrival : first cycle of each transfer on the network, and cycle of its end. [transfers]
    alone : cycles from its being ready to its arrival on an empty network. [transfers]
    waited : cycles of waiting for each port, where the model knows them. [ports]
    """

    start: NDArray[Any]
    arrival: NDArray[Any]
    alone: NDArray[Any]
    waited: NDArray[Any] | None


def flits_of(traffic: Traffic, topology: Topology) -> Whole:
    """Flits of every packet; those given in bytes are rounded up.

    Raises
    ------
    ArgError : bytes on a network that does not state those of a flit.
    """
    flits = topology.network.flits
    assert flits is not None
    if not traffic.nbytes.any():
        return traffic.flits
    if flits.flit_bytes is None:
        raise ArgError(
            f"traffic: is in bytes, and network '{topology.network.name}' does not state "
            "flits.flit_bytes; state it, or give a column 'flits'"
        )
    return -(-traffic.nbytes // flits.flit_bytes)


def run_flits(traffic: Traffic, topology: Topology, routes: Routes, ready: Whole) -> Outcome:
    """``link`` with packets as flits: segments reserve router inputs and outputs."""
    flits = topology.network.flits
    assert flits is not None
    count = len(traffic)
    size = flits_of(traffic, topology)
    _refuse_multicast(traffic, "link")
    hops = routes.links + 1
    alone = flits.inject + (flits.router + flits.wire) * hops + size - 1
    # All times are below the time that they take one after the other.
    end = int(ready.max(initial=0)) + int(alone.sum()) + int(traffic.delay.sum())
    events = int((-(-size // flits.quantum) + 1).sum())
    if end.bit_length() + events.bit_length() > _MOST_BITS:
        raise ArgError(
            f"traffic: {events:,} segments in up to {end:,} cycles are more than the model link "
            f"counts; simulate parts of it, or larger segments (flits.quantum={flits.quantum})"
        )
    order = np.lexsort((np.arange(count), ready))
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    chosen = traffic.taken(order)
    needs = stated(traffic)
    lengths = np.diff(routes.begin)
    begin = np.concatenate([[0], np.cumsum(lengths[order])])
    within = np.arange(len(routes.path)) - np.repeat(begin[:-1], lengths[order])
    path = routes.path[np.repeat(routes.begin[:-1][order], lengths[order]) + within]
    children = np.diff(needs.begin)
    child_begin = np.concatenate([[0], np.cumsum(children[order])])
    within = np.arange(len(needs.child)) - np.repeat(child_begin[:-1], children[order])
    child = place[needs.child[np.repeat(needs.begin[:-1][order], children[order]) + within]]
    run = new_link_traffic(
        ready[order], size[order], begin, path, needs.waiting[order], chosen.delay, child_begin,
        child, ports=topology.port_count, router=flits.router, wire=flits.wire,
        inject=flits.inject, quantum=flits.quantum,
    )  # fmt: skip
    run_link_traffic(run)
    return Outcome(run.inject[place], run.arrival[place], alone, run.waited)


def run_bytes(
    traffic: Traffic, topology: Topology, routes: Routes, ready: Whole, model: str
) -> Outcome:
    """``link`` with whole transfers, one port after the other, or ``flow``, all of them at once."""
    _refuse_multicast(traffic, model)
    _need_bytes(traffic, topology, model)
    rate = topology.rates().astype(np.float64)
    real = ready.astype(np.float64)
    nbytes = traffic.nbytes.astype(np.float64)
    if model == "link":
        needs = stated(traffic)
        slowest = rate[routes.path[routes.begin[1:] - 1]]
    else:
        needs = with_channels(traffic, topology, routes, ready)
        slowest = np.full(len(traffic), np.inf)
        np.minimum.at(slowest, np.repeat(np.arange(len(traffic)), np.diff(routes.begin)),
                      rate[routes.path])  # fmt: skip
    run = new_byte_traffic(real, nbytes, routes.begin, routes.path, rate, *needs)
    if model == "link":
        run_ports(run)
    else:
        run_shares(run)
    waited = run.waited if model == "link" else None
    return Outcome(run.start, run.end, nbytes / slowest, waited)


def run_npe(
    traffic: Traffic, topology: Topology, routes: Routes, ready: Whole, *, step: int,
    congestion: bool,
) -> Outcome:  # fmt: skip
    """``npe``: time steps in float32, as tt-npe computes them."""
    _need_bytes(traffic, topology, "npe")
    over = np.flatnonzero(traffic.nbytes > _MOST_STEPPED_BYTES)
    if len(over):
        raise ArgError(
            f"bytes[{int(over[0])}]: the model npe counts up to {_MOST_STEPPED_BYTES} bytes of a "
            f"transfer, found {int(traffic.nbytes[over[0]])}; cut it, or use the model flow"
        )
    limited = np.ones(len(traffic), np.int64)
    many = traffic.last != traffic.destination
    if many.any():
        routes = multicast_routes(traffic, topology)
        limited[many] = 0
    rate = topology.rates()
    nominal = np.minimum(rate[routes.path[routes.begin[:-1]]], _packet_rates(traffic, topology))
    needs = with_channels(traffic, topology, routes, ready)

    def run(needs: Dependence, congestion: bool) -> Any:
        run = new_stepped_traffic(
            ready, traffic.nbytes, nominal, routes.begin, routes.sinks, routes.path, limited, rate,
            *needs, step=step, congestion=congestion,
        )  # fmt: skip
        if run_steps(run) < 0:
            raise ArgError(
                "traffic: so many transfers share a link that none gets a byte in a step of "
                f"{step} cycles, so that the model npe never ends; use longer steps, or the model "
                "flow"
            )
        return run

    found = run(needs, congestion)
    if int(found.end.max(initial=0)) >= _EXACT_CYCLES:
        raise ArgError(
            f"traffic: ends in cycle {int(found.end.max()):,}, and the model npe counts whole "
            f"cycles up to {_EXACT_CYCLES:,} in float32; simulate parts of it, or use the model "
            "flow"
        )
    nothing = np.zeros(len(traffic), np.int64)
    single = Dependence(nothing, nothing, np.zeros(len(traffic) + 1, np.int64), nothing[:0])
    empty = run(single, False)
    return Outcome(found.start, found.end, empty.end - ready, None)


def _packet_rates(traffic: Traffic, topology: Topology) -> NDArray[np.float32]:
    """Bytes per cycle of transfers by their packets, rounded to float32 after every operation."""
    network = topology.network
    assert network.rates is not None
    if network.rates.packets is None:
        raise ArgError(
            f"model: npe needs a table of packet sizes, and network '{network.name}' has none; "
            "state rates.packets, or use the model flow or link"
        )
    table = packet_table(network.rates.packets)
    assert table is not None
    single = np.float32
    size = np.array([one for one, _ in table], np.int64)
    rate = np.array([one for _, one in table], np.float32)
    most = rate.max()
    bytes_of_packet = traffic.nbytes // traffic.packets
    found = np.full(len(traffic), rate[-1], np.float32)
    inside = bytes_of_packet <= size[-1]
    # The first interval that holds the size: one on its border belongs to the interval before.
    at = np.clip(np.searchsorted(size, bytes_of_packet, side="left") - 1, 0, len(size) - 2)
    low, high = size[at].astype(single), size[at + 1].astype(single)
    part = (bytes_of_packet.astype(single) - low) / (high - low)
    steady = (rate[at + 1] - rate[at]) * part + rate[at]
    rest = (traffic.packets - 1).astype(single) / traffic.packets.astype(single)
    first = (1.0 - rest.astype(np.float64)).astype(single)
    found[inside] = (first * most + rest * steady)[inside]
    return found


def _need_bytes(traffic: Traffic, topology: Topology, model: str) -> None:
    if topology.network.rates is None:
        raise ArgError(
            f"model: {model} needs rates of bytes, and network '{topology.network.name}' states "
            "flits alone; state rates, or use the model link"
        )
    if len(traffic) and not traffic.nbytes.all():
        raise ArgError(
            f"traffic: is in flits, which model {model} on network '{topology.network.name}' does "
            "not know; give a column 'bytes'"
        )


def _refuse_multicast(traffic: Traffic, model: str) -> None:
    many = np.flatnonzero(traffic.last != traffic.destination)
    if len(many):
        raise ArgError(
            f"last[{int(many[0])}]: the model {model} has no multicast; send to every place "
            "separately, or use the model npe"
        )
