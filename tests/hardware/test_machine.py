"""Machines of the hardware level: files, changes, refusals."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import stepsim as st
from stepsim.hardware import Machine, list_machines, load_machine


@pytest.mark.parametrize("name", list_machines())
def test_files_give_the_same_machine(name: str, tmp_path: Path) -> None:
    machine = load_machine(name, {"dram.nCL": 9})
    path = tmp_path / "machine.yaml"
    path.write_text(machine.to_yaml())
    assert load_machine(path) == machine


def test_the_default_is_the_hdl() -> None:
    given = {**load_machine("hdl").to_dict(), "description": ""}
    assert given == Machine().to_dict()


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("fifo_depth", 0, "fifo_depth"),
        ("memory.arbiter", "round", "rotating"),
        ("memory.potner", 1, "memory.pointer"),
        ("dram.high_watermark", 5, "low_watermark"),
        ("dram.clock_ghz", 2.0, "dram.clock_ghz: has an effect only together"),
    ],
)
def test_wrong_values_are_refused(key: str, value: object, words: str) -> None:
    with pytest.raises(st.errors.MachineError, match=words):
        load_machine("hdl", {key: value})


def test_unknown_machines_are_named() -> None:
    with pytest.raises(st.errors.MachineError, match="hdl, hdl-fair"):
        load_machine("hdk")


def test_clock_of_the_dram() -> None:
    assert Machine().dram_clocks_per_cycle == 1
    assert load_machine("hdl", {"clock_ghz": 0.4}).dram_clocks_per_cycle == Fraction(5, 2)
    layer = st.hardware.swiglu(16, 32, 256, 16, 16)
    slow, fast = (
        st.hardware.simulate(layer, load_machine("hdl", {"clock_ghz": clock}))
        for clock in (4.0, 0.25)
    )
    assert slow.cycles > fast.cycles
    assert slow.milliseconds == pytest.approx(slow.cycles / 4e6)
