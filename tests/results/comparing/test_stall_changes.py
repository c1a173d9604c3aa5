"""Stalls of two runs side by side."""

from __future__ import annotations

from stepsim.results.comparing.stalls import LANES, stall_changes


def test_what_operators_spend_stands_before_waits_that_follow_from_it() -> None:
    before = {
        "gate (BinaryMap)": {LANES: 2, "work": 16_000},
        "flatten (Flatten)": {LANES: 1, "room at gate": 1_000},
    }
    after = {
        "gate (BinaryMap)": {LANES: 2, "work": 32_384},
        "flatten (Flatten)": {LANES: 1, "room at gate": 29_194},
    }
    found = [(one.operator, one.cause, one.change) for one in stall_changes(before, after)]
    assert found == [
        ("gate (BinaryMap)", "work", 8_192),
        ("flatten (Flatten)", "room at gate", 28_194),
    ]


def test_a_little_more_work_is_not_the_cause_of_long_waits() -> None:
    before = {"a (Map)": {LANES: 1, "work": 100}, "b (Map)": {LANES: 1, "room at a": 10}}
    after = {"a (Map)": {LANES: 1, "work": 109}, "b (Map)": {LANES: 1, "room at a": 1_010}}
    assert [one.operator for one in stall_changes(before, after)] == ["b (Map)", "a (Map)"]
