"""Recorded runs on several chips: equal to unrecorded ones, and true to what crossed links."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given

import stepsim as st
from stepsim.errors import ArgError
from tests.property_profile import profile
from tests.simulation.chip_programs import chip_machine, chip_programs, reduced


@profile(40, thorough=500)
@given(chip_programs())
def test_recorded_runs_are_the_same(case: tuple[st.Program, st.Machine]) -> None:
    program, target = case
    plain = st.simulate(program, target)
    run = st.simulate(program, target, record=True)
    assert (run.status, run.cycles, run.tokens) == (plain.status, plain.cycles, plain.tokens)
    times = ["name", "firings", "final_clock", "busy", "wait_input", "wait_output", "wait_memory"]
    assert run.units.select(times).equals(plain.units.select(times))
    if run.carried is None:
        return
    assert run.links().equals(plain.links())
    events = run.events
    assert events is not None
    assert len(events.chips) == len(events.units)
    sent = np.zeros(len(events.ports), np.int64)
    np.add.at(sent, events.passed["port"], events.passed["end"] - events.passed["begin"])
    names = [f"chip {one}" for one in range(len(run.chips()))] + ["the switch"]
    links = {
        f"{names[one['from_device']]} to {names[one['to_device']]}": one["link_busy_cycles"]
        for one in run.links().to_pylist()
        if one["link_messages"]
    }
    assert dict(zip(events.ports, sent.tolist(), strict=True)) == links
    again = events.passed["port"][1:] == events.passed["port"][:-1]
    assert (events.passed["begin"][1:] >= events.passed["end"][:-1])[again].all()


def test_the_load_of_links_over_time_adds_up() -> None:
    run = st.simulate(reduced(4), chip_machine(chips__gib_per_s=5), record=True)
    busy: dict[str, float] = {}
    for row in run.link_timeline(7).to_pylist():
        assert 0 <= row["link_load"] <= 1
        spent = row["link_load"] * (row["end"] - row["begin"])
        busy[row["link_name"]] = busy.get(row["link_name"], 0) + spent
    for link in run.links().to_pylist():
        name = f"chip {link['from_device']} to chip {link['to_device']}"
        assert busy.get(name, 0) == pytest.approx(link["link_busy_cycles"])
    time = run.timeline(1).to_pylist()[0]
    ends = [row for row in run.units.to_pylist() if row["operator"] == "ReceiveMessage"]
    waited = sum(row["wait_memory"] for row in ends)
    assert time["units_waiting_network"] == pytest.approx(waited / run.cycles)
    plain = st.simulate(reduced(4), chip_machine())
    with pytest.raises(ArgError, match="was not recorded"):
        plain.link_timeline()


def test_the_memories_of_chips_serve_at_the_same_time() -> None:
    def timeline(chips: tuple[int, ...]) -> tuple[st.Result, list[dict[str, float]]]:
        with st.Program("loads", compute_bw=1 << 20, par_dispatch=64) as program:
            for chip in chips:
                for number in range(3):
                    with st.chip(chip):
                        x = st.linear_load(st.spec(4096, 64, name=f"{number}@{chip}"), (64, 64))
                        x.flatten(0, 1).consume()
        run = st.simulate(program, chip_machine(), record=True)
        return run, run.timeline(7).to_pylist()

    (one, alone), (two, both) = timeline((0,)), timeline((0, 2))
    assert one.cycles == two.cycles
    assert two.bandwidth_utilization is not None
    assert one.bandwidth_utilization == two.bandwidth_utilization
    assert two.bandwidth_utilization > 0.7
    for single, double in zip(alone, both, strict=True):
        assert double["offchip_bytes_per_cycle"] == 2 * single["offchip_bytes_per_cycle"]
        assert double["offchip_share"] == single["offchip_share"] <= 1
        rate = double["offchip_bytes_per_cycle"]
        assert double["offchip_share"] == pytest.approx(rate / two.peak_bandwidth)


def test_messages_are_raw_events(tmp_path: Path) -> None:
    run = st.simulate(reduced(4), chip_machine(), record=True)
    st.results.write_events(run, tmp_path / "events.parquet")
    rows = pq.read_table(tmp_path / "events.parquet").to_pylist()
    sent = [row for row in rows if row["event"] == "message"]
    links = run.links().to_pylist()
    assert len(sent) == sum(link["link_messages"] for link in links)
    assert sum(row["end"] - row["begin"] for row in sent) == sum(
        link["link_busy_cycles"] for link in links
    )
    assert {row["about"] for row in sent} <= {row["name"] for row in run.fifos.to_pylist()}
    assert "flits" not in {row["event"] for row in rows}


def test_a_run_stopped_between_chips_still_waits_for_its_messages() -> None:
    limits = st.Limits(max_cycles=700)
    run = st.simulate(reduced(4, rows=512), chip_machine(), record=True, limits=limits)
    assert run.status == "limit"
    for row in run.units.to_pylist():
        parts = ("busy", "wait_input", "wait_output", "wait_memory", "before", "after")
        assert sum(row[part] for part in parts) == run.cycles, row["name"]
    assert run.events is not None
    assert len(run.events.passed)
    assert (run.events.passed["end"] <= run.cycles).all()
