"""Chips of operators: blocks, copies for readers on several chips, texts, refusals, values."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import stepsim as st
from stepsim.errors import ArgError, GraphError, GraphFileError, LoweringError
from stepsim.machine import load_machine
from stepsim.results import outline_of

FOUR = {
    "chips.count": 4,
    "chips.topology": "ring",
    "chips.gib_per_s": 50,
    "chips.latency_ns": 500,
    "clock_ghz": 1,
}


def _load(label: str | None = None) -> st.Stream:
    return st.linear_load(st.spec(64, 64), tile=(16, 64), label=label).flatten(0, 1)


def _spread(*chips: int, source: int = 0) -> st.Program:
    """A stream with one reader on each of the chips."""
    with st.Program("spread", compute_bw=64) as program:
        with st.chip(source):
            x = _load("x")
        for number, chip in enumerate(chips):
            with st.chip(chip):
                x.consume(label=f"end{number}")
    return program


def _copies(program: st.Program) -> dict[str, tuple[int, list[str]]]:
    """Chip and readers of every copy operator."""
    wiring = st.graph.wire(program)
    reader = {fifo: unit.name for unit in wiring.units for fifo in unit.inputs}
    return {
        unit.name: (unit.chip, [reader[fifo] for fifo in unit.outputs])
        for unit in wiring.units
        if unit.kind == "Broadcast"
    }


def test_operators_are_on_the_chip_of_the_innermost_block():
    with st.Program("blocks") as program:
        first = _load()
        with st.chip(2):
            second = _load()
            with st.chip(1):
                first.consume()
            second.consume()
    assert [op.chip for op in program.operators] == [0, 0, 2, 2, 1, 2]
    assert program.chips == 3
    assert [unit.chip for unit in st.graph.wire(program).units] == [0, 0, 2, 2, 1, 2]


def test_a_block_that_fails_ends():
    with st.Program("fails") as program:
        with pytest.raises(ZeroDivisionError), st.chip(1):
            raise ZeroDivisionError
        _load().consume()
    assert program.chips == 1


@pytest.mark.parametrize("number", [-1, 1.0, True, "1", None, 2**16])
def test_what_is_not_the_number_of_a_chip_is_refused(number):
    with (
        st.Program("wrong"),
        pytest.raises(ArgError, match=r"chip: number must be .*the number of a chip"),
    ):
        st.chip(number)


def test_chips_belong_to_programs():
    with pytest.raises(GraphError, match="chip: no program is active"):
        st.chip(1)


def test_readers_on_the_chip_of_the_producer_get_copies_there():
    assert _copies(_spread(0, 0)) == {"broadcast(flatten#1)": (0, ["end0#2", "end1#3"])}
    assert _copies(_spread(2, 2, source=2)) == {"broadcast(flatten#1)": (2, ["end0#2", "end1#3"])}


def test_a_stream_crosses_once_to_each_chip_and_is_copied_there():
    assert _copies(_spread(0, 1, 2, 1, 0, 1)) == {
        "broadcast(flatten#1)": (
            0,
            ["end0#2", "broadcast(flatten#1>1)", "end2#4", "end4#6"],
        ),
        "broadcast(flatten#1>1)": (1, ["end1#3", "end3#5", "end5#7"]),
    }


def test_readers_on_one_other_chip_share_one_crossing():
    assert _copies(_spread(3, 3)) == {"broadcast(flatten#1)": (3, ["end0#2", "end1#3"])}


def test_the_fingerprint_depends_on_chips_and_not_on_blocks():
    plain, other = _spread(0, 0), _spread(0, 1)
    assert _spread(1, 0).fingerprint() != other.fingerprint() != plain.fingerprint()
    with st.Program("spread", compute_bw=64) as same:
        x = _load("x")
        x.consume(label="end0")
        x.consume(label="end1")
    assert same.fingerprint() == plain.fingerprint()
    assert pickle.loads(pickle.dumps(other)).fingerprint() == other.fingerprint()


def test_texts_name_chips_of_programs_on_several():
    program = _spread(0, 1)
    assert "chip 0: x#0 (linear_load)" in str(program)
    assert "chip 1: end1#3 (consume)" in str(program)
    assert "chip 0" not in str(_spread(0, 0))
    assert 'n3 [label="end1#3 (consume) on chip 1"]' in program.to_dot()
    assert "end1#3 (consume) on chip 1" in program.to_mermaid()
    boxes = outline_of(st.graph.wire(program))["boxes"]
    chips = {box["name"]: box["parameters"].get("chip") for box in boxes}
    assert (chips["end0#2"], chips["end1#3"]) == ("0", "1")
    alone = outline_of(st.graph.wire(_spread(0, 0)))["boxes"]
    assert not any("chip" in box["parameters"] for box in alone)


def test_downtiled_programs_keep_chips():
    small = _spread(0, 3).downtile(16, 16)
    assert {op.label: op.chip for op in small.operators}["end1"] == 3
    assert {op.label: op.chip for op in small.operators}["end0"] == 0


def test_what_takes_one_chip_refuses_others_by_name():
    program = _spread(0, 1)
    with pytest.raises(GraphFileError, match=r"end1#3 \(consume\) is on chip 1"):
        program.to_graph()
    with pytest.raises(LoweringError, match=r"hardware level: end1#3 \(consume\) is on chip 1"):
        st.hardware.network_of(program)
    machine = load_machine("sda-1024", {**FOUR, "noc": "mesh"})
    with pytest.raises(
        ArgError,
        match=r"placement: .*end1#3 \(consume\) is on chip 1, .*; place it on one chip, .* tp, ep "
        "and pp of 1, or run it on several chips without a placement",
    ):
        st.noc.Placement.row_major(program, machine.noc)


def test_a_machine_must_have_the_chips():
    with pytest.raises(ArgError, match=r"end1#3 .*on chip 4, but machine .* chips 0 to 3"):
        st.simulate(_spread(0, 4), load_machine("sda-1024", FOUR))
    with pytest.raises(ArgError, match=r"end1#3 .*on chip 4, but machine 'sda-1024' is a single"):
        st.simulate(_spread(0, 4))


def test_values_do_not_depend_on_chips():
    data = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) / 4096
    programs = []
    for chip in (0, 1):
        with st.Program("values", compute_bw=64) as program:
            x = st.linear_load(st.spec(64, 64, dtype="f32", name="x"), (16, 64)).flatten(0, 1)
            with st.chip(chip):
                st.linear_store(st.map(st.fn.add, x.map(st.fn.silu), x), "out")
        programs.append(program)
    one, two = (st.run_functional(program, {"x": data}) for program in programs)
    np.testing.assert_array_equal(one.stored["out"], two.stored["out"])
