"""The hardware level against the recorded HDL: every count, and every event of every FIFO.

``$STEPSIM_HDL_CASES`` names a folder with further ``endtoend*.csv`` of the same columns.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import stepsim as st
from stepsim.hardware import HardwareResult
from tests.hardware.scenarios import SCENARIOS
from tests.shared import DATA, recorded

_RECORDED = DATA / "hdl"
_CASES = Path(os.environ.get("STEPSIM_HDL_CASES", _RECORDED))
_SIZES = ("B", "D", "F", "tile_b", "tile_inter")

_FIRINGS = {
    "gate_maps": "gate.mm", "up_maps": "up.mm", "down_maps": "down.mm", "mul_maps": "mul",
}  # fmt: skip
_COMMANDS = {"dram_act": "act", "dram_pre": "pre", "dram_rd": "rd", "dram_wr": "wr"}


def _cases() -> Iterator[object]:
    for path in sorted(_CASES.glob("endtoend*.csv")):
        with path.open(encoding="utf-8-sig", newline="") as file:
            for row in csv.DictReader(file):
                yield pytest.param(row, id=row["case"])


def _found(result: HardwareResult, sink: str) -> dict[str, object]:
    """The columns of a case that a run has."""
    ended = "" if result.status == "ok" else f"@{result.cycles}"
    return {
        "status": result.status + (ended if result.status == "mismatch" else ""),
        "cycles": result.cycles,
        "reads_sent": result.reads,
        "writes_sent": result.writes,
        **{column: result.firings[unit] for column, unit in _FIRINGS.items()},
        "final_tiles": result.firings["wr" if sink == "writer" else "pr"],
        **{column: result.dram_commands[name] for column, name in _COMMANDS.items()},
        "first_request_granted": result.first_grant,
        "first_data_tile": result.first_tile,
    }


@recorded(_CASES)
@pytest.mark.parametrize("row", list(_cases()))
def test_hdl_cases(row: dict[str, str]) -> None:
    sizes = {name: int(row[name]) for name in _SIZES}
    network = st.hardware.swiglu(**sizes, sink=row["sink"])  # type: ignore[arg-type]
    assert network.ports == int(row["ports"])
    found = {name: str(value) for name, value in _found(
        st.hardware.simulate(network), row["sink"]
    ).items()}  # fmt: skip
    # A run that never ends has no counts.
    expected = {name: row[name] for name in found if row.get(name)}
    assert "status" in expected
    assert {name: found[name] for name in expected} == expected


@cache
def _recorded() -> dict[str, list[tuple[int, str, str, str]]]:
    """Events of every scenario, in time order."""
    traces: dict[str, list[tuple[int, str, str, str]]] = {}
    with (_RECORDED / "unit_traces.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            event = (int(row["cycle"]), row["event"], row["place"], row["value"])
            traces.setdefault(row["scenario"], []).append(event)
    return traces


needs_traces = recorded(_RECORDED / "unit_traces.csv")


@needs_traces
def test_hdl_cases_have_all_scenarios() -> None:
    assert set(_recorded()) == set(SCENARIOS)


@needs_traces
@pytest.mark.parametrize("name", SCENARIOS)
def test_hdl_cases_of_units(name: str) -> None:
    scenario = SCENARIOS[name]()
    result = st.hardware.simulate(scenario.network, trace=True, max_cycles=scenario.cycles)
    assert result.events is not None
    events = []
    for event in result.events.to_pylist():
        place = event["place"]
        for before, after in scenario.renamed:
            if place.startswith(before):
                place = after + place.removeprefix(before)
        if scenario.listed(event["cycle"], event["event"], place):
            events.append((event["cycle"], event["event"], place, event["value"]))
    # Events of one cycle have no order among themselves.
    assert sorted(events) == sorted(_recorded()[name])
