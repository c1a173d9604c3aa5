"""Recorded runs of placed programs: equal to unrecorded ones, and true to what crossed links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given

import stepsim as st
from stepsim.errors import ArgError
from stepsim.results import provenance_changes, stall_changes, stalls_of
from tests.placement.test_placed_runs import machine
from tests.property_profile import profile
from tests.simulation.placed_programs import placed_programs
from tests.small_programs import gated


def _gated(**options: Any) -> st.Result:
    program, target = gated(), machine()
    assert target.noc is not None
    rows = st.noc.Placement.row_major(program, target.noc)
    return st.simulate(program, target, place=rows, **options)


@pytest.mark.slow
@profile(40)
@given(placed_programs())
def test_recorded_runs_of_placed_programs_are_the_same(case: Any) -> None:
    program, target, placement = case
    plain = st.simulate(program, target, place=placement)
    run = st.simulate(program, target, place=placement, record=True)
    assert (run.status, run.cycles, run.tokens) == (plain.status, plain.cycles, plain.tokens)
    assert run.links().equals(plain.links())
    events = run.events
    assert events is not None
    passed = np.zeros(len(events.ports), np.int64)
    np.add.at(passed, events.passed["port"], events.passed["end"] - events.passed["begin"])
    for link in run.links().to_pylist():
        flits = passed[events.ports.index(link["link_name"])]
        assert flits == link["link_flits"] or (run.status != "ok" and flits <= link["link_flits"])
    again = events.passed["port"][1:] == events.passed["port"][:-1]
    assert (events.passed["begin"][1:] >= events.passed["end"][:-1])[again].all()


def test_the_load_of_links_over_time_adds_up() -> None:
    run = _gated(record=True)
    table = run.link_timeline(7).to_pylist()
    flits: dict[str, float] = {}
    for row in table:
        assert 0 <= row["link_load"] <= 1
        spent = row["link_load"] * (row["end"] - row["begin"])
        flits[row["link_name"]] = flits.get(row["link_name"], 0) + spent
    for link in run.links().to_pylist():
        assert flits.get(link["link_name"], 0) == pytest.approx(link["link_flits"])
    assert any(name.startswith("out of ") for name in flits)


def test_units_that_wait_for_packets_are_named() -> None:
    run = _gated(record=True)
    time = run.timeline(1).to_pylist()[0]
    ends = [row for row in run.units.to_pylist() if row["operator"] == "ReceivePacket"]
    waited = sum(row["wait_memory"] for row in ends)
    assert time["units_waiting_network"] == pytest.approx(waited / run.cycles)
    assert "the network on chip" in {row["longest_wait"] for row in ends}
    tree = st.results.stall_tree(run.units, run.fifos)
    causes = {one.operator: {c.cause: c.cycles for c in one.causes} for one in tree.operators}
    network = sum(each["network"].total for each in causes.values() if "network" in each)
    assert network == waited > 0
    assert "memory" in causes["linear_load"]


def test_flits_are_raw_events(tmp_path: Path) -> None:
    run = _gated(record=True)
    st.results.write_events(run, tmp_path / "events.parquet")
    rows = pq.read_table(tmp_path / "events.parquet").to_pylist()
    flits = [row for row in rows if row["event"] == "flits"]
    spent = sum(row["end"] - row["begin"] for row in flits if row["name"] == "(0, 0) east")
    links = {link["link_name"]: link["link_flits"] for link in run.links().to_pylist()}
    assert spent == links["(0, 0) east"] > 0
    assert {row["about"] for row in flits} <= {row["name"] for row in run.fifos.to_pylist()}
    assert "packet" in {row["wait_cause"] for row in rows if row["event"] == "wait"}


def test_loads_over_time_need_a_record_of_a_placed_run() -> None:
    with pytest.raises(ArgError, match="was not recorded"):
        _gated().link_timeline()
    with pytest.raises(ArgError, match="of placed programs"):
        st.simulate(gated(), machine(), record=True).link_timeline()
    with pytest.raises(ArgError, match="link_timeline: bins"):
        _gated(record=True).link_timeline(0)


def test_a_run_stopped_on_the_network_still_waits_for_its_packet() -> None:
    run = _gated(record=True, limits=st.Limits(max_cycles=400))
    assert run.status == "limit"
    units = {row["name"]: row for row in run.units.to_pylist()}
    for name, row in units.items():
        parts = ("busy", "wait_input", "wait_output", "wait_memory", "before", "after")
        assert sum(row[part] for part in parts) == run.cycles, name
    assert run.events is not None
    assert (run.events.passed["end"] <= run.cycles).all()


def test_compared_runs_name_places_and_the_network() -> None:
    program, target = gated(), machine()
    assert target.noc is not None
    rows = st.noc.Placement.row_major(program, target.noc)
    moved = st.noc.Placement(
        program, target.noc, {**rows.operators, "silu#2": 14}, rows.ports
    )  # fmt: skip
    before, after = (st.simulate(program, target, place=one) for one in (rows, moved))
    changed = provenance_changes(before.provenance, after.provenance)
    assert changed == ["place.operators.silu#2 2 -> 14"]
    stalls = [stalls_of(run.units, run.fifos) for run in (before, after)]
    for run, found in zip((before, after), stalls, strict=True):
        ends = [row for row in run.units.to_pylist() if row["operator"] == "ReceivePacket"]
        own = [causes.get("network", 0) for causes in found.values()]
        assert sum(own) == sum(row["wait_memory"] for row in ends) > 0
        assert not any("tokens and room" in causes for causes in found.values())
    assert stall_changes(*stalls)[0].cause in ("network", "memory", "work")
