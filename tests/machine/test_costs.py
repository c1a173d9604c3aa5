"""Costs weigh resources, and leave machines without them as they were."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from stepsim.errors import MachineError
from stepsim.machine import Costs, Machine, list_machines, load_machine, machine_json_schema

PRICES = {
    "unit": "mm2", "hbm_channel": 4, "hbm_bytes_per_cycle": 0.5, "onchip_bytes_per_cycle": 0.25,
    "onchip_byte": 2e-6, "flops_per_cycle": 0.001,
}  # fmt: skip


def priced(**prices: Any) -> Machine:
    return load_machine("sda-1024", {f"costs.{name}": price for name, price in prices.items()})


def test_every_resource_counts() -> None:
    machine = priced(**PRICES)
    assert machine.cost() == 4 * 32 + 0.5 * 1024 + 0.25 * 64
    more = machine.cost(onchip_bytes=1e6, flops_per_cycle=4000)
    assert more == pytest.approx(machine.cost() + 2 + 4)  # type: ignore[operator]


def test_a_resource_without_a_price_adds_nothing() -> None:
    assert priced(hbm_channel=2).cost(onchip_bytes=1e9, flops_per_cycle=1e9) == 64
    assert priced(unit="USD").cost() == 0


@pytest.mark.parametrize("name", list_machines())
def test_a_machine_without_costs_is_what_it_was(name: str) -> None:
    machine = load_machine(name)
    assert machine.costs is machine.cost(onchip_bytes=1) is None
    assert "costs" not in machine.to_dict()
    assert "cost" not in machine.to_yaml() + machine.summary()


def test_the_digest_of_a_machine_without_costs_stays() -> None:
    text = json.dumps(load_machine("sda-1024").to_dict())
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert digest.startswith("de09c0f8d4a24147")


def test_costs_are_read_back(tmp_path: Path) -> None:
    machine = priced(**PRICES)
    path = tmp_path / "machine.yaml"
    path.write_text(machine.to_yaml(), encoding="utf-8")
    again = load_machine(path)
    assert again == machine == Machine(**machine.to_dict())
    assert hash(again) == hash(machine)
    assert again.costs == Costs(**PRICES)
    assert again != load_machine("sda-1024")


def test_costs_can_be_taken_away_and_given_again() -> None:
    machine = priced(**PRICES)
    bare = Machine(**{**machine.to_dict(), "costs": None})
    assert bare == load_machine("sda-1024")
    assert load_machine(bare, {"costs.hbm_channel": 1}).cost() == 32


def test_an_override_gives_an_empty_section_of_a_file_prices(tmp_path: Path) -> None:
    path = tmp_path / "machine.yaml"
    path.write_text(load_machine("sda-1024").to_yaml() + "costs: null\n", encoding="utf-8")
    assert load_machine(path).costs is None
    assert load_machine(path, {"costs.hbm_channel": "3"}).cost() == 96


def test_the_summary_tells_the_cost() -> None:
    assert priced(hbm_channel=4, unit="mm2").summary().endswith("; costs 128 mm2")
    assert priced(hbm_channel=4).summary().endswith("; costs 128")


@pytest.mark.parametrize("price", [-1, True, float("inf"), float("nan"), 10**400, [1]])
def test_a_price_is_a_number_from_0(price: Any) -> None:
    with pytest.raises(MachineError, match="hbm_channel: expected a number from 0 or null"):
        priced(hbm_channel=price)


def test_an_unknown_price_is_refused() -> None:
    with pytest.raises(MachineError, match="unknown key 'channel'"):
        Costs(channel=3)


def test_the_schema_has_costs_or_none() -> None:
    schema = machine_json_schema()
    assert schema["properties"]["costs"]["anyOf"] == [{"$ref": "#/$defs/Costs"}, {"type": "null"}]
    assert schema["$defs"]["Costs"]["properties"]["onchip_byte"]["anyOf"][0]["type"] == "number"
