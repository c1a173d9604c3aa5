"""The DRAM of a machine: presets as recorded, values that cannot be together, round trips."""

from __future__ import annotations

import csv
from fractions import Fraction
from typing import Any

import jsonschema
import pytest
import yaml

from stepsim.errors import MachineError
from stepsim.machine import Dram, Machine, load_machine, machine_json_schema
from stepsim.machine.dram_presets import DRAM_PRESETS
from tests.shared import RAMULATOR, recorded

_BASE = {"hbm.model": "dram"}


@recorded(RAMULATOR)
@pytest.mark.parametrize(
    ("preset", "suffix"), [("hbm2-hdl", ""), ("hbm1", "_hbm1"), ("hbm3", "_hbm3")]
)
def test_presets_are_the_recorded_devices(preset: str, suffix: str) -> None:
    folder = RAMULATOR
    dram = Dram(preset=preset)
    with (folder / f"timing_and_organisation{suffix}.csv").open(encoding="utf-8") as file:
        said = {row["name"]: int(row["value"]) for row in csv.DictReader(file)}
    for name, value in said.items():
        if hasattr(dram, name):
            assert getattr(dram, name) == value, name
    assert dram.channels == said["channel"]
    assert dram.pseudo_channels == said.get("pseudochannel", 1)
    assert (dram.bank_groups, dram.banks, dram.rows) == (
        said["bankgroup"], said["bank"], said["row"],
    )  # fmt: skip
    assert dram.columns == said["column"] // said["prefetch"]
    assert dram.access_bytes == said["channel_width"] * said["prefetch"] // 8
    assert dram.distances()["read_delay"] == said["read_latency"]
    with (folder / f"timing_constraints{suffix}.csv").open(encoding="utf-8") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if {row["first_command"], row["second_command"]} <= {"ACT", "PRE", "RD", "WR"}
        ]
    wide = "pseudochannel" if dram.pseudo_channels > 1 else "channel"
    found: dict[tuple[str, str, str, int], int] = {}
    for name, value in dram.distances().items():
        if name != "read_delay":
            scope, first, second = name.upper().split("_")
            scope = {"PSEUDO": wide, "GROUP": "bankgroup"}.get(scope, scope.lower())
            window = 4 if second == "WINDOW" else 1
            key = scope, first, "ACT" if second == "WINDOW" else second, window
            found[key] = max(value, found.get(key, 0))
    expected = {
        (row["scope"], row["first_command"], row["second_command"], int(row["window"])): int(
            row["min_cycles"]
        )
        for row in rows
    }
    assert found == expected


def test_presets_have_the_bandwidth_of_their_data_sheets() -> None:
    gigabytes = {
        "hbm2-hdl": 64, "hbm2-fullrate": 256, "hbm1": 128, "hbm3": 64, "hbm2e": 409.6,
        "u55c": 460, "ddr4-3200": 25.6, "lpddr5": 12.8,
    }  # fmt: skip
    assert set(gigabytes) == set(DRAM_PRESETS)
    for preset, value in gigabytes.items():
        machine = load_machine("sda-hdl", {**_BASE, "hbm.dram.preset": preset, "clock_ghz": 0.5})
        assert machine.peak_bandwidth * 0.5 == pytest.approx(value)
    assert Dram(preset="u55c").channels * Dram(preset="u55c").pseudo_channels == 32


def test_round_trips_and_schema() -> None:
    machine = load_machine(
        "sda-hdl", {**_BASE, "hbm.dram.nCL": 9, "hbm.dram.preset": "hbm3", "clock_ghz": 0.3}
    )
    values = yaml.safe_load(machine.to_yaml())
    assert values["hbm"] == {
        "model": "dram", "request_bytes": 64, "dram": {"preset": "hbm3", "nCL": 9},
    }  # fmt: skip
    assert Machine(**values) == machine
    assert machine.hbm.channels == 8
    assert machine.dram_clocks_per_cycle == Fraction(10, 3)
    jsonschema.validate(values, machine_json_schema())
    values["hbm"]["channels"] = 8
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values, machine_json_schema())
    back = load_machine(machine, {"hbm.dram.preset": "hbm1"})
    assert back.hbm.dram == Dram(preset="hbm1", nCL=9)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"hbm.channels": 4}, "hbm.channels: has no effect with hbm.model 'dram'"),
        ({"hbm.dram.low_watermark": 26}, "low_watermark: expected less than high_watermark (26)"),
        ({"hbm.dram.high_watermark": 40}, "high_watermark: expected at most write_queue (33)"),
        ({"hbm.dram.banks": 3}, "banks: expected a power of two"),
        ({"hbm.dram.banks": 16}, "banks: expected at most 32 in a pseudo-channel, found 64"),
        (
            {"hbm.dram.mapper": "MOP4CLXOR", "hbm.dram.columns": 2},
            "'MOP4CLXOR' does not cover the address",
        ),
        ({"hbm.dram.nRAS": 20}, "nRAS: expected at most nRC (19), found 20"),
        ({"hbm.dram.nRAS": 6}, "nRCDRD: expected at most nRAS (6), found 7"),
        ({"hbm.dram.nCCDS": 3}, "nCCDS: expected at most nCCDL (2), found 3"),
        ({"hbm.dram.nRRDS": 4}, "nRRDS: expected at most nRRDL (3), found 4"),
        ({"hbm.dram.nCWL": 13}, "nCWL: expected at most nCL + nBL + 1 (12)"),
        (
            {"hbm.dram.refresh": "all-bank", "hbm.dram.nRFC": 3900},
            "nREFI: expected more than nRFC (3900), found 3900",
        ),
        ({"hbm.dram.nRFC": 200}, "nRFC: has an effect only with refresh 'all-bank'"),
        ({"hbm.dram.nREFI": 4000}, "nREFI: has an effect only with refresh 'all-bank'"),
        ({"hbm.dram.rows": 1 << 24, "hbm.dram.columns": 1 << 16, "hbm.dram.access_bytes": 4096,
          "hbm.dram.channels": 1 << 12}, "expected addresses of at most 56 bits"),
        ({"hbm.dram.clock_ghz": 2.0}, "hbm.dram.clock_ghz: has an effect only together"),
        ({"hbm.dram.preset": "hbm9"}, "did you mean 'hbm3'?"),
    ],
)  # fmt: skip
def test_values_that_cannot_be_together(overrides: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MachineError) as caught:
        load_machine("sda-hdl", {**_BASE, **overrides})
    assert sentence in str(caught.value)


def test_a_dram_needs_its_model() -> None:
    with pytest.raises(MachineError) as caught:
        load_machine("sda-hdl", {"hbm.dram.nCL": 9})
    assert "hbm.dram: has an effect only with hbm.model 'dram'" in str(caught.value)
