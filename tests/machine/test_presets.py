"""The machines that come with stepsim, and the properties of a machine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import yaml

from stepsim.errors import MachineError
from stepsim.machine import (
    DEFAULT_FIFO_DEPTH,
    Machine,
    list_machines,
    load_machine,
    machine_json_schema,
)


def test_presets_are_listed_in_order() -> None:
    assert list_machines() == (
        "blackhole", "hdl-arbiter", "hdl-dram", "hdl-flops", "hdl-onchip", "hdl-read-ahead",
        "sda-1024", "sda-1024-energy", "sda-2026", "sda-hdl", "sn40l", "tpu-v4", "tpu-v4-cube",
        "u55c", "wormhole", "wormhole-n300", "wse-2",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "model", "channels", "onchip", "peak"),
    [
        ("sda-1024", "step-2025", 32, 64, 1024.0),
        ("sda-2026", "step-2026", 32, 512, 1024.0),
        ("sda-hdl", "step-2025", 8, 256, 256.0),
    ],
)
def test_preset_numbers(name: str, model: str, channels: int, onchip: int, peak: float) -> None:
    machine = load_machine(name)
    assert machine.model == model
    assert machine.name == name
    assert machine.hbm.model == "published"
    assert machine.hbm.request_bytes == 64
    assert machine.hbm.channels == channels
    assert (machine.hbm.latency, machine.hbm.interval, machine.hbm.startup) == (2, 2, 14)
    assert machine.onchip.bytes_per_cycle == onchip
    assert machine.peak_bandwidth == peak
    assert machine.closure_slack == 0
    assert machine.fifo.depth is None
    assert machine.fifo_depth == DEFAULT_FIFO_DEPTH == 1024


def test_the_fpga_of_streamtensor() -> None:
    """Table 6 of the paper: 250 MHz, 460 GB/s, 41 MB; blocks of the device hold at least that."""
    machine = load_machine("u55c")
    assert machine.clock_ghz == 0.25
    assert machine.peak_bandwidth * machine.clock_ghz == 460
    assert machine.onchip.capacity_bytes == 41_000_000
    device = machine.device
    assert device is not None
    blocks = device.lutram_blocks * 64 + (device.bram_blocks + 16 * device.uram_blocks) * 18 * 1024
    assert 41e6 < blocks / 8 < 50e6
    assert (device.dies, device.weight_dtype, device.activation_dtype) == (3, "i4", "i8")


def test_milliseconds_follow_the_clock() -> None:
    assert load_machine("u55c").milliseconds(250_000) == 1
    assert load_machine("sda-1024").milliseconds(250_000) is None
    assert load_machine("sda-1024", {"clock_ghz": 2}).milliseconds(1e6) == 0.5


@pytest.mark.parametrize("wrong", [0, -1, float("inf"), True, "fast"])
def test_a_clock_is_a_number_above_zero(wrong: object) -> None:
    with pytest.raises(MachineError, match="clock_ghz: expected a number above 0"):
        load_machine("u55c", {"clock_ghz": wrong})


def test_the_default_is_the_evaluation_machine() -> None:
    assert load_machine() == load_machine("sda-1024")


@pytest.mark.parametrize("name", list_machines())
def test_yaml_and_dict_read_back_equal(name: str, tmp_path) -> None:
    machine = load_machine(name, {"fifo.depth": 3})
    path = tmp_path / "machine.yaml"
    path.write_text(machine.to_yaml(), encoding="utf-8")
    assert load_machine(path) == machine
    assert Machine(**machine.to_dict()) == machine
    assert json.loads(json.dumps(machine.to_dict())) == machine.to_dict()


def test_peak_bandwidth_need_not_be_whole() -> None:
    machine = load_machine("sda-1024", {"hbm.channels": 1, "hbm.interval": 3})
    assert machine.peak_bandwidth == pytest.approx(64 / 3)


def test_summary_shows_the_resolved_numbers() -> None:
    text = load_machine("sda-hdl", {"fifo.depth": 2, "closure_slack": 1}).summary()
    assert text == (
        "sda-hdl: HBM 8 channels x 64 B / 2 cycles = 256 B/cycle peak, "
        "latency 2 + start-up 14 cycles, model published; on-chip 256 B/cycle; "
        "FIFO depth 2; closure slack 1; no clock stated (--set clock_ghz=N)"
    )


def test_summary_claims_no_depth_that_the_run_chooses() -> None:
    assert "; FIFO depth left to the run; no clock" in load_machine("sda-1024").summary()


@pytest.mark.parametrize(
    ("model", "channels", "said"),
    [
        ("published", 33, True), ("published", 3, True), ("published", 1, False),
        ("published", 64, False), ("interleaved", 33, False), ("uncontended", 33, False),
    ],
)  # fmt: skip
def test_the_published_walk_is_reported_of(model: str, channels: int, said: bool) -> None:
    machine = load_machine("sda-1024", {"hbm.model": model, "hbm.channels": channels})
    assert machine.notes == (
        (
            "hbm.model 'published' loads its channels evenly only when their number is a power of "
            f"two; {channels} channels can take longer than fewer. hbm.model=interleaved is even "
            "for any number",
        )
        if said
        else ()
    )


def test_machines_are_frozen() -> None:
    machine = load_machine("sda-1024")
    with pytest.raises(MachineError, match="cannot be set"):
        machine.hbm.channels = 16  # type: ignore[misc]


def test_equal_machines_hash_alike() -> None:
    assert hash(load_machine("sda-hdl")) == hash(load_machine("sda-hdl"))


def test_json_schema_describes_every_field() -> None:
    schema = machine_json_schema()
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == {"name", "hbm"}
    hbm = schema["$defs"]["Hbm"]
    assert hbm["properties"]["interval"]["minimum"] == 1
    for section in [schema, *schema["$defs"].values()]:
        assert all("description" in field for field in section["properties"].values())


def test_presets_contain_every_key() -> None:
    for name in list_machines():
        machine = load_machine(name)
        assert yaml.safe_load(machine.to_yaml()) == machine.to_dict()


def test_the_room_imports_no_heavy_package() -> None:
    code = (
        "import sys, stepsim.machine;"
        "heavy = {'numba', 'numpy', 'sympy', 'pyarrow'} & set(sys.modules);"
        "sys.exit(f'imported {sorted(heavy)}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


_HBM = {"request_bytes": 64, "channels": 32, "latency": 2, "interval": 2, "startup": 14}


@pytest.mark.parametrize("onchip", [{}, {"onchip": {}}])
def test_the_model_of_2026_brings_its_on_chip_bandwidth(onchip: dict[str, object]) -> None:
    machine = Machine(name="own", model="step-2026", hbm=_HBM, **onchip)
    assert machine.onchip.bytes_per_cycle == 512
    with pytest.raises(MachineError, match="onchip"):
        Machine(name="own", hbm=_HBM, **onchip)


def test_a_named_on_chip_bandwidth_stays() -> None:
    machine = load_machine("sda-1024", {"model": "step-2026"})
    assert (machine.model, machine.onchip.bytes_per_cycle) == ("step-2026", 64)
    assert "; rules step-2026" in machine.summary()


def test_the_schema_asks_for_the_bandwidth_where_the_model_has_none() -> None:
    schema = machine_json_schema()
    assert "onchip" not in schema["required"]
    assert schema["if"]["properties"]["model"]["const"] == "step-2026"
    assert schema["else"]["required"] == ["onchip"]


def test_an_unknown_model_is_named() -> None:
    with pytest.raises(MachineError, match="'step-2025' or 'step-2026'"):
        load_machine("sda-1024", {"model": "step-2027"})
