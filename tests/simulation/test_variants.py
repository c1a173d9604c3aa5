"""Variants of a program: each is the run that its change gives on its own."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as hs

import stepsim as st
from stepsim.errors import ArgError, MachineError
from stepsim.machine import load_machine
from stepsim.results import STALLS_SCHEMA
from tests.property_profile import profile
from tests.simulation.drawn_programs import drawn_programs
from tests.simulation.programs import centered
from tests.simulation.test_changed_speeds import scalable
from tests.simulation.test_many import COLUMNS, two_experts

WIDE = load_machine("sda-1024", {"hbm.channels": 64})


def assert_runs(table: Any, runs: list[st.Result]) -> None:
    """Every row is the result of a run of its own."""
    assert table.num_rows == len(runs)
    for row, run in zip(table.to_pylist(), runs, strict=True):
        assert {name: row[name] for name in COLUMNS} == {
            name: getattr(run, name) for name in COLUMNS
        }


def drawn_variants(data: Any, program: st.Program) -> list[st.Variant]:
    prepared = st.prepare(program)
    fifos = [fifo.name for fifo in prepared.wiring.fifos]
    units = scalable(prepared)
    found = []
    for number in range(data.draw(hs.integers(1, 4))):
        change: dict[str, Any] = {}
        if data.draw(hs.booleans()):
            change["fifo_depths"] = data.draw(
                hs.dictionaries(hs.sampled_from(fifos), hs.sampled_from((1, 2, 9, None)))
            )
        if units and data.draw(hs.booleans()):
            change["compute"] = data.draw(
                hs.dictionaries(hs.sampled_from(units), hs.sampled_from((0.5, 4, math.inf)))
            )
        if data.draw(hs.booleans()):
            change["machine"] = data.draw(hs.sampled_from((WIDE, "sda-2026", "sda-hdl")))
        found.append(st.Variant(f"v{number}", fifo_depth=3, **change))
    return found


@pytest.mark.slow
@profile(30)
@given(drawn_programs(), hs.data())
def test_every_variant_is_its_own_run(program: st.Program, data: Any) -> None:
    variants = drawn_variants(data, program)
    limits = st.Limits(max_cycles=50_000, max_steps=50_000)
    table = st.simulate_many(program, variants=variants, limits=limits, threads=2)
    runs = []
    for one in variants:
        machine = one.machine or "sda-1024"
        changed = st.prepare(program, machine, fifo_depth=3).changed(
            fifo_depths=one.fifo_depths, compute=one.compute
        )
        runs.append(changed.result(limits=limits))
    assert_runs(table, runs)
    assert table["variant"].to_pylist() == [one.name for one in variants]


def test_variants_go_with_machines_depths_and_bindings() -> None:
    program, routing = two_experts()
    stacked = np.random.default_rng(1).integers(0, 2, (3, 10, 1))
    name = scalable(st.prepare(program))[0]
    variants = [st.Variant("as it is"), st.Variant("fast", compute={name: 8})]
    table, units = st.simulate_many(
        program, {routing: stacked}, machines=["sda-1024", "sda-hdl"], fifo_depths=[2, 4],
        variants=variants, units=True,
    )  # fmt: skip
    runs = [
        st.prepare(program, machine, fifo_depth=depth)
        .changed(compute=one.compute)
        .result({routing: stacked[b]})
        for machine in ("sda-1024", "sda-hdl")
        for depth in (2, 4)
        for one in variants
        for b in range(3)
    ]
    assert_runs(table, runs)
    assert table["machine_index"].to_pylist() == [0] * 12 + [1] * 12
    assert table["binding"].to_pylist() == [0, 1, 2] * 8
    assert table["number"].to_pylist() == list(range(24))
    own = units.filter(units["number"].to_numpy() == 17).drop_columns("number")
    assert own == runs[17].units.select(STALLS_SCHEMA.names)


def test_a_variant_may_bind_what_the_call_leaves_open() -> None:
    program, routing = two_experts()
    split, lopsided = np.arange(10)[:, np.newaxis] % 2, np.zeros((10, 1), int)
    variants = [
        st.Variant("even", bindings={routing: split}),
        st.Variant("one", bindings={routing: lopsided}),
    ]
    table = st.simulate_many(program, variants=variants)
    assert_runs(table, [st.simulate(program, bindings={routing: one}) for one in (split, lopsided)])
    said = json.loads(table.schema.metadata[b"provenance"])["variants"]
    assert [one["name"] for one in said] == ["even", "one"]
    assert said[0]["bindings"] != said[1]["bindings"]
    with pytest.raises(ArgError, match=r"variant 'bare': .*has no indices"):
        st.simulate_many(program, variants=[*variants, st.Variant("bare")])


def test_bindings_of_a_variant_replace_those_of_every_run() -> None:
    program, routing = two_experts()
    given = [{routing: np.zeros((10, 1), int)}, {routing: np.ones((10, 1), int)}]
    own = np.arange(10)[:, np.newaxis] % 2
    table = st.simulate_many(
        program, given, variants=[st.Variant("own", bindings={routing: own}), st.Variant("given")]
    )
    both = [{routing: own}, {routing: own}, *given]
    assert_runs(table, [st.simulate(program, bindings=one) for one in both])


def test_a_machine_of_a_variant_has_no_index() -> None:
    variants = [st.Variant("wide", machine=WIDE), st.Variant("as it is")]
    table = st.simulate_many(centered(8), variants=variants)
    assert table["machine_index"].to_pylist() == [None, 0]
    assert_runs(table, [st.simulate(centered(8), WIDE), st.simulate(centered(8))])


def test_tables_without_variants_stay_as_they_were() -> None:
    table = st.simulate_many(centered(8))
    assert "variant" not in table.column_names
    assert not table.schema.field("machine_index").nullable


def test_a_deadlock_of_one_variant_leaves_the_others_alone() -> None:
    deeper = st.Variant("deeper", fifo_depths={"x#0>1": 8})
    table = st.simulate_many(centered(2), variants=[st.Variant("as it is"), deeper])
    assert table["status"].to_pylist() == ["deadlock", "ok"]


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        ("wide", "variants must be a list of Variant"),
        ([], "variants is empty"),
        (["wide"], r"variants\[0\] must be a Variant, found 'wide'"),
        ([st.Variant("a"), st.Variant("a")], r"variants\[1\] and variants\[0\] are both named 'a'"),
        ([st.Variant("a", fifo_depths={"x#9": 2})], "variant 'a': .*no FIFO 'x#9'"),
        ([st.Variant("a", compute={"x#9": 2})], "variant 'a': .*'x#9', which is not an operator"),
        ([st.Variant("a", bindings={"r": [[0]]})], "variant 'a': .*keys of bindings are Routing"),
    ],
)
def test_wrong_variants_are_refused(variants: Any, message: str) -> None:
    with pytest.raises(ArgError, match=message):
        st.simulate_many(centered(8), variants=variants)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": 3}, "the name of a variant must be a string"),
        ({"name": ""}, "the name of a variant is empty"),
        ({"fifo_depth": 0}, "variant 'v': fifo_depth must be an int from 1"),
        ({"fifo_depths": 3}, "variant 'v': fifo_depths must be a mapping"),
        ({"compute": [2]}, "variant 'v': compute must be a mapping"),
        ({"bindings": [2]}, "variant 'v': bindings must be a mapping"),
    ],
)
def test_wrong_values_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgError, match=message):
        st.Variant(**{"name": "v", **given})


def test_an_unknown_machine_is_named() -> None:
    with pytest.raises(MachineError, match="variant 'v': unknown machine 'sda'"):
        st.Variant("v", machine="sda")


def test_a_variant_with_a_machine_goes_with_one() -> None:
    wide = [st.Variant("wide", machine=WIDE)]
    with pytest.raises(ArgError, match=r"'wide' sets its own machine.*all 2 machines"):
        st.simulate_many(centered(8), machines=["sda-1024", "sda-hdl"], variants=wide)
    with pytest.raises(ArgError, match=r"'deep' sets its own fifo_depth.*all 2 fifo_depths"):
        st.simulate_many(
            centered(8), fifo_depths=[2, 4], variants=[st.Variant("deep", fifo_depth=8)]
        )
