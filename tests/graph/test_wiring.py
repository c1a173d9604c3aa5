"""Wiring: construction order, broadcasts, names, depths, feedback."""

from __future__ import annotations

import pytest

import stepsim.graph as st
from stepsim.errors import LoweringError
from stepsim.graph import fn

SPEC = st.spec(8, 64)


def load(label=None, ref=None):
    return st.linear_load(SPEC, (1, 64), shape=(8,), stride=(1,), ref=ref, label=label)


def names(wiring):
    return [u.name for u in wiring.units]


def test_a_source_enters_just_before_its_first_reader():
    with st.Program("order", compute_bw=1) as p:
        late = load("late")
        early = load("early")
        first = early.map(fn.silu, label="first")
        second = st.map(fn.add, first, late, label="second")
        st.linear_store(second, label="out")
    assert names(st.wire(p)) == ["early#1", "first#2", "late#0", "second#3", "out#4"]


def test_sources_of_one_reader_enter_in_input_order():
    with st.Program("order", compute_bw=1) as p:
        b, a = load("b"), load("a")
        st.map(fn.add, a, b, label="sum").consume(label="end")
    assert names(st.wire(p)) == ["a#1", "b#0", "sum#2", "end#3"]


def test_loads_with_a_reference_keep_their_place():
    with st.Program("order", compute_bw=1) as p:
        x = load("x")
        w = load("w", ref=x)
        x.consume(label="c")
        w.consume(label="d")
    assert names(st.wire(p)) == ["x#0", "w#1", "c#2", "d#3", "broadcast(x#0)"]


def test_one_broadcast_for_each_shared_output_in_reader_order():
    with st.Program("fan", compute_bw=1) as p:
        x = load("x").with_depth(16)
        a = x.map(fn.silu, label="a")
        st.map(fn.add, x, x, label="twice").consume()
        a.consume()
    wiring = st.wire(p)
    copy = wiring.units[-1]
    assert (copy.kind, copy.name, copy.operator) == ("Broadcast", "broadcast(x#0)", None)
    assert "test_wiring.py" in copy.source
    assert len(copy.inputs) == 1
    assert len(copy.outputs) == 3
    units = {u.name: u for u in wiring.units}
    assert units["a#1"].inputs == (copy.outputs[0],)
    assert units["twice#2"].inputs == copy.outputs[1:]
    around = [wiring.fifos[c] for c in (*copy.inputs, *copy.outputs)]
    assert [c.depth for c in around] == [16] * 4
    assert [c.name for c in around] == ["x#0", "x#0>0", "x#0>1", "x#0>2"]
    assert wiring.fifo_of(x) == copy.inputs[0]


def test_every_output_port_is_counted_by_itself():
    with st.Program("ports", compute_bw=1) as p:
        left, right = st.partition(load("x"), st.selector([[1, 0]] * 8), label="split")
        left.consume()
        left.map(fn.silu).consume()
        right.consume()
    wiring = st.wire(p)
    assert [u.name for u in wiring.units if u.kind == "Broadcast"] == ["broadcast(split#2.0)"]


def test_explicit_broadcasts_stay():
    with st.Program("explicit", compute_bw=1) as p:
        for x in st.broadcast(load("x"), 2, label="copy"):
            x.consume()
    kinds = [u.kind for u in st.wire(p).units]
    assert kinds.count("Broadcast") == 1
    assert kinds[-1] == "Consumer"


def test_an_explicit_broadcast_stands_in_for_an_inferred_one():
    """The same units, kinds and FIFOs; only the place of the copy differs."""

    def copied(explicit: bool) -> st.Wiring:
        with st.Program("copied", compute_bw=1) as p:
            x = load("x")
            left, right = st.broadcast(x, 2) if explicit else (x, x)
            st.map(fn.add, left, right).consume()
        return st.wire(p)

    given, inferred = copied(True), copied(False)
    assert sorted(u.kind for u in given.units) == sorted(u.kind for u in inferred.units)
    assert [u.kind for u in given.units].index("Broadcast") == 1
    assert inferred.units[-1].kind == "Broadcast"
    assert len(given.fifos) == len(inferred.fifos) == 4


def test_an_output_of_a_broadcast_that_is_read_twice_is_copied_once_more():
    with st.Program("nested", compute_bw=1) as p:
        left, right = st.broadcast(load("x"), 2, label="copy")
        left.consume()
        right.map(fn.silu).consume()
        right.consume()
    copies = [u for u in st.wire(p).units if u.kind == "Broadcast"]
    assert [(u.name, len(u.outputs)) for u in copies] == [("copy#1", 2), ("broadcast(copy#1.1)", 2)]


def test_every_channel_has_one_writer_and_one_reader():
    p, _ = cyclic()
    wiring = st.wire(p)
    reads = sorted(c for u in wiring.units for c in u.inputs)
    writes = sorted(c for u in wiring.units for c in u.outputs)
    assert reads == writes == list(range(len(wiring.fifos)))
    assert len(set(names(wiring))) == len(wiring.units)


def cyclic():
    """Dynamic parallelization in small: a region asks for work by a signal."""
    with st.Program("cyclic", compute_bw=1) as p:
        u64 = st.Tile.of("u64", 1, 1)
        work = st.linear_load(SPEC, (1, 64), shape=(8, 2), stride=(1, 0), label="work")
        free = [st.feedback(u64, [p.dim(f"d{i}")], label=f"free.{i}") for i in range(2)]
        data, which = st.eager_merge(free, label="ready")
        data.consume()
        start = st.selector([[[1, 0], [0, 1]]], label="start").flatten(0, 1)
        plan = st.reassemble([start, which], st.selector([[1, 0]] * 2 + [[0, 1]] * 6), label="plan")
        plan = plan.flatten(0, 1)
        for region, loop in zip(st.partition(work, plan, rank=1), free, strict=True):
            p.assume_equal(region.shape[0], loop.shape[0])
            region.map(fn.silu).consume()
            loop.connect(region.accum(fn.signal, 1))
    return p, free


def test_feedback_disappears_and_closes_the_cycle():
    p, free = cyclic()
    wiring = st.wire(p)
    units = {u.name.split("#")[0]: u for u in wiring.units}
    assert not any(u.kind == "?" for u in wiring.units)
    signals = [u for u in wiring.units if u.kind == "Accum"]
    assert units["ready"].inputs == tuple(u.outputs[0] for u in signals)
    assert wiring.fifo_of(free[0]) == signals[0].outputs[0]


def test_bound_indices_become_selectors():
    with st.Program("routed") as p:
        route = st.routing(st.spec(4, 1), experts=2)
        route.multihot(label="route").consume()
    table = [[0], [1], [1], [0]]
    assert st.wire(p, {route: table}).units[0].params["selectors"] == table


def test_open_programs_cannot_be_wired():
    program = st.Program("open")
    with pytest.raises(LoweringError, match="'open' is still open"):
        st.wire(program)


def test_units_know_their_operator_and_source():
    with st.Program("origin", compute_bw=1) as p:
        x = load("x")
        x.consume()
    unit = st.wire(p).units[0]
    assert unit.operator is x.producer
    assert "test_wiring.py:15" in unit.source  # the line inside load()
