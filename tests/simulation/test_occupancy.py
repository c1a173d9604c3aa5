"""Occupancy of recorded runs: counted again, event by event in plain Python."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as hs

import stepsim as st
from stepsim.errors import ArgError
from stepsim.graph import Program
from stepsim.kernels.layout import Cause, Payload
from stepsim.simulation import Prepared, prepare
from tests.property_profile import profile
from tests.simulation.drawn_programs import drawn_programs, grown

Moves = dict[int, list[tuple[int, int]]]
"""Changes of slots and bytes, by cycle."""


def sent_of(run: Any, fifo: int) -> list[int]:
    """When tokens were sent: one cycle before their stamp, but for those noted as later."""
    noted = [(e["clock"], e["stamp"]) for e in run.record.late if e["fifo"] == fifo]
    found = []
    for stamp in run.tokens(fifo)["stamp"].tolist():
        if noted and noted[0][1] == stamp:
            found.append(int(noted.pop(0)[0]))
        else:
            found.append(stamp - 1)
    assert not noted
    return found


def size_of(run: Any, token: Any) -> int:
    if token["kind"] == Payload.TUPLE:
        header = int(token["value"])
        members = run.execution.slots[header + 1 :][: run.execution.slots[header]["rows"]]
        return sum(size_of(run, member) for member in members)
    return -(-int(token["rows"]) * int(token["cols"]) * int(token["bits"]) // 8)


def moves_of(run: Any, fifo: int) -> Moves:
    cycles, moves = run.totals.cycles, defaultdict(list)
    received = int(run.execution.channels[fifo]["removed"])
    for number, (token, sent) in enumerate(zip(run.tokens(fifo), sent_of(run, fifo), strict=True)):
        size = size_of(run, token)
        moves[min(sent, cycles)].append((1, size))
        freed = int(token["rel"]) if number < received else cycles
        moves[min(freed, cycles)].append((-1, -size))
    return moves


def occupancy_of(run: Any, fifo: int) -> dict[str, Any]:
    """The columns of a FIFO, from what lies in it in every stretch without a change."""
    cycles, moves = run.totals.cycles, moves_of(run, fifo)
    cap = int(run.execution.channels[fifo]["cap"])
    count = size = 0
    found: dict[str, Any] = dict.fromkeys(
        ("peak_tokens", "peak_bytes", "full_cycles", "empty_cycles"), 0
    )
    slots = area = 0
    for at, then in pairwise(sorted({0, *moves, cycles})):
        count += sum(slot for slot, _ in moves.get(at, []))
        size += sum(one for _, one in moves.get(at, []))
        assert 0 <= count <= cap
        length = then - at
        slots += count * length
        area += size * length
        found["peak_tokens"] = max(found["peak_tokens"], count)
        found["peak_bytes"] = max(found["peak_bytes"], size)
        found["full_cycles"] += length * (count == cap)
        found["empty_cycles"] += length * (count == 0)
    found["mean_tokens"] = pytest.approx(slots / cycles if cycles else 0)
    found["mean_bytes"] = pytest.approx(area / cycles if cycles else 0)
    return found


def recorded(prepared: Prepared) -> tuple[st.Result, Any]:
    return (
        prepared.result(record=True),
        prepared.execute(keep_tokens=True, record=True),
    )


@pytest.mark.slow
@profile(50, 1000)
@given(drawn_programs(), hs.integers(1, 6))
def test_fifos_are_as_full_as_an_event_list_says(program: Program, depth: int) -> None:
    result, run = recorded(prepare(program, fifo_depth=depth))
    rows = result.fifos.to_pylist()
    for fifo, row in enumerate(rows):
        expected = occupancy_of(run, fifo)
        assert {name: row[name] for name in expected} == expected


@profile(50, 500)
@given(drawn_programs(), hs.integers(1, 2))
def test_producers_wait_while_a_fifo_is_full(program: Program, depth: int) -> None:
    result, run = recorded(prepare(program, fifo_depth=depth))
    waits = run.record.waits
    events = result.events
    for wait in waits[waits["cause"] == Cause.SLOT]:
        own = events.tokens(int(wait["fifo"]))
        sent, freed = events.sent[own], events.freed[own]
        for at in (wait["begin"], wait["end"] - 1):
            there = ((sent <= at) & (at < freed)).sum()
            assert there == events.depths[wait["fifo"]]


def test_an_unbounded_fifo_is_never_full() -> None:
    with Program("one", compute_bw=4) as program:
        st.linear_load(st.spec(8, 8), tile=(4, 4)).flatten(0, 1).map(st.fn.silu).consume()
    result = prepare(program).changed(fifo_depths={"silu#2": None}).result(record=True)
    depths = dict(zip(result.fifos["name"].to_pylist(), result.fifos.to_pylist(), strict=True))
    assert depths["silu#2"]["full_cycles"] is None
    assert depths["silu#2"]["peak_tokens"] == 1
    assert depths["linear_load#0"]["full_cycles"] == 0


def excess(result: st.Result) -> int:
    """Bytes of buffers beyond the two that the requirement counts for every operator."""
    events, found = result.events, 0
    for unit, held in enumerate(result.units["peak_buffers"].to_pylist()):
        own = events.buffers[events.buffers["unit"] == unit]
        found += max(held - 2, 0) * int(own["nbytes"].max(initial=0))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "seeds", [range(60), pytest.param(range(60, 200), marks=pytest.mark.slow)], ids=["few", "more"]
)
def test_no_more_is_in_use_than_the_operators_need(seeds: range) -> None:
    compared = exceeded = 0
    for seed in seeds:
        program = grown(Random(seed).randint, 24)
        result = prepare(program, fifo_depth=2).result(record=True)
        peak = result.onchip_peak_bytes
        try:
            bound = program.metrics().bind({}).on_chip_memory
        except ArgError:
            continue
        if peak is None or result.status != "ok":
            continue
        compared += 1
        exceeded += peak > bound
        assert peak <= bound + excess(result), seed
    assert compared >= 0.3 * len(seeds)
    assert exceeded < compared / 4


def test_buffers_are_in_use_from_their_first_tile_to_their_last_reader() -> None:
    with Program("buffers", compute_bw=64) as program:
        x = st.linear_load(st.spec(64, 64), tile=(16, 16))
        x.bufferize(1).streamify(repeat=3).map(st.fn.silu).consume()
    result = st.simulate(program, record=True, fifo_depth=2)
    row = next(r for r in result.units.to_pylist() if r["name"].startswith("bufferize"))
    # Two wait in the FIFO, the head is being read, and a third one is being filled.
    assert row["peak_buffers"] == 3
    assert row["peak_buffer_bytes"] == 3 * 4 * 512
    assert row["onchip_peak_bytes"] == 3 * 4 * 512 + 512
    shallow = st.simulate(program, record=True, fifo_depth=1)
    assert max(shallow.units["peak_buffers"].to_pylist()) == 2
    assert shallow.onchip_peak_bytes <= program.metrics().bind({}).on_chip_memory


def test_a_run_that_was_not_recorded_is_not_measured() -> None:
    program = grown(Random(1).randint, 8)
    result = st.simulate(program)
    for table, columns in (
        (result.fifos, ("mean_tokens", "peak_tokens", "mean_bytes", "peak_bytes", "full_cycles")),
        (result.units, ("onchip_peak_bytes", "peak_buffers", "peak_buffer_bytes")),
        (result.to_arrow(), ("onchip_peak_bytes",)),
    ):
        for column in columns:
            assert table[column].null_count == len(table)
    with pytest.raises(ArgError, match="was not recorded; use simulate"):
        result.timeline()


@pytest.mark.slow
def test_recording_changes_nothing_else() -> None:
    for seed in range(20):
        prepared = prepare(grown(Random(seed).randint, 16), fifo_depth=2)
        plain, noted = prepared.result(), prepared.result(record=True)
        for name in ("status", "cycles", "offchip_bytes", "flops", "tokens", "engine_steps"):
            assert getattr(plain, name) == getattr(noted, name)
        same = [c for c in plain.units.column_names if plain.units[c].null_count < len(plain.units)]
        assert plain.units.select(same) == noted.units.select(same)


def test_a_single_tile_is_in_use_while_it_is_worked_on() -> None:
    with Program("one tile", compute_bw=64) as program:
        x, w = (st.linear_load(st.spec(16, 16), tile=(16, 16)) for _ in range(2))
        st.linear_store(st.map(st.fn.matmul, x, w), "y")
    result = st.simulate(program, record=True)
    begun, ended = result.events.started, result.events.final_clocks
    product = result.units["name"].to_pylist().index("matmul#2")
    # Both loads at once; then the product, from the arrival of its operands for 2 * 16**3 FLOPs.
    assert begun.tolist()[:2] == [0, 0]
    assert ended[product] - begun[product] >= 2 * 16**3 // 64
    assert begun[product] >= max(ended[:2])
    assert result.onchip_peak_bytes == 2 * int(result.events.working[0])
