"""Tables of presets on pages have the values of the presets."""

from __future__ import annotations

import re

import pytest

import stepsim as st
from stepsim.machine import Dram, load_machine
from stepsim.machine.dram_presets import DRAM_PRESETS
from tests.pages import DOCS


def rows(page: str, header: str) -> dict[str, list[str]]:
    """The cells of the rows of a table by the words in code of their first cell."""
    text = (DOCS / page).read_text(encoding="utf-8")
    _, _, body = text.partition(f"{header}\n")
    found: dict[str, list[str]] = {}
    for line in body.splitlines()[1:]:
        if not line.startswith("|"):
            break
        first, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        found |= dict.fromkeys(re.findall(r"`([^`]+)`", first), cells)
    return found


def test_drams() -> None:
    table = rows("dram.md", "| preset | clock | organization | peak | source |")
    assert list(table) == list(DRAM_PRESETS)
    for name, (clock, organization, peak, _) in table.items():
        dram = Dram(preset=name)
        assert dram.clock_ghz is not None
        assert float(clock.removesuffix(" GHz")) == pytest.approx(dram.clock_ghz, rel=1e-3)
        if name == "hbm2-fullrate":
            assert organization == f"the same, {dram.access_bytes} B in {dram.nBL} clocks"
            assert (dram.channels, dram.banks) == (Dram().channels, Dram().banks)
        else:
            sizes = [dram.channels, dram.pseudo_channels, dram.bank_groups, dram.banks]
            if name == "u55c":
                sizes = sizes[2:]
                pseudo = dram.channels * dram.pseudo_channels
                assert organization.startswith(f"{pseudo} pseudo-channels of ")
            parts = " x ".join(str(size) for size in sizes if size > 1)
            assert organization.endswith(f"{parts} banks, {dram.access_bytes} B")
        changes = {"hbm.model": "dram", "hbm.dram.preset": name, "clock_ghz": 1}
        per_second = load_machine("sda-hdl", changes).peak_bandwidth
        assert float(peak.removesuffix(" GB/s")) == pytest.approx(per_second, rel=1e-3)


def test_networks() -> None:
    table = rows("noc.md", "| preset | network | source |")
    for name, (described, source) in table.items():
        network = st.noc.load_network(name)
        if network.flits is not None:
            assert described.endswith(f"flits of {network.flits.flit_bytes} bytes")
        else:
            assert network.rates is not None
            grid = f"{network.rows} x {network.cols}"
            assert described == f"two one-way tori of {grid}, {network.rates.link:g} B/cycle"
        if name in ("mesh", "torus"):
            assert described.startswith(f"{network.rows} x {network.cols} places")
        if name in ("ring", "switch"):
            assert described.startswith(f"{network.cols} places")
        if name.endswith("-flits"):
            assert network.flits is not None
            text = " ".join((DOCS / "noc.md").read_text(encoding="utf-8").split())
            hop = network.flits.router + network.flits.wire
            ends = network.flits.inject + hop
            assert (
                f"{hop} cycles from router to router, and from its core and to the other {ends}"
                in text
            )
            said = st.machine.provenance(name.removesuffix("-flits")).sources["noc"]
            commit = source.rpartition(" ")[2]
            assert commit in said


def test_machines() -> None:
    """Channels and bytes per cycle of the presets made after papers, and capacities of all."""
    table = rows("machines.md", "| preset | off-chip | on-chip | describes |")
    for name, (off_chip, on_chip, _) in table.items():
        machine = load_machine(name)
        per_cycle = f"{machine.onchip.bytes_per_cycle} B/cycle"
        capacity = machine.onchip.capacity_bytes
        size = "" if capacity is None else f", {capacity / 1e6:,.0f} MB"
        if capacity == 40_000_000_000:
            size = ", 40 GB"
        assert on_chip == per_cycle + size, name
        second = re.search(r"([\d.]+) ([GT])B/s", off_chip)
        if second is not None:
            assert machine.clock_ghz is not None
            rate = machine.peak_bandwidth * machine.clock_ghz / (1000 if second[2] == "T" else 1)
            assert float(second[1]) == pytest.approx(rate, rel=1e-3), name
        cycle = re.search(r"([\d,]+) B/cycle", off_chip)
        if cycle is not None:
            assert float(cycle[1].replace(",", "")) == machine.peak_bandwidth, name
        if channels := re.match(r"(\d+) channels", off_chip):
            assert int(channels[1]) == machine.hbm.channels, name


def test_steps_from_the_settings_of_the_paper_to_its_hardware() -> None:
    table = rows("addresses.md", "| machine | what is new |")
    machines = {name: load_machine(name) for name in table}
    flops = machines["hdl-flops"].compute
    assert flops is not None
    assert table["hdl-flops"] == [f"{flops.unit_flops_per_cycle:,} FLOPs per cycle and operator"]
    onchip = machines["hdl-onchip"].onchip.bytes_per_cycle
    assert table["hdl-onchip"] == [f"{onchip:,} bytes per cycle on chip"]
    request = machines["hdl-dram"].hbm.request_bytes
    assert table["hdl-dram"] == [f"the DRAM, requests of {request} bytes"]
    ahead = machines["hdl-read-ahead"].hbm.port
    assert ahead is not None
    assert table["hdl-read-ahead"] == [f"{ahead.read_ahead} requests ahead"]
    port = machines["hdl-arbiter"].hbm.port
    assert port is not None
    delays = f"latencies {port.request_latency} and {port.response_latency}"
    assert table["hdl-arbiter"] == [f"arbiter that turns in every cycle, {delays}"]
