"""Runs that do not end well: what is said about them, and what goes on around them."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim as st
from stepsim.results import Diagnosis
from stepsim.simulation import simulate, simulate_network
from tests.oracle.build import NetBuilder
from tests.oracle.example import tile_tokens
from tests.simulation.programs import centered, uneven

PLAIN = [1, 16, 2, 0]


def split_and_join(depth: int | None) -> NetBuilder:
    """A buffer of four tiles on one side of a join; the other side must hold them meanwhile."""
    b = NetBuilder(capacity=1)
    b.channel("y", depth)
    b.unit("source", "Gen", [], ["a"], tokens=tile_tokens(PLAIN, [0, 0, 0, 1]))
    b.unit("fan", "Broadcast", ["a"], ["x", "y"])
    b.unit("collect", "Bufferize", ["x"], ["buffer"], rank=1)
    b.unit("stream", "Streamify", ["buffer"], ["back"], rank=1, repeat=[])
    b.unit("map", "BinaryMap", ["back", "y"], ["z"], fn=["Mul"], bw=1024, wb=False)
    b.unit("sink", "Consumer", ["z"], [])
    return b


def diagnosed(result: st.Result) -> Diagnosis:
    assert result.diagnosis is not None
    assert result.diagnosis.status == result.status
    return result.diagnosis


def test_deadlock_of_a_split_and_a_join() -> None:
    result = simulate_network(split_and_join(1).network())
    assert result.status == "deadlock"
    found = diagnosed(result)
    assert found.summary == "deadlock: 6 of 6 units are blocked and nothing can run"
    assert [str(wait) for wait in found.circular_wait] == [
        "fan waits for map to make room in 'y' [1/1]",
        "map waits for stream to send on 'back' [0/1]",
        "stream waits for collect to send on 'buffer' [0/1]",
        "collect waits for fan to send on 'x' [0/1]",
    ]
    assert found.deepen == ["y"]
    assert {wait.unit for wait in found.waits} == set(result.units["name"].to_pylist())
    others = [wait for wait in found.waits if wait.unit in ("source", "sink")]
    assert [(wait.peer, wait.reason, wait.held, wait.depth) for wait in others] == [
        ("fan", "slot", 1, 1), ("map", "token", 0, 1)
    ]  # fmt: skip


@pytest.mark.parametrize("depth", [4, None])
def test_a_deeper_fifo_mends_it(depth: int | None) -> None:
    result = simulate_network(split_and_join(depth).network())
    assert result.status == "ok"
    assert result.diagnosis is None
    assert set(result.units["state"].to_pylist()) == {"done"}


def test_deadlock_of_a_program_names_the_lines() -> None:
    result = simulate(centered())
    assert result.status == "deadlock"
    text = str(result.diagnosis)
    assert "broadcast(x#0) waits for y#5 to make room in 'x#0>1' [2/2] (" in text
    assert text.count("programs.py:") == 8
    assert text.endswith("full FIFOs of the circular wait, candidates for more depth: x#0 -> y#5")
    states = dict(zip(*(result.units[c].to_pylist() for c in ("name", "state")), strict=True))
    assert states["broadcast(x#0)"] == "waits for a slot"
    assert states["y#5"] == "waits for a token"


@pytest.mark.parametrize("depth", range(1, 10))
def test_depth_that_is_enough(depth: int) -> None:
    # A broadcast sends to all or to none, so that the FIFO must hold a whole row.
    status = simulate(centered(), fifo_depth=depth).status
    assert status == ("ok" if depth >= 8 else "deadlock")


def test_a_merge_in_a_dead_loop() -> None:
    b = NetBuilder()
    b.unit("merge", "EagerMerge", ["back"], ["data", "sel"], rank=0)
    b.unit("map", "UnaryMap", ["data"], ["back"], fn="Silu", bw=1024, wb=False)
    b.unit("sink", "Consumer", ["sel"], [])
    found = diagnosed(simulate_network(b.network()))
    assert {(wait.unit, wait.peer) for wait in found.circular_wait} == {
        ("merge", "map"),
        ("map", "merge"),
    }
    assert found.deepen == []  # nothing is full: more depth would not help
    assert "[0/unbounded]" in str(found)


def test_many_blocked_units_are_grouped() -> None:
    b = NetBuilder(capacity=1)
    b.unit("merge", "EagerMerge", ["back"], ["data", "sel"], rank=0)
    b.unit("map", "UnaryMap", ["data"], ["back"], fn="Silu", bw=1024, wb=False)
    b.unit("fan", "Broadcast", ["sel"], [f"s{i}" for i in range(50)])
    for i in range(50):
        b.unit(f"sink{i}", "Consumer", [f"s{i}"], [])
    found = diagnosed(simulate_network(b.network()))
    assert len(found.waits) == 53
    assert "and 49 more Consumer like it" in str(found)
    assert len(str(found).splitlines()) < 10


ROUTED = {"left": [0, 0, 0, 1], "right": [0, 0, 1, 1]}


def test_a_failed_unit_says_why_and_where_and_the_others_finish() -> None:
    program, left, right = uneven()
    bindings = {left: np.array([ROUTED["left"]]).T, right: np.array([ROUTED["right"]]).T}
    result = simulate(program, bindings=bindings)
    assert result.status == "failed"
    found = diagnosed(result)
    failure = found.failures[0]
    assert failure.unit == "sum#8"
    assert failure.operator == "BinaryMap"
    assert failure.reason == (
        "input 'partition#7.0' ended while 'partition#3.0' still has tokens; both must have the "
        "same shape"
    )
    assert "programs.py:" in failure.source
    assert failure.source in str(failure)
    states = dict(zip(*(result.units[c].to_pylist() for c in ("name", "state")), strict=True))
    assert states.pop("sum#8") == "failed"
    assert set(states.values()) == {"done"}
    assert result.offchip_bytes == 8 * 64 * 2  # all rows were loaded
    fits = {left: bindings[left], right: np.array([[0, 0, 1, 0]]).T}
    assert simulate(program, bindings=fits).status == "ok"


def test_a_failed_unit_does_not_count_for_the_cycles() -> None:
    b = NetBuilder()
    b.unit("x", "At", [], ["a"], tokens=tile_tokens(PLAIN, [0, 1]), times=[0, 50], tail=0)
    b.unit("y", "Paced", [], ["c"], tokens=tile_tokens(PLAIN, [0, 0]), times=[0, 60], tail=0)
    b.unit("map", "BinaryMap", ["a", "c"], ["z"], fn=["Mul"], bw=1024, wb=False)
    b.unit("sink", "Consumer", ["z"], [])
    result = simulate_network(b.network())
    assert result.status == "failed"
    assert [str(failure) for failure in diagnosed(result).failures] == [
        "map failed at cycle 61: its inputs carry stop levels 1 and 0; both streams must have the "
        "same shape"
    ]
    assert result.cycles == 62


def breakdown(row: dict[str, object]) -> int:
    columns = ("busy", "wait_input", "wait_output", "wait_memory", "before", "after")
    return sum(int(str(row[name])) for name in columns)


def test_blocked_units_wait_to_the_end_of_the_run() -> None:
    """Not idle after their last token: the FIFO that is too short shows the wait."""
    program = centered(2)
    result = simulate(program, "sda-1024", record=True)
    assert result.status == "deadlock"
    units = {row["name"]: row for row in result.units.to_pylist()}
    assert all(breakdown(row) == result.cycles for row in units.values())
    assert {row["after"] for row in units.values()} == {0}
    diagnosis = diagnosed(result)
    fifos = {row["name"]: row for row in result.fifos.to_pylist()}
    for wait in diagnosis.circular_wait:
        row = units[wait.unit]
        rest = result.cycles - row["final_clock"]
        if row["firings"]:
            side = "producer_wait" if wait.reason == "slot" else "consumer_wait"
            assert fifos[wait.fifo][side] >= rest
            assert row["wait_output" if wait.reason == "slot" else "wait_input"] >= rest
        else:
            assert row["before"] >= rest
    slot = next(wait for wait in diagnosis.circular_wait if wait.reason == "slot")
    assert fifos[slot.fifo]["producer_wait"] > result.cycles / 2
    assert slot.peer in str(units[slot.unit]["longest_wait"])
    # The timeline shows them to the end, too.
    assert result.events is not None
    ends = np.zeros(len(units), np.int64)
    np.maximum.at(ends, result.events.waits["unit"], result.events.waits["end"])
    clocks = result.units["final_clock"].to_numpy()
    assert (np.maximum(ends, clocks) == result.cycles).all()


@pytest.mark.parametrize("cycles", [40, 200, 700])
def test_units_stopped_by_a_limit_keep_their_account(cycles: int) -> None:
    result = simulate(centered(9), limits=st.Limits(max_cycles=cycles))
    assert result.status == "limit"
    for row in result.units.to_pylist():
        assert breakdown(row) == max(result.cycles, row["final_clock"])
        if row["state"] == "waits for memory":
            assert row["wait_memory"] >= result.cycles - row["final_clock"]
            assert row["after"] == 0
