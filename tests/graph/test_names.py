"""Names are the user's: labels, functions, calls that make several operators, former names."""

from __future__ import annotations

import pytest

import stepsim as st
from stepsim.errors import ArgError
from stepsim.graph import named_now, wire
from stepsim.results import flows_text, line_of, place_of


def titles(program: st.Program) -> list[str]:
    return [op.title() for op in program.operators]


def test_label_function_and_call_name_an_operator() -> None:
    with st.Program("named", compute_bw=64) as program:
        x = st.linear_load(st.spec(64, 64), tile=(16, 64), label="tokens").flatten(0, 1)
        y = x.map(st.fn.silu).unsqueeze(0).expand(8)
        y.map(st.fn.exp, label="gate").consume()
    assert titles(program) == [
        "tokens#0", "flatten#1", "silu#2", "unsqueeze#3", "expand#4/repeat", "expand#4/flatten",
        "gate#6", "consume#7",
    ]  # fmt: skip
    units = st.simulate(program).units.to_pylist()
    silu, gate = units[2], units[6]
    assert (silu["label"], silu["function"]) == (None, "silu")
    assert (gate["label"], gate["function"]) == ("gate", "exp")
    assert line_of(gate["source"]).startswith("test_names.py:")


def test_parts_of_one_call_are_told_apart_and_take_its_label() -> None:
    with st.Program("parts") as program:
        x = st.linear_load(st.spec(4, 4), tile=(1, 4)).flatten(0, 1)
        held = x.unsqueeze(0).bufferize(1)
        st.streamify(held, st.metadata([1, 2, 3, 4]), label="again").consume()
        x.unsqueeze(0).expand(2, label="wide").consume()
    found = titles(program)
    assert len({*found}) == len(found)
    assert [one for one in found if one.startswith("wide")] == ["wide#11/repeat", "wide#11/flatten"]
    assert [one for one in found if one.startswith("again")] == [
        "again#5/unsqueeze", "again#5/unsqueeze2", "again#5/streamify", "again#5/flatten",
    ]  # fmt: skip


def test_a_failed_call_leaves_no_mark_on_later_names() -> None:
    with st.Program("failed") as program:
        x = st.linear_load(st.spec(4, 4), tile=(1, 4)).flatten(0, 1)
        y = x.unsqueeze(0)
        with pytest.raises(ArgError):
            y.expand(0)
        y.unsqueeze(0).consume()
    assert titles(program)[-2:] == ["unsqueeze#3", "consume#4"]


@pytest.mark.parametrize(
    ("name", "stage", "operator"),
    [
        ("expand#5/repeat", "expand#5", "expand/repeat"),
        ("up.3#57/flatten", "up.*", "up.*/flatten"),
        ("broadcast(expand#5/flatten)", "expand#5", "broadcast(expand/flatten)"),
        ("a/b#4", "", "a/b"),
    ],
)
def test_parts_have_their_call_as_stage(name: str, stage: str, operator: str) -> None:
    assert (place_of(name).stage, place_of(name).operator) == (stage, operator)


def test_former_names_are_read() -> None:
    with st.Program("old", compute_bw=64) as program:
        x = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
        a, b = x.map(st.fn.silu), x.map(st.fn.exp)
        st.map(st.fn.mul, a, b).consume()
    old = st.prepare(program)
    made = old.changed(fifo_depths={"map#2": 7}, compute={"map#4": 2})
    assert made.fifo_depths == {"silu#2": 7}
    assert made.compute_bw == {"mul#4": 128}
    units = named_now("here", wire(program), "operator", {"broadcast(flatten#1)": 1, "no#9": 2})
    assert units == {"broadcast(flatten#1)": 1, "no#9": 2}
    with pytest.raises(ArgError, match="'map#2' and 'silu#2' are names of the same FIFO"):
        old.changed(fifo_depths={"map#2": 7, "silu#2": 8})
    with pytest.raises(ArgError, match="has no FIFO 'map#3x'"):
        old.changed(fifo_depths={"map#3x": 7})


def test_lists_of_fifos_are_read_without_json() -> None:
    lanes = [(f"load.{i}#{2 * i}", f"linear.{i}#{2 * i + 1}") for i in range(3)]
    assert flows_text([*lanes, ("x#9.2>1", "y#10")]) == (
        "load.* -> linear.* (3 FIFOs), x#9.2 -> y#10"
    )
    assert flows_text([("a#1", "b#2"), ("c#3", "d#4")], most=1) == "a#1 -> b#2 and 1 more"
