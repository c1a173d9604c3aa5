"""Hypothesis strategies for random networks, and the reordering that must not matter."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import assume, reject, strategies as st

from stepsim.lowering.network import Network, UnitSpec
from tests.oracle.interpreter import OracleResult, TooLong, interpret
from tests.oracle.memory import READERS, WRITERS
from tests.oracle.payloads import integer
from tests.oracle.random_grower import Grower
from tests.oracle.random_merges import ALL_RULES, detour, eager_merge, split_and_join
from tests.oracle.random_ops import (
    Rule,
    accum,
    binary_map,
    binary_map_accum,
    broadcast,
    bufferize,
    flatten,
    nest,
    parallelize,
    partition,
    promote,
    reassemble,
    repeat_static,
    scan,
    streamify,
    unary_map,
    zip_,
)
from tests.oracle.random_records import (
    record_accum,
    record_map,
    record_map_accum,
    record_scan,
)
from tests.oracle.random_scans import accum_buffer, general_scan, row_stat, steered
from tests.oracle.random_streams import (
    Draw,
    Wire,
    element_of,
    level_lists,
    shape_of,
    timings,
)

__all__ = [
    "faulty_function_networks",
    "faulty_networks",
    "function_networks",
    "permute_order_free",
    "random_networks",
    "routed_networks",
    "scan_networks",
    "straight_networks",
    "without_deadlock",
]

_ROUTES = [partition, reassemble, split_and_join, eager_merge, broadcast, nest, parallelize]

_STRAIGHT: list[Rule] = [
    unary_map, binary_map, binary_map_accum, zip_, accum, scan, repeat_static, flatten, promote,
    bufferize, broadcast, streamify,
]  # fmt: skip


def _sink(g: Grower, w: Wire) -> None:
    """End an open wire; float streams of one tile shape and element often go to memory."""
    options = ["Consumer", "Hold"]
    shape = shape_of(w) if w.kind == "float" and w.multiset_exact else None
    element = None if shape is None else element_of(w)
    if shape is not None and shape[0] * shape[1] > 0 and element is not None:
        options += ["OffChipStore", "RandomOffChipStore", "OffChipStore", "OffChipStore"]
    op = g.pick(options)
    if op == "Hold":
        g.attach(op, {"n": g.pick([1, 0, 6, 20])}, [w], [])
    elif op == "Consumer" or shape is None:
        g.attach(op, {}, [w], [])
    elif op == "OffChipStore":
        g.attach(op, {"tile": list(shape), "par": g.pick([1, 2, 4])}, [w], [])
    else:
        count = len(w.content)
        address = g.given("int", [0] * count, [integer(i) for i in range(count)])
        params = {"tile": list(shape), "par": g.pick([1, 2, 4]), "ack_addr": g.flag()}
        acks = Wire("ack", [])
        g.attach(op, {**params, "bpe": element}, [address, w], [acks])
        g.attach("Consumer", {}, [acks], [])


def without_deadlock(network: Network) -> Network:
    """The same network with the channels made unbounded that a deadlock is stuck on."""
    while (result := _followed(network)).status == "deadlock":
        full = {
            spec.name
            for spec in network.channels
            if len(result.tokens[spec.name]) - result.removed[spec.name] == spec.capacity
        }
        if not full:
            return network
        channels = [
            spec._replace(capacity=None) if spec.name in full else spec for spec in network.channels
        ]
        network = replace(network, channels=tuple(channels))
    return network


def _followed(network: Network) -> OracleResult:
    """What the interpreter makes of a drawn network; one that it cannot follow is drawn anew."""
    try:
        return interpret(network)
    except TooLong:
        reject()


def _grow(g: Grower, max_steps: int, rules: Mapping[str, Sequence[Rule]] = ALL_RULES) -> Network:
    """Some sources, some operators, a sink for what is left open, units in any order."""
    for _ in range(g.integer(1, 3)):
        g.start()
    for _ in range(g.integer(0, max_steps)):
        wire = g.choose([w for w in g.open if rules[w.kind]])
        if wire is None:
            break
        # A rule may find the wire unfit; a few tries keep the networks from staying small.
        any(g.pick(list(rules[wire.kind]))(g, wire) for _ in range(4))
    for wire in list(g.open):
        _sink(g, wire)
    network = g.network()
    seed = g.integer(0, 7)
    if seed:
        units = list(network.units)
        random.Random(seed).shuffle(units)
        network = replace(network, units=tuple(units))
    return network


@st.composite
def random_networks(draw: Draw, max_steps: int = 10, max_slack: int = 2) -> Network:
    """Well-typed networks over the whole vocabulary in which every unit returns normally.

    FIFOs that are too shallow for paths that part and meet again are made unbounded.
    """
    return without_deadlock(_grow(Grower(draw, draw(timings(max_slack))), max_steps))


@st.composite
def straight_networks(draw: Draw, max_steps: int = 10) -> Network:
    """Networks of operators that have sent their last token when they take nothing more."""
    rules = {kind: [r for r in every if r in _STRAIGHT] for kind, every in ALL_RULES.items()}
    network = _grow(Grower(draw, draw(timings(2))), max_steps, rules)
    assume(not {spec.op for spec in network.units} & {"BypassLoad", "Counter"})
    return without_deadlock(network)


@st.composite
def routed_networks(draw: Draw, max_steps: int = 4) -> Network:
    """Networks in which tuples or buffers go through several routing operators."""
    g = Grower(draw, draw(timings(max_slack=1)))
    for _ in range(g.integer(1, 2)):
        wire = g.fresh("float", draw(level_lists(rank=g.integer(0, 2))))
        g.realise(wire)
        g.open.append(wire)
        g.pick([zip_, zip_, bufferize])(g, wire)
    for _ in range(g.integer(2, 6)):
        bundle = g.choose([w for w in g.open if w.kind in ("tuple", "buffer")])
        if bundle is None:
            break
        any(g.pick(_ROUTES)(g, bundle) for _ in range(4))
    return without_deadlock(_grow(g, max_steps))


@st.composite
def function_networks(draw: Draw, max_steps: int = 3) -> Network:
    """Networks of maps and reductions with random functions, of tiles and of tuples."""
    return without_deadlock(_functions(Grower(draw, draw(timings(max_slack=1))), max_steps))


@st.composite
def scan_networks(draw: Draw, max_steps: int = 3, faulty: bool = False) -> Network:
    """Networks of further scans and reductions, and of selectors made of numbers."""
    g = Grower(draw, draw(timings(max_slack=1)), loops=not faulty)
    for _ in range(g.integer(1, 3)):
        levels = g.draw(level_lists(rank=g.integer(0, 2)))
        if g.pick([True, True, False]):
            wire = g.fresh("float", levels, shapes=[g.pick([(4, 8), (1, 8), (8, 1)])] * len(levels))
            rule = g.pick([general_scan, row_stat, accum_buffer, general_scan])
        else:
            wire, rule = g.fresh("int", levels, low=0, high=7), steered
        g.realise(wire)
        g.open.append(wire)
        rule(g, wire)
    network = _grow(g, max_steps)
    return _damaged(draw, network, 1) if faulty else without_deadlock(network)


@st.composite
def faulty_function_networks(draw: Draw, max_steps: int = 2) -> Network:
    """The same with damaged sources, so that operands do not fit their functions."""
    network = _functions(Grower(draw, draw(timings()), loops=False), max_steps)
    return _damaged(draw, network, 1)


def _functions(g: Grower, max_steps: int) -> Network:
    for _ in range(g.integer(1, 2)):
        levels = g.draw(level_lists(rank=g.integer(0, 2)))
        wire = g.fresh("float", levels or [0, 0])
        g.realise(wire)
        g.open.append(wire)
        if g.flag():
            zip_(g, wire)
    for _ in range(g.integer(1, 4)):
        wire = g.choose([w for w in g.open if w.kind in ("float", "tuple")])
        if wire is None:
            break
        g.pick([record_map, record_accum, record_map_accum, record_scan])(g, wire)
    return _grow(g, max_steps)


def _damage(draw: Draw, unit: UnitSpec) -> UnitSpec:
    """One source with one token lost, doubled, re-levelled or of another shape."""
    tokens = list(unit.params["tokens"])
    k = draw(st.integers(0, len(tokens) - 1))
    params = dict(unit.params)
    what = draw(st.sampled_from(["level", "lose", "double", "shape"]))
    if what == "lose":
        del tokens[k]
    elif what == "double":
        tokens.insert(k, tokens[k])
    elif what == "shape" and "tile" in tokens[k]:
        rows, cols, bpe, rd, off = tokens[k]["tile"]
        tokens[k] = {**tokens[k], "tile": [rows + 1, cols, bpe, rd, off]}
    else:
        tokens[k] = {**tokens[k], "level": draw(st.integers(0, 3))}
    if "times" in params:
        times = (params["times"] + params["times"][-1:])[: len(tokens)]
        params["times"] = times
    return unit._replace(params={**params, "tokens": tokens})


@st.composite
def faulty_networks(draw: Draw, max_steps: int = 8) -> Network:
    """Networks made from good ones in which units often abort or block for ever.

    Shallow FIFOs around paths that part and meet again, and up to three damaged source tokens.
    """
    g = Grower(draw, draw(timings()), loops=False)
    shallow = draw(st.booleans())
    if shallow:
        wire = g.fresh("float", [0] * draw(st.integers(3, 8)) + [1])
        g.realise(wire)
        g.open.append(wire)
        detour(g, wire)
    network = _grow(g, max_steps)
    if shallow or draw(st.booleans()):
        capacity = draw(st.integers(1, 2))
        channels = [spec._replace(capacity=capacity) for spec in network.channels]
        network = replace(network, channels=tuple(channels))
    return _damaged(draw, network, 0)


def _damaged(draw: Draw, network: Network, least: int) -> Network:
    """The network with ``least`` to three damaged source tokens."""
    units = list(network.units)
    for _ in range(draw(st.integers(least, 3))):
        sources = [i for i, unit in enumerate(units) if unit.params.get("tokens")]
        if sources:
            i = draw(st.sampled_from(sources))
            units[i] = _damage(draw, units[i])
    return replace(network, units=tuple(units))


def permute_order_free(network: Network, seed: int) -> Network:
    """The same network, units in another order.

    Memory readers keep their order among themselves, and so do writers; nothing else has an order.
    """
    units = list(network.units)
    random.Random(seed).shuffle(units)
    for group in (READERS, WRITERS):
        ordered = iter([unit for unit in network.units if unit.op in group])
        units = [next(ordered) if unit.op in group else unit for unit in units]
    return replace(network, units=tuple(units))
