"""A prepared program with other FIFO depths is the program built with these depths."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as hs

import stepsim as st
from stepsim.errors import ArgError
from stepsim.lowering import Image, Network, build_image
from stepsim.lowering.rings import with_rings
from stepsim.simulation import Limits, Prepared, prepare
from stepsim.simulation.running.depth_runs import run_depths
from stepsim.simulation.running.image_run import run_image
from tests.oracle.random_networks import random_networks
from tests.property_profile import profile
from tests.simulation.drawn_programs import drawn_programs
from tests.small_programs import center

ARRAYS = [f.name for f in fields(Image) if "NDArray" in str(f.type)]
FINITE = hs.sampled_from([1, 2, 3, 4, 7, 16, 17, 40, 1024])
DEPTHS = FINITE | hs.none()


def assert_equal(image: Image, expected: Image) -> None:
    for name in ARRAYS:
        assert getattr(image, name).tobytes() == getattr(expected, name).tobytes(), name
    assert image.digest() == expected.digest()


def chosen(data: Any, fifos: list[Any], depths: Any = DEPTHS) -> dict[Any, int | None]:
    return data.draw(hs.dictionaries(hs.sampled_from(fifos), depths)) if fifos else {}


@pytest.mark.slow
@profile(30)
@given(random_networks(), hs.data())
def test_the_image_of_other_depths_is_that_of_their_network(network: Network, data: Any) -> None:
    image = build_image(network)
    choices = [chosen(data, list(range(len(network.channels)))) for _ in range(3)]
    limits = Limits(max_cycles=20_000, max_steps=20_000)
    runs = run_depths(image, choices, limits=limits)
    for run, depths in enumerate(choices):
        channels = [
            spec._replace(capacity=depths.get(number, spec.capacity))
            for number, spec in enumerate(network.channels)
        ]
        expected = build_image(replace(network, channels=tuple(channels)))
        assert_equal(with_rings(image, depths), expected)
        done = run_image(expected, network.timing, limits=limits)
        assert (runs.status[run], runs.cycles[run]) == (done.totals.status, done.totals.cycles)
        records = done.execution.channels
        assert runs.producer_wait[run].tolist() == records["wait_out"].tolist()
        assert runs.consumer_wait[run].tolist() == records["wait_in"].tolist()
        assert runs.blocked[run].tolist() == (records["pwait"] != 0).tolist()


@profile(30)
@given(drawn_programs(), hs.data())
def test_a_changed_program_is_the_one_built_with_these_depths(
    program: st.Program, data: Any
) -> None:
    prepared = prepare(program)
    wiring = prepared.wiring
    depths = chosen(data, [fifo.name for fifo in wiring.fifos], FINITE)
    fifos = tuple(replace(f, depth=depths.get(f.name, f.depth)) for f in wiring.fifos)
    built = Prepared(program, prepared.machine, None, replace(wiring, fifos=fifos))
    changed = prepared.changed(fifo_depths=depths)
    assert_equal(changed.image(), built.image())
    limits = Limits(max_cycles=20_000, max_steps=20_000)
    expected = built.run(limits=limits)
    runs = prepared.run_depths([{}, depths], limits=limits)
    assert (runs.status[1], runs.cycles[1]) == (expected.status, expected.cycles)
    first = prepared.run(limits=limits)
    assert (runs.status[0], runs.cycles[0]) == (first.status, first.cycles)


BYPASS = "linear_load#0>1"


def test_a_deeper_bypass_ends_the_deadlock() -> None:
    prepared = prepare(center())
    runs = prepared.run_depths([{BYPASS: 7}, {BYPASS: 8}, {BYPASS: None}])
    assert runs.status == ("deadlock", "ok", "ok")
    assert runs.blocked[0, prepared.fifo_numbers[BYPASS]]
    assert not runs.blocked[1:].any()
    assert prepared.changed(fifo_depths={BYPASS: 8}).run().status == "ok"
    assert prepared.run().status == "deadlock"


def test_changes_add_up_and_leave_the_first_as_it_was() -> None:
    prepared = prepare(center())
    once = prepared.changed(fifo_depths={BYPASS: 8, "add#5": 3})
    twice = once.changed(fifo_depths={"add#5": None})
    assert prepared.fifo_depths == {}
    assert once.fifo_depths == {BYPASS: 8, "add#5": 3}
    assert twice.fifo_depths == {BYPASS: 8, "add#5": None}
    depths = dict(
        zip(*(twice.result().fifos[c].to_pylist() for c in ("name", "depth")), strict=True)
    )
    assert (depths[BYPASS], depths["add#5"], depths["linear_load#0"]) == (8, None, 2)
    assert twice.result().provenance["fifo_depths"] == twice.fifo_depths
    assert "fifo_depths" not in prepared.result().provenance


def test_a_stated_depth_is_changed_when_it_is_named() -> None:
    prepared = prepare(center(4)).changed(fifo_depths={"add#5": 9})
    depths = prepared.result().fifos.select(["name", "depth"]).to_pylist()
    assert {"name": "add#5", "depth": 9} in depths


@pytest.mark.parametrize(
    ("depths", "message"),
    [
        ({"linear_load#0>2": 3}, "the program has no FIFO 'linear_load#0>2'; did you mean"),
        ({BYPASS: 0}, f"the depth of '{BYPASS}' must be an int from 1"),
        ({BYPASS: True}, f"the depth of '{BYPASS}' must be an int from 1"),
        ({BYPASS: 2**41}, f"the depth of '{BYPASS}' must be an int from 1"),
        ({3: 4}, "the program has no FIFO 3"),
        ([BYPASS], "must be a mapping from names of FIFOs to depths"),
    ],
)
def test_depths_that_are_none(depths: Any, message: str) -> None:
    prepared = prepare(center())
    with pytest.raises(ArgError, match=message):
        prepared.changed(fifo_depths=depths)
    with pytest.raises(ArgError, match=message):
        prepared.run_depths([{}, depths])


def test_routings_and_depths() -> None:
    with st.Program("routed", compute_bw=1024) as program:
        routing = st.routing(st.spec(8, 1), experts=2)
        rows = st.linear_load(st.spec(8, 64), tile=(1, 64)).flatten(0, 1)
        parts = st.partition(rows, routing.multihot())
        done = [part.map(st.fn.silu) for part in parts]
        st.linear_store(st.reassemble(done, routing.multihot()).flatten(0, 1), "out")
    prepared = prepare(program)
    depths = [dict.fromkeys(prepared.fifo_numbers, depth) for depth in (1, 2, 8)]
    for seed in range(4):
        bound = {routing: np.random.default_rng(seed).integers(0, 2, (8, 1))}
        runs = prepared.run_depths(depths, bound)
        expected = [prepared.changed(fifo_depths=one).run(bound) for one in depths]
        assert runs.cycles.tolist() == [one.cycles for one in expected]
