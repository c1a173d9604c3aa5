"""A prepared program runs exactly as ``simulate`` does, whatever is bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.kernels.layout import Payload
from stepsim.lowering import Image, build_image, lower
from stepsim.machine import load_machine
from stepsim.simulation import Limits, prepare, simulate
from stepsim.trace_io import synthetic_routing
from stepsim.workloads import Attention, Moe, Swiglu
from stepsim.workloads.models import MoEShape
from tests.layers import built

TINY = MoEShape("tiny", experts=6, active=2, model_dim=64, inner_dim=64)


def table(seed: int, skew: float = 1.0) -> Any:
    return synthetic_routing(12, TINY.experts, TINY.active, seed=seed, skew=skew).experts


def layer(tile: int | str = 4, regions: int | None = None) -> Any:
    return built(Moe, rows=12, model=TINY, tile=tile, tile_inter=32, regions=regions)[0]


def assert_same(totals: Any, result: Any) -> None:
    for name in (
        "status", "cycles", "offchip_bytes", "bus_bytes", "memory_requests", "flops", "tokens",
        "engine_steps", "peak_bandwidth",
    ):  # fmt: skip
        assert getattr(totals, name) == getattr(result, name), name
    assert totals.image_hash == result.provenance["image_hash"]


@pytest.mark.parametrize("tile", [1, 4, "dynamic"])
@pytest.mark.parametrize("regions", [6, 2, 1])
def test_every_binding_gives_the_run_of_simulate(tile: int | str, regions: int) -> None:
    work = layer(tile, regions)
    prepared = prepare(work.program)
    for seed, skew in ((1, 0.0), (2, 1.0), (3, 8.0), (1, 0.0)):
        bound = {work.routing: table(seed, skew)}
        assert_same(prepared.run(bound), simulate(work.program, bindings=bound))


def test_tables_and_provenance_are_those_of_simulate() -> None:
    work = layer()
    prepared = prepare(work.program)
    for seed in (5, 6):
        bound = {work.routing: table(seed)}
        once, again = (
            simulate(work.program, bindings=bound, seed=seed),
            prepared.result(bound, seed=seed),
        )
        assert again.units.equals(once.units)
        assert again.fifos.equals(once.fifos)
        assert again.provenance == once.provenance
        assert prepared.run_with_units(bound)[1].equals(once.units)


def test_the_image_is_that_of_a_network_built_with_the_routing() -> None:
    # Layout afresh, without placeholders: what a prepared program must equal.
    work = layer("dynamic", 2)
    prepared = prepare(work.program)
    for seed in (1, 2):
        bound = {work.routing: table(seed)}
        _, network = lower(work.program, load_machine("sda-1024"), bound)
        assert_alike(prepared.image(bound), build_image(network))


def assert_alike(image: Image, afresh: Image) -> None:
    """Equal but for the numbers of selectors: equal flags may have several."""
    for name in ("units", "channels", "ports", "memory_table"):
        assert (getattr(image, name) == getattr(afresh, name)).all(), name
    assert image.scratch_words == afresh.scratch_words
    assert image.channel_names == afresh.channel_names
    assert (image.globals == afresh.globals).all()
    assert (image.slots == afresh.slots).all()
    assert (image.tokens["form"] == afresh.tokens["form"]).all()
    selects = image.slots["kind"][image.tokens["form"]] == Payload.SELECTOR
    values, afresh_values = image.tokens["value"], afresh.tokens["value"]
    assert (values == afresh_values)[~selects].all()
    for a, b in zip(values[selects], afresh_values[selects], strict=True):
        assert image.selectors[a] == afresh.selectors[b]
    params, others = image.params[: image.selectors_at], afresh.params[: afresh.selectors_at]
    for a, b in zip(params[params != others], others[params != others], strict=True):
        assert image.selectors[a] == afresh.selectors[b]


def test_machine_and_depth_are_respected() -> None:
    work = layer()
    bound = {work.routing: table(5)}
    for machine, depth in (("sda-hdl", None), ("sda-1024", 7)):
        prepared = prepare(work.program, machine=machine, fifo_depth=depth)
        result = simulate(work.program, machine=machine, fifo_depth=depth, bindings=bound)
        assert_same(prepared.run(bound), result)
        assert prepared.fifo_depth == result.provenance["fifo_depth"]


def test_programs_without_routing_and_with_constant_selectors() -> None:
    programs = [
        built(Swiglu, batch=8, hidden=16, intermediate=32, tile=4, tile_inter=8)[0].program,
        built(
            Attention,
            kv_lengths=[40, 3, 64, 10],
            model="qwen3-30b-a3b",
            strategy="dynamic",
            regions=2,
        )[0].program,
    ]
    with st.Program("constant", compute_bw=64) as program:
        x = st.linear_load(st.spec(4, 8), (1, 8), shape=(4, 1), stride=(1, 1))
        flags = np.array([[1, 0], [0, 1], [1, 1], [0, 1]])
        for part in st.partition(x.flatten(0, x.rank), st.selector(flags), rank=0):
            st.consume(part)
    for each in [*programs, program]:
        prepared = prepare(each)
        assert_same(prepared.run(), simulate(each))
        assert_same(prepared.run(), simulate(each))


def test_indices_of_the_program_are_the_default() -> None:
    with st.Program("routed", compute_bw=64) as program:
        routing = st.routing([[0], [1], [1], [0]], experts=2)
        x = st.linear_load(st.spec(4, 8), (1, 8)).flatten(0, 1)
        for part in st.partition(x, routing.multihot()):
            st.linear_store(part)
    prepared = prepare(program)
    assert_same(prepared.run(), simulate(program))
    assert prepared.image().digest() == prepared.image({routing: [[0], [1], [1], [0]]}).digest()
    other = {routing: [[1], [1], [1], [0]]}
    assert_same(prepared.run(other), simulate(program, bindings=other))
    assert prepared.image(other).digest() != prepared.image().digest()


def test_a_run_that_does_not_end_well_says_why() -> None:
    work = layer()
    totals = prepare(work.program).run({work.routing: table(1)}, limits=Limits(max_cycles=100))
    assert (totals.status, totals.limit) == ("limit", "max_cycles")
    assert "stopped by the limit max_cycles" in totals.reason


@pytest.mark.parametrize("attribute", ["compute_bw", "label"])
def test_an_operator_that_is_changed_behind_the_block_counts(attribute: str) -> None:
    def program() -> st.Program:
        with st.Program("scaled", compute_bw=1024) as made:
            x = st.linear_load(st.spec(64, 64), (16, 64))
            st.linear_store(x.map(st.fn.silu, label="first"), "out")
        return made

    def change(of: st.Program) -> None:
        (operator,) = (op for op in of.operators if op.label == "first")
        setattr(operator, attribute, {"compute_bw": 1, "label": "second"}[attribute])

    run, fresh = program(), program()
    before = simulate(run)
    assert simulate(run).provenance == before.provenance
    change(run)
    change(fresh)
    after, expected = simulate(run), simulate(fresh)
    assert (after.cycles, after.provenance) == (expected.cycles, expected.provenance)
    assert after.units.equals(expected.units)
    assert not after.units.equals(before.units)
    assert run.fingerprint() == fresh.fingerprint()
    assert (run.fingerprint() != program().fingerprint()) == (attribute == "compute_bw")


def test_a_program_that_is_not_changed_is_prepared_once() -> None:
    with st.Program("copy") as program:
        st.linear_store(st.linear_load(st.spec(64, 64), (16, 16)))
    first = program.kept("thing", object)
    simulate(program)
    program.metrics()
    assert program.kept("thing", object) is first


def test_the_machine_may_be_the_second_argument() -> None:
    with st.Program("copy") as program:
        st.linear_store(st.linear_load(st.spec(64, 64), (16, 16)))
    found = simulate(program, "sda-2026").provenance["machine"]
    assert found == simulate(program, machine="sda-2026").provenance["machine"]
    assert found != simulate(program).provenance["machine"]
    assert prepare(program, "sda-2026").machine == load_machine("sda-2026")
