"""Every row of a what-if is a rerun of its own, and says what to do."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as hs

import stepsim as st
from stepsim.errors import ArgError
from stepsim.explain import critical_path, explain
from stepsim.explain.changes.candidates import balanced
from stepsim.explain.changes.runs import WhatIf, what_if
from stepsim.machine import load_machine
from tests.explain.known_answers import KNOWN_ANSWERS, KnownAnswer, one_product
from tests.property_profile import profile
from tests.simulation.drawn_programs import drawn_programs
from tests.simulation.programs import centered
from tests.simulation.test_many import two_experts

PRICES = {
    "costs.hbm_channel": 2, "costs.hbm_bytes_per_cycle": 0.01, "costs.onchip_byte": 1e-4,
    "costs.onchip_bytes_per_cycle": 0.5, "costs.flops_per_cycle": 0.001,
}  # fmt: skip


def assert_reruns(
    found: WhatIf,
    prepared: st.simulation.Prepared,
    bindings: Any = None,
    limits: st.Limits | None = None,
) -> None:
    """Every row is the run of the program with the change made, by itself."""
    base = prepared.run(bindings, limits=limits)
    assert found.cycles == base.cycles
    rows = found.table.to_pylist()
    assert [row["change"] for row in rows] == list(found.variants)
    assert [row["change"] for row in rows] == [change.name for change in found.changes]
    assert [row["place"] for row in rows] == list(range(1, len(rows) + 1))
    for row in rows:
        variant = found.variants[row["change"]]
        own = {**(bindings or {}), **(variant.bindings or {})}
        run = variant.applied(prepared).result(own, limits=limits)
        after = run.cycles if run.status == "ok" else None
        assert (row["status"], row["cycles"]) == (run.status, after), row["change"]
        if after is not None:
            assert row["gain_cycles"] == base.cycles - after
            assert row["gain"] == (base.cycles - after) / base.cycles
        assert row["description"]


@pytest.mark.slow
@profile(30)
@given(drawn_programs(), hs.sampled_from(("sda-1024", "sda-hdl")), hs.sampled_from((2, 3, None)))
def test_every_row_is_a_rerun(program: st.Program, machine: str, depth: int | None) -> None:
    prepared = st.prepare(program, machine, fifo_depth=depth)
    limits = st.Limits(max_cycles=100_000)
    if prepared.run(limits=limits).status != "ok" or not prepared.run(limits=limits).cycles:
        return
    found = what_if(prepared, most=2, threads=1, limits=limits)
    assert found.table.num_rows >= 3
    assert_reruns(found, prepared, limits=limits)


@pytest.mark.parametrize("case", KNOWN_ANSWERS, ids=lambda case: case.name)
def test_rows_of_programs_with_a_known_answer_are_reruns(case: KnownAnswer) -> None:
    program, machine = case.before()
    prepared = st.prepare(program, machine)
    if prepared.run().status == "ok":
        assert_reruns(what_if(prepared), prepared)


def small_moe() -> tuple[st.simulation.Prepared, Any]:
    program, routing = two_experts()
    return st.prepare(program), {routing: np.zeros((10, 1), int)}


def test_a_balanced_routing_is_one_of_the_changes() -> None:
    prepared, bindings = small_moe()
    found = what_if(prepared, bindings=bindings)
    assert_reruns(found, prepared, bindings)
    (change,) = (one for one in found.changes if one.kind == "balance")
    (even,) = (change.bindings or {}).values()
    assert np.bincount(even.ravel()).tolist() == [5, 5]
    assert change.target == "routing"


@pytest.mark.parametrize(("rows", "k", "experts"), [(7, 3, 5), (8, 2, 8), (4, 4, 4), (1, 1, 9)])
def test_balanced_indices_differ_in_a_row_and_load_alike(rows: int, k: int, experts: int) -> None:
    with st.Program("routed"):
        table = st.routing(st.spec(rows, k), experts)
    indices = balanced(table)
    assert indices.shape == (rows, k)
    assert all(len(set(row)) == k for row in indices.tolist())
    loads = np.bincount(indices.ravel(), minlength=experts)
    assert loads.max() - loads.min() <= 1


def wide_and_narrow(left: int = 64, right: int = 64) -> st.Program:
    """Two products in a row of the same length, so that speeding one up brings little."""
    with st.Program("two", compute_bw=1 << 20, fifo_depth=64) as program:
        numbers = st.linear_load(st.spec(512, 16), tile=(16, 16)).flatten(0, 1)
        for lane in range(3):
            numbers = numbers.map(st.fn.silu, compute_bw=left + lane, label=f"silu.{lane}")
        numbers = numbers.map(st.fn.exp, compute_bw=right, label="exp")
        st.linear_store(numbers, "y")
    return program


def test_operators_are_grouped_as_users_think_of_them() -> None:
    prepared = st.prepare(wide_and_narrow())
    found = what_if(prepared, threads=1)
    targets = {change.target: change for change in found.changes if change.kind == "compute"}
    lanes = [unit.name for unit in prepared.wiring.units if unit.name.startswith("silu.")]
    every = [*lanes, next(u.name for u in prepared.wiring.units if u.name.startswith("exp"))]
    assert sorted(targets["silu.*"].targets) == sorted(lanes)
    assert sorted(targets["every operator"].targets) == sorted(every)
    assert targets["every operator"].apply.startswith("compute_bw=")


def test_the_text_of_a_change_gives_what_it_measured() -> None:
    prepared = st.prepare(wide_and_narrow())
    found = what_if(prepared)
    for row, change in zip(found.table.to_pylist(), found.changes, strict=True):
        if change.overrides and not change.parts:
            options = change.apply.split("--set ")[1:]
            texts = dict(option.strip().split("=") for option in options)
            machine = load_machine("sda-1024", texts)
            assert st.simulate(wide_and_narrow(), machine).cycles == row["cycles"]


def test_pairs_are_tried_where_no_single_change_helps() -> None:
    case = KNOWN_ANSWERS[-1]
    program, machine = case.before()
    prepared = st.prepare(program, machine)
    fifos = [fifo.name for fifo in prepared.wiring.fifos]
    deep = [name for name in fifos if name.partition("#")[0] in case.targets]
    assert len(deep) == 2
    own = [st.Variant(name, fifo_depths={name: 24}) for name in deep]
    found = what_if(prepared, changes=own)
    assert_reruns(found, prepared)
    first, *singles = found.table.to_pylist()
    assert (first["kind"], first["cycles"]) == ("combined", case.changed_cycles)
    assert all(row["gain"] < 0.01 for row in singles)
    assert found.changes[0].parts == tuple(deep)
    alone = what_if(prepared, changes=own, pairs=False)
    assert "combined" not in alone.table["kind"].to_pylist()


def test_where_no_fifo_helps_alone_the_one_that_is_waited_for_longest_is_paired() -> None:
    prepared = st.prepare(one_product())
    found = what_if(prepared, pairs=True, most=3)
    fifos = st.simulate(one_product()).fifos
    waits = zip(fifos["name"].to_pylist(), fifos["producer_wait"].to_pylist(), strict=True)
    held = dict(waits)
    singles = {
        one.name: held[one.targets[0]]
        for one in found.changes
        if one.kind == "fifo_depth" and one.buildable and one.target != "the program"
    }
    paired = {part for one in found.changes for part in one.parts} & singles.keys()
    assert len(set(singles.values())) > 1
    assert {singles[name] for name in paired} == {max(singles.values())}


def test_changes_of_the_user_are_measured_alone_and_in_pairs() -> None:
    prepared = st.prepare(wide_and_narrow())
    names = [unit.name for unit in prepared.wiring.units]
    exp = next(name for name in names if name.startswith("exp"))
    own = [
        st.Variant("faster exp", compute={exp: 4}),
        st.Variant("64 channels", machine=load_machine("sda-1024", {"hbm.channels": 64})),
        st.Variant("deep", fifo_depth=128),
    ]
    found = what_if(prepared, changes=own, pairs=True)
    assert_reruns(found, prepared)
    assert found.table.num_rows == 6
    assert sorted(found.table["kind"].to_pylist()) == ["combined"] * 3 + ["custom"] * 3
    apply = {change.name: change.apply for change in found.changes}
    assert apply["64 channels"] == "--set hbm.channels=64"
    assert apply["faster exp"] == f"4 x compute_bw of {exp}"
    assert "faster exp and 64 channels" in apply


def test_gain_per_cost_ranks_where_the_machine_states_costs() -> None:
    prepared = st.prepare(wide_and_narrow(), load_machine("sda-1024", PRICES))
    found = what_if(prepared)
    rows = {row["change"]: row for row in found.table.to_pylist()}
    assert rows["twice the HBM channels"]["cost"] == pytest.approx(64 + 0.01 * 1024)
    assert rows["twice the HBM bandwidth"]["cost"] == pytest.approx(0.01 * 1024)
    assert rows["twice the on-chip bandwidth"]["cost"] == pytest.approx(32)
    assert rows["twice the compute of silu.*"]["cost"] == pytest.approx(0.001 * (64 + 65 + 66))
    bounds = [row for row in rows.values() if not row["buildable"]]
    assert bounds
    assert all(row["cost"] is row["gain_per_cost"] is None for row in bounds)
    large = [row for row in found.table.to_pylist() if (row["gain"] or 0) >= 0.01]
    ratios = [row["gain_per_cost"] for row in large if row["gain_per_cost"] is not None]
    assert len(ratios) > 1
    assert ratios == sorted(ratios, reverse=True)
    assert all(row["gain_per_cost"] is not None for row in large[: len(ratios)])


def test_the_price_of_deeper_fifos_is_that_of_their_slots() -> None:
    machine = load_machine("sda-1024", PRICES)
    prepared = st.prepare(centered(8), machine)
    deeper = st.Variant("deeper", fifo_depths={"x#0>1": 11})
    found = what_if(prepared, changes=[deeper], pairs=False)
    tile = 16 * 64 * 2
    assert found.table["cost"].to_pylist() == [pytest.approx(1e-4 * 3 * tile)]


def test_a_resource_without_a_price_has_no_cost() -> None:
    machine = load_machine("sda-1024", {"costs.flops_per_cycle": 1})
    found = what_if(st.prepare(wide_and_narrow(), machine))
    costs = zip(found.changes, found.table["cost"].to_pylist(), strict=True)
    priced = {one.kind for one, cost in costs if cost is not None and not one.parts}
    assert priced == {"compute"}


def test_a_setting_of_the_program_adds_nothing_to_the_cost_of_a_pair() -> None:
    found = what_if(st.prepare(wide_and_narrow(), load_machine("sda-1024", PRICES)))
    rows = {row["change"]: row for row in found.table.to_pylist()}
    first, alone = found.changes[0], rows["twice the compute of every operator"]
    assert {rows[part]["kind"] for part in first.parts} == {"compute", "hbm_port"}
    assert rows[first.name]["cost"] == alone["cost"]
    assert rows[first.name]["gain"] > 5 * alone["gain"]
    assert set(first.par_dispatch.values()) == {16}


def test_a_run_that_does_not_end_well_cannot_be_compared() -> None:
    with pytest.raises(ArgError, match="this one has status deadlock"):
        what_if(st.prepare(centered(2)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pairs": 1}, "pairs must be True, False or None"),
        ({"most": -1}, "most must be an int from 0"),
        ({"threads": 0}, "threads must be an int from 1"),
        ({"changes": []}, "variants is empty"),
        ({"limits": 3}, "limits must be Limits or None"),
        ({"most": 3, "changes": [st.Variant("x")]}, "most=3 is for the changes that what_if makes"),
    ],
)
def test_wrong_arguments_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgError, match=message):
        what_if(st.prepare(centered(8)), **given)


def test_the_text_tells_gains_and_what_to_do() -> None:
    text = str(what_if(st.prepare(wide_and_narrow()), threads=1))
    assert text.startswith("what if, for two: ")
    assert "twice the compute of every operator" in text
    assert "compute_bw=" in text
    assert "other change" in text


def test_what_uses_no_memory_has_no_change_of_it() -> None:
    with st.Program("numbers", compute_bw=1) as program:
        st.counter(50).repeat(3).consume()
    kinds = {change.kind for change in what_if(st.prepare(program)).changes}
    assert not kinds & {"hbm_bandwidth", "hbm_channels", "hbm_latency", "compute", "balance"}


def narrow_port(par_dispatch: int = 1) -> st.Program:
    """Tiles of 256 requests from one port, one of which starts in a cycle."""
    with st.Program("narrow", compute_bw=1 << 20, par_dispatch=par_dispatch) as program:
        st.linear_load(st.spec(64 * 16, 128), tile=(64, 128), label="rows").consume()
    return program


def test_a_memory_port_that_decides_is_made_wider() -> None:
    found = st.why(narrow_port())
    assert found.verdict.kind == "hbm_port"
    first = found.suggestions[0]
    assert (first.kind, first.targets) == ("hbm_port", ("rows#0",))
    assert first.cycles == st.simulate(narrow_port(64)).cycles < 0.2 * found.cycles
    assert first.change.apply == "par_dispatch=64 of every load and store"
    assert first.variant.described()["par_dispatch"] == {"rows#0": 64}
    twice = next(one for one in found.suggestions if one.target == "rows#0")
    assert twice.cycles == st.simulate(narrow_port(2)).cycles < 0.6 * found.cycles
    assert twice.change.apply == "par_dispatch=2 of rows#0"
    again = st.why(narrow_port(64)).speed_of_light
    changed = explain(first.variant.applied(st.prepare(narrow_port()))).speed_of_light
    assert again is not None
    assert changed is not None
    assert changed.to_dict() == again.to_dict()


def test_no_limit_is_the_largest_number() -> None:
    prepared = st.prepare(wide_and_narrow())
    free = next(one for one in what_if(prepared).changes if math.inf in one.compute.values())
    rates = free.variant(prepared.machine).applied(prepared).compute_bw
    assert set(rates.values()) == {1 << 50}


def test_another_machine_of_the_user_is_run_as_it_is() -> None:
    program = wide_and_narrow()
    priced = load_machine("sda-1024", PRICES)
    slow = load_machine("sda-1024", {"hbm.latency": 99})
    own = [
        st.Variant("x", machine="sda-2026"),
        st.Variant("slow", machine=slow),
        st.Variant("as before"),
    ]
    for base in ("sda-1024", priced):
        prepared = st.prepare(program, base)
        found = what_if(program, base, changes=own, pairs=True)
        assert_reruns(found, prepared)
        rows = {row["change"]: row for row in found.table.to_pylist()}
        assert rows["x"]["cycles"] == st.simulate(program, "sda-2026").cycles
        assert rows["slow"]["cycles"] == st.simulate(program, slow).cycles
        assert found.variants["x"].machine == load_machine("sda-2026")
        assert found.variants["slow"].machine == slow
        assert rows["x"]["description"] == "the machine sda-2026"
        both = load_machine("sda-2026", {"hbm.latency": 99})
        assert rows["x and slow"]["cycles"] == st.simulate(program, both).cycles
        assert rows["x"]["cost"] is rows["slow"]["cost"] is None


def test_a_program_and_its_machine_will_do() -> None:
    program = wide_and_narrow()
    found = what_if(program, "sda-2026", most=1, fifo_depth=3)
    assert found.cycles == st.simulate(program, "sda-2026", fifo_depth=3).cycles
    with pytest.raises(ArgError, match="has its machine, depths and places already"):
        what_if(st.prepare(program), "sda-2026")
    with pytest.raises(ArgError, match="Program"):
        what_if("x")  # type: ignore[arg-type]


def test_a_path_is_that_of_the_run() -> None:
    program = wide_and_narrow()
    prepared = st.prepare(program)
    path = critical_path(prepared)
    other = path.segments.set_column(3, "operator", [["x#1"] * path.segments.num_rows])
    for wrong, message in (
        ("x", "path must be a CriticalPath or None, found 'x'"),
        (critical_path(centered(8)), "path is that of another run"),
        (critical_path(program, limits=st.Limits(max_cycles=100)), "that ended with limit"),
        (replace(path, segments=other), "another program: 'x#1' is not among the operators"),
    ):
        with pytest.raises(ArgError, match=message):
            what_if(prepared, path=wrong)  # type: ignore[arg-type]
    found = what_if(prepared, path=path)
    errors = zip(found.changes, found.table["prediction_error"].to_pylist(), strict=True)
    assert sum(error is None and not change.par_dispatch for change, error in errors) < 3


def test_fifos_between_the_same_two_operators_have_names_of_their_own() -> None:
    with st.Program("own parts", compute_bw=64, fifo_depth=1) as program:
        flags = st.selector(np.array([[1, 0], [1, 1], [0, 1], [1, 1], [1, 1]]))
        for part in st.partition(flags, flags):
            part.repeat(9).consume()
    found = what_if(program, "sda-1024", most=50)
    names = found.table["change"].to_pylist()
    assert "twice the depth of selector#0 -> partition#1 (FIFO selector#0>0)" in names
    assert len(set(names)) == len(names) == len(found.variants)
