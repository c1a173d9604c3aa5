"""Recorded runs over time: bins against every cycle, sums against totals."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stepsim as st
from stepsim.errors import ArgError, OutputError
from stepsim.results.columns import COLUMNS
from stepsim.results.events import Events
from stepsim.results.raw_events import EVENTS_SCHEMA, write_events
from stepsim.results.timeline import bandwidth
from stepsim.simulation import prepare
from tests.simulation.drawn_programs import grown


def runs() -> list[st.Result]:
    drawn = [prepare(grown(Random(s).randint, 20), fifo_depth=2) for s in range(40)]
    found = [one.result(record=True) for one in drawn]
    return [one for one in found if one.status == "ok" and one.cycles > 20]


@pytest.fixture(scope="module")
def recorded() -> list[st.Result]:
    found = runs()
    assert len(found) > 20
    return found


def lengths(table: pa.Table) -> np.ndarray[Any, Any]:
    return table["end"].to_numpy() - table["begin"].to_numpy()


@pytest.mark.slow
def test_bins_follow_each_other_up_to_the_end(recorded: list[st.Result]) -> None:
    for result in recorded:
        table = result.timeline(7)
        assert table["begin"].to_pylist() == [0, *table["end"].to_pylist()[:-1]]
        assert table["end"].to_pylist()[-1] == result.cycles
        assert lengths(table).max() - lengths(table).min() <= 1
        assert len(result.timeline(10**6)) == result.cycles


@pytest.mark.slow
@pytest.mark.parametrize("bins", [1, 7, 10**6])
def test_bins_add_up_to_the_totals(recorded: list[st.Result], bins: int) -> None:
    for result in recorded:
        table = result.timeline(bins)

        def total(name: str, table: pa.Table = table) -> Any:
            return pytest.approx((table[name].to_numpy() * lengths(table)).sum(), rel=1e-9)

        units = result.units.to_pylist()
        assert result.offchip_bytes == total("offchip_bytes_per_cycle")
        assert sum(u["busy"] for u in units) == total("units_working")
        assert sum(u["wait_output"] for u in units) == total("units_waiting_output")
        assert sum(u["wait_memory"] for u in units) == total("units_waiting_memory")
        worked = sum(u["flops"] for u in units if u["busy"])
        assert worked == total("flops_per_cycle")
        assert max(table["offchip_share"].to_pylist()) <= 1 + 1e-9


@pytest.mark.slow
def test_values_of_single_cycles(recorded: list[st.Result]) -> None:
    for result in recorded:
        events, table = result.events, result.timeline(10**6)
        picked = range(0, result.cycles, max(1, result.cycles // 20))
        for at in picked:
            row = table.slice(at, 1).to_pylist()[0]
            for name, expected in at_cycle(events, at).items():
                assert row[name] == pytest.approx(expected, abs=1e-6), (name, at)


def at_cycle(events: Events, at: int) -> dict[str, float]:
    """What is there in one cycle, looked up one by one."""
    tokens = [
        int(size)
        for sent, freed, size in zip(events.sent, events.freed, events.nbytes, strict=True)
        if sent <= at < min(freed, events.cycles)
    ]
    held = sum(int(b["nbytes"]) for b in events.buffers if b["begin"] <= at < b["end"])
    held += sum(
        int(size)
        for size, begin, end in zip(
            events.working, events.started, events.final_clocks, strict=True
        )
        if begin <= at < end
    )
    waits = [w for w in events.waits if w["begin"] <= at < w["end"]]
    found = {
        "fifo_slots_in_use": len(tokens),
        "fifo_bytes_in_use": sum(tokens),
        "units_waiting_output": sum(events.causes[w["cause"]] == "slot" for w in waits),
        "units_working": int((events.final_clocks > at).sum()) - len(waits),
        "outstanding_requests": sum(
            int(a["requests"]) for a in events.accesses if a["begin"] <= at < a["end"]
        ),
    }
    return found if (events.working < 0).any() else found | {"onchip_bytes_in_use": held}


def test_a_memory_that_is_asked_for_more_serves_at_its_peak() -> None:
    with st.Program("loads", compute_bw=64) as program:
        for _ in range(16):
            st.linear_load(st.spec(512, 256), tile=(64, 256)).consume()
    result = st.simulate(program, "sda-1024", record=True)
    slow = prepare(program).changed(machine=st.load_machine("sda-1024", {"hbm.channels": 4}))
    bound = slow.result(record=True)
    table = bound.timeline(20)
    assert bound.cycles > 4 * result.cycles / 2
    middle = table["offchip_share"].to_pylist()[2:-2]
    assert min(middle) > 0.9
    assert min(table["queued_requests"].to_pylist()[2:-2]) > 0


def test_bandwidth_in_order_of_arrival_cycle_by_cycle(recorded: list[st.Result]) -> None:
    """A queue that serves so many requests per cycle, stepped."""
    for result in recorded[:10]:
        events = result.events
        if not len(events.accesses):
            continue
        served = queue(events)
        found = bandwidth(events, np.arange(result.cycles + 1))
        assert np.cumsum(found) == pytest.approx(np.cumsum(served), abs=1e-6)


def queue(events: Events) -> list[float]:
    waiting: list[list[float]] = []  # requests, bytes for each
    served = []
    memory = events.memory
    for at in range(events.cycles):
        now: list[tuple[float, float]] = []
        for a in events.accesses:
            cycles = -(-int(a["requests"]) // int(memory.bundle[a["unit"]]))
            if a["begin"] + 1 <= at < a["begin"] + 1 + cycles:
                now.append((a["requests"] / cycles, a["nbytes"] / a["requests"]))
        if now:
            # Requests of one cycle are served together.
            count = sum(n for n, _ in now)
            waiting.append([count, sum(n * b for n, b in now) / count])
        room = events.memory.per_cycle or float("inf")
        done = 0.0
        while waiting and room > 0:
            part = min(room, waiting[0][0])
            done += part * waiting[0][1]
            room -= part
            waiting[0][0] -= part
            if waiting[0][0] <= 1e-12:
                waiting.pop(0)
        served.append(done)
    return served


@pytest.mark.parametrize("bins", [0, -1, 10**6 + 1, 2.5, "10", True])
def test_numbers_of_bins(recorded: list[st.Result], bins: Any) -> None:
    with pytest.raises(ArgError, match="timeline: bins"):
        recorded[0].timeline(bins)


def test_raw_events(recorded: list[st.Result], tmp_path: Path) -> None:
    for result in recorded[:10]:
        path = tmp_path / "events.parquet"
        count = write_events(result, path)
        table = pq.read_table(path)
        assert len(table) == count
        events, rows = result.events, table.to_pylist()
        by_kind = {k: [r for r in rows if r["event"] == k] for k in ("work", "wait", "token")}
        work = sum(r["end"] - r["begin"] for r in by_kind["work"])
        assert work == sum(result.units["busy"].to_pylist())
        assert len(by_kind["token"]) == result.tokens
        assert sum(r["nbytes"] for r in rows if r["event"] == "access") == result.offchip_bytes
        assert len(by_kind["wait"]) == len(events.waits)
        assert {r["wait_cause"] for r in by_kind["wait"]} <= set(events.causes)
        about = table.schema.metadata
        assert int(about[b"cycles"]) == result.cycles
        assert json.loads(about[b"provenance"])["program_hash"] == result.provenance["program_hash"]
        assert about[b"schema"] == b"stepsim.events"


def test_the_columns_are_in_the_dictionary(recorded: list[st.Result]) -> None:
    for name in (*recorded[0].timeline(3).column_names, *EVENTS_SCHEMA.names):
        assert COLUMNS[name].metadata[b"definition"]


def test_events_that_cannot_be_written(recorded: list[st.Result], tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write"):
        write_events(recorded[0], tmp_path / "no" / "events.parquet")
    assert list(tmp_path.iterdir()) == []
