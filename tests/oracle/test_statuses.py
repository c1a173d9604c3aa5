"""How units end: aborts, closures they cause, consumers that are gone, deadlocks, endless loops."""

from __future__ import annotations

import pytest

from tests.oracle.build import NetBuilder
from tests.oracle.example import tile_tokens
from tests.oracle.interpreter import interpret
from tests.oracle.invariants import check_accounts
from tests.oracle.payloads import selector

PLAIN = [1, 16, 2, 0]


def test_an_abort_leaves_the_cycles_to_the_other_units() -> None:
    b = NetBuilder()
    slow = tile_tokens(PLAIN, [0, 1])
    b.unit("x", "At", [], ["a"], tokens=slow, times=[0, 50], tail=0)
    b.unit("y", "Paced", [], ["c"], tokens=tile_tokens(PLAIN, [0, 0]), times=[0, 60], tail=0)
    b.unit("map", "BinaryMap", ["a", "c"], ["z"], fn=["Mul"], bw=1024, wb=False)
    b.unit("sink", "Consumer", ["z"], [])
    result = interpret(b.network())
    assert result.status == "failed"
    assert {u: s.state for u, s in result.unit_status.items()} == {
        "x": "done", "y": "done", "map": "failed", "sink": "done",
    }  # fmt: skip
    assert "stop levels 1 and 0 differ" in result.unit_status["map"].message
    # The map has reached 61 and is left out; its pace closes the sink's channel at 61.
    assert result.final_clock["map"] == 61
    assert result.final_clock["sink"] == 62
    assert result.cycles == 62


def test_a_producer_aborts_only_for_a_slot_that_is_never_freed() -> None:
    b = NetBuilder()
    b.channel("a", 2)
    b.unit("data", "Gen", [], ["a"], tokens=tile_tokens(PLAIN, [0] * 5))
    b.unit("choice", "SelectGen", [], ["s"], selectors=[[0]] * 2, width=1, levels=[0, 0])
    b.unit("split", "Partition", ["a", "s"], ["o"], rank=0, switch=[1], wb=False)
    b.unit("sink", "Consumer", ["o"], [])
    result = interpret(b.network())
    assert result.unit_status["data"].state == "failed"
    assert "consumer has returned" in result.unit_status["data"].message
    assert len(result.tokens["a"]) == 4
    assert result.unit_status["split"].state == "done"


def test_a_deadlock_is_reported_with_the_blocked_units() -> None:
    b = NetBuilder(capacity=1)
    b.unit("source", "Gen", [], ["a"], tokens=tile_tokens(PLAIN, [0, 0, 0, 1]))
    b.unit("fan", "Broadcast", ["a"], ["x", "y"])
    b.unit("collect", "Bufferize", ["x"], ["buffer"], rank=1)
    b.unit("stream", "Streamify", ["buffer"], ["back"], rank=1, repeat=[])
    b.unit("map", "BinaryMap", ["back", "y"], ["z"], fn=["Mul"], bw=1024, wb=False)
    b.unit("sink", "Consumer", ["z"], [])
    result = interpret(b.network())
    assert result.status == "deadlock"
    assert {s.state for s in result.unit_status.values()} == {"blocked"}
    assert len(result.tokens["y"]) == 1


def test_a_merge_in_a_dead_loop_is_blocked() -> None:
    b = NetBuilder()
    b.unit("merge", "EagerMerge", ["back"], ["data", "sel"], rank=0)
    b.unit("map", "UnaryMap", ["data"], ["back"], fn="Silu", bw=1024, wb=False)
    b.unit("sink", "Consumer", ["sel"], [])
    result = interpret(b.network())
    assert result.status == "deadlock"
    assert {s.state for s in result.unit_status.values()} == {"blocked"}


def test_tokens_that_go_round_for_ever_are_noticed() -> None:
    b = NetBuilder()
    b.unit("source", "Gen", [], ["in"], tokens=tile_tokens(PLAIN, [0]))
    b.unit("merge", "EagerMerge", ["in", "back"], ["data", "sel"], rank=0)
    b.unit("map", "UnaryMap", ["data"], ["back"], fn="Silu", bw=1024, wb=False)
    b.unit("sink", "Consumer", ["sel"], [])
    with pytest.raises(RuntimeError, match="no end after"):
        interpret(b.network(), max_rounds=500)


def test_reassemble_aborts_on_an_input_that_has_ended() -> None:
    b = NetBuilder()
    b.unit("x", "Gen", [], ["a"], tokens=tile_tokens(PLAIN, [0]))
    tokens = [{**selector([0], 2), "level": 0}, {**selector([0, 1], 2), "level": 0}]
    b.unit("choice", "Gen", [], ["s"], tokens=tokens)
    b.unit("y", "Gen", [], ["c"], tokens=[])
    b.unit("join", "Reassemble", ["a", "c", "s"], ["z"], rank=0, switch=[1, 1], wb=False)
    b.unit("sink", "Consumer", ["z"], [])
    result = interpret(b.network())
    assert result.unit_status["join"].state == "failed"
    assert "has ended" in result.unit_status["join"].message
    assert len(result.tokens["z"]) == 1


def test_a_failed_memory_operator_is_no_reason_for_a_longer_run() -> None:
    b = NetBuilder()
    b.unit("load", "OffChipLoad", [], ["a"], tile=[1, 32], view=[1], par=1, bpe=2)
    b.unit("store", "OffChipStore", ["a"], [], tile=[1, 33], par=1)
    result = interpret(b.network())
    assert result.unit_status["store"].state == "failed"
    assert result.final_clock == {"load": 19, "store": 20}
    assert result.memory_node_end == result.cycles == 22


def test_accounts_of_a_chain_with_back_pressure() -> None:
    b = NetBuilder(capacity=2)
    b.unit("source", "Src", [], ["a"], tokens=tile_tokens([16, 16, 2, 1], [0, 0, 1]), n=4, tail=0)
    b.unit("map", "UnaryMap", ["a"], ["b"], fn="Silu", bw=205, wb=True)
    b.unit("sink", "Hold", ["b"], [], n=20)
    accounts = interpret(b.network()).accounts
    source, unary, sink = accounts["source"], accounts["map"], accounts["sink"]
    assert (source.busy, source.wait_out, source.after) == (12, {"a": 4}, 60)
    assert (unary.before, unary.busy, unary.wait_out, unary.after) == (5, 30, {"b": 2}, 39)
    assert (sink.before, sink.busy, sink.wait_in, sink.after) == (16, 60, {}, 0)


def test_accounts_of_memory_and_closure() -> None:
    b = NetBuilder()
    b.unit("load", "OffChipLoad", [], ["a"], tile=[1, 32], view=[2], par=1, bpe=2)
    b.unit("pad", "Reshape", ["a"], ["y"], s=0, q=1, bpe=2, ri=1)
    b.unit("sink", "Consumer", ["y"], [])
    result = interpret(b.network())
    assert result.cycles == 41
    load, pad, sink = (result.accounts[name] for name in ("load", "pad", "sink"))
    assert (load.memory, load.after) == (38, 3)
    assert (pad.before, pad.wait_in, pad.after) == (20, {"a": 19}, 2)
    # The sink takes at 21 and 40, works a cycle after each, and ends with that.
    assert (sink.before, sink.wait_in, sink.busy, sink.after) == (21, {"y": 18}, 2, 0)


def test_accounts_of_a_unit_left_blocked_after_a_closure() -> None:
    """The end of its first input is the last thing that the map sees: the second never speaks."""
    b = NetBuilder()
    b.unit("empty", "Gen", [], ["a"], tokens=[])
    b.unit("map", "BinaryMap", ["a", "back"], ["z"], fn=["Mul"], bw=1024, wb=False)
    b.unit("loop", "UnaryMap", ["z"], ["back"], fn="Silu", bw=1024, wb=False)
    b.unit("load", "OffChipLoad", [], ["x"], tile=[1, 32], view=[1], par=1, bpe=2)
    b.unit("sink", "Consumer", ["x"], [])
    network = b.network()
    result = interpret(network)
    assert result.status == "deadlock"
    assert result.unit_status["map"].state == "blocked"
    assert result.final_clock["map"] == 1
    assert result.accounts["map"].after == result.cycles == 22
    check_accounts(network, result)
