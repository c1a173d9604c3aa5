"""Lower bounds of a run: true on random programs, and the numbers of small ones by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as draw

import stepsim as st
from stepsim.explain.speed_of_light import Resource, speed_of_light
from tests.explain.known_answers import KNOWN_ANSWERS, parallel_loads, single_requests
from tests.functional.random_programs import random_program
from tests.property_profile import profile

_MACHINES = draw.fixed_dictionaries(
    {
        "hbm.model": draw.sampled_from(["published", "interleaved", "uncontended"]),
        "hbm.channels": draw.sampled_from([1, 2, 3, 8, 32]),
        "hbm.interval": draw.sampled_from([1, 2, 9]),
        "hbm.latency": draw.sampled_from([0, 2, 100]),
        "hbm.startup": draw.sampled_from([0, 14]),
        "hbm.request_bytes": draw.sampled_from([1, 4, 64]),
        "onchip.bytes_per_cycle": draw.sampled_from([1, 3, 64]),
    }
)
_FREE_MEMORY = {"hbm.channels": 1024, "hbm.interval": 1, "hbm.latency": 0, "hbm.startup": 0}
_FREE_ONCHIP = {"onchip.bytes_per_cycle": 1 << 20}


def _bounds(prepared: st.simulation.Prepared) -> dict[str, Resource]:
    return {one.kind: one for one in speed_of_light(prepared).resources}


@pytest.mark.slow
@profile(30)
@given(
    seed=draw.integers(0, 10_000),
    overrides=_MACHINES,
    depth=draw.sampled_from([2, 5, 1 << 20]),
)
def test_no_run_is_shorter_than_a_bound(
    seed: int, overrides: dict[str, object], depth: int
) -> None:
    prepared = st.prepare(
        random_program(seed), st.load_machine("sda-1024", overrides), fifo_depth=depth
    )
    done = prepared.execute()
    if done.totals.status != "ok":
        return
    light = speed_of_light(prepared, done=done)
    assert light.cycles == done.totals.cycles
    for one in light.resources:
        assert 0 < one.bound <= light.cycles, one
        assert one.used > 0
        assert 0 <= one.share <= 1, one
    assert light.largest is None or light.distance >= 0


@pytest.mark.slow
@profile(40)
@given(seed=draw.integers(0, 10_000), overrides=_MACHINES)
def test_a_bound_holds_when_all_else_is_free(seed: int, overrides: dict[str, object]) -> None:
    program = random_program(seed)
    if any("Merge" in op.unit_kind for op in program.operators):
        return  # what is computed depends on who comes first
    machine = st.load_machine("sda-1024", overrides)
    prepared = st.prepare(program, machine, fifo_depth=1 << 20)
    done = prepared.execute()
    if done.totals.status != "ok":
        return
    bounds = {one.kind: one for one in speed_of_light(prepared, done=done).resources}
    units = done.tables().unit_columns
    computing = {
        name: math.inf for name, flops in zip(units["name"], units["flops"], strict=True) if flops
    }

    def cycles(changes: dict[str, object], compute: dict[str, float]) -> int:
        other = prepared.changed(machine=st.load_machine(machine, changes), compute=compute)
        return other.run().cycles

    only_memory = cycles(_FREE_ONCHIP, computing)
    only_compute = cycles({**_FREE_ONCHIP, **_FREE_MEMORY}, {})
    only_onchip = cycles(_FREE_MEMORY, computing)
    for kind, shortest in {
        "hbm_bandwidth": only_memory,
        "hbm_latency": only_memory,
        "hbm_port": only_memory,
        "compute": only_compute,
        "onchip_bandwidth": only_onchip,
    }.items():
        assert kind not in bounds or bounds[kind].bound <= shortest, kind


def test_the_bus_counts_whole_requests() -> None:
    bounds = _bounds(st.prepare(*KNOWN_ANSWERS[0].before()))
    bus = bounds["hbm_bandwidth"]
    # 8 loads of 16 tiles of 128 requests on 32 channels, one every other cycle.
    assert bus.used == 8 * 16 * 128 * 64
    assert bus.bound == (8 * 16 * 128 // 32 - 1) * 2 + 3 + 16 + 3
    assert bus.peak == 1024 * math.ceil(1055 / 2) * 2


def test_narrow_rows_fill_whole_requests() -> None:
    with st.Program("narrow") as program:
        st.linear_load(st.spec(100, 8, name="x"), tile=(1, 8), label="rows").consume()
    bus = _bounds(st.prepare(program))["hbm_bandwidth"]
    assert bus.used == 100 * 64  # and 1,600 bytes of payload


def test_a_lone_port_is_at_its_bound() -> None:
    light = speed_of_light(st.prepare(single_requests()))
    assert light.largest is not None
    assert light.largest.kind == "hbm_latency"
    assert light.largest.bound == light.cycles == 1903
    assert light.distance == 0
    assert (light.largest.used, light.largest.unit) == (100, "accesses")


def test_a_port_of_wide_tiles_is_bound_by_what_it_issues() -> None:
    with st.Program("wide") as program:
        st.linear_load(st.spec(256, 512, name="x"), tile=(64, 512), label="x").consume()
    light = speed_of_light(st.prepare(program))
    assert light.largest is not None
    # 4 tiles of 64 rows of 16 requests, one in each cycle.
    assert (light.largest.kind, light.largest.target) == ("hbm_port", "x#0")
    assert light.largest.bound == light.cycles == 4 * (64 * 16 + 18) + 3


def test_each_port_has_a_memory_of_its_own() -> None:
    machine = st.load_machine("sda-1024", {"hbm.model": "uncontended"})
    assert "hbm_bandwidth" not in _bounds(st.prepare(parallel_loads(), machine))


@pytest.mark.parametrize(
    ("position", "kind", "target", "bound"),
    [(2, "compute", "product#4", 16 * 2048), (3, "onchip_bandwidth", "product#4", 16 * 1024)],
)
def test_an_operator_is_bound_by_compute_or_by_its_operands(
    position: int, kind: str, target: str, bound: int
) -> None:
    found = _bounds(st.prepare(*KNOWN_ANSWERS[position].before()))[kind]
    assert (found.target, found.bound) == (target, bound)


def test_a_program_without_work_has_no_bound() -> None:
    with st.Program("nothing") as program:
        pass
    light = speed_of_light(st.prepare(program))
    assert light.largest is None
    assert light.distance is None


def test_table_and_json_say_the_same() -> None:
    light = speed_of_light(st.prepare(*KNOWN_ANSWERS[0].before()))
    rows = light.table.to_pylist()
    assert [row["bound_cycles"] for row in rows] == [one.bound for one in light.resources]
    assert [one["bound"] for one in light.to_dict()["resources"]] == [
        row["bound_cycles"] for row in rows
    ]
