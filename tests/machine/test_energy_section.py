"""Machines with a table of energies, and with compute in all; others are what they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepsim.dtypes import DType
from stepsim.errors import MachineError
from stepsim.machine import Energy, load_machine
from stepsim.machine.section import keys


def test_a_table_is_read_back(tmp_path: Path) -> None:
    machine = load_machine("sda-1024-energy")
    path = tmp_path / "machine.yaml"
    path.write_text(machine.to_yaml(), encoding="utf-8")
    assert load_machine(path) == machine
    assert machine.energy is not None
    assert machine.energy.flop_pj("bf16") == 0.75
    assert machine.energy.flop_pj("f4") is machine.energy.flop_pj("u64") is None


def test_every_type_to_compute_with_can_have_an_entry() -> None:
    wanted = {f"flop_pj_{dtype.text}" for dtype in DType if dtype.is_arithmetic}
    assert wanted == {key for key in keys(Energy) if key.startswith("flop_pj_")}


@pytest.mark.parametrize("name", ["sda-1024", "sda-2026", "sda-hdl", "u55c"])
def test_the_other_presets_state_none(name: str) -> None:
    machine = load_machine(name)
    assert machine.energy is machine.compute is None
    assert not {"energy", "compute"} & machine.to_dict().keys()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"energy.offchip_pj_per_byte": 1}, "energy.sources: missing"),
        ({"energy.sources": ""}, "energy.sources: expected a non-empty text"),
        ({"energy.sources": "x", "energy.static_watts": 1}, "state clock_ghz too"),
        ({"energy.sources": "x", "energy.flop_pj_bf16": -1}, "energy.flop_pj_bf16: expected"),
        ({"compute.flops_per_cycle": 0}, "compute.flops_per_cycle: expected an integer from 1"),
        ({"compute.regions": 0}, "compute.regions: expected an integer from 1 to 1024"),
        ({"energy.flop_pj_u64": 1}, "unknown key 'energy.flop_pj_u64'"),
    ],
)
def test_wrong_values(values: dict[str, object], said: str) -> None:
    with pytest.raises(MachineError) as caught:
        load_machine("sda-1024", values)
    assert said in str(caught.value)


def test_regions_are_those_of_the_device_unless_stated() -> None:
    assert load_machine("sda-1024").regions == 1
    assert load_machine("u55c").regions == 3
    assert load_machine("u55c", {"compute.regions": 2}).regions == 2
