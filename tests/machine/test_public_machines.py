"""Machines that can be bought: every number has a source or is a stated assumption."""

from __future__ import annotations

import pytest
import yaml

import stepsim as st
from stepsim.errors import MachineError
from stepsim.machine import Machine, annotated_yaml, load_machine, provenance
from stepsim.machine.network_presets import NETWORK_PRESETS
from stepsim.machine.presets import PUBLIC_MACHINES

NAMES = sorted(PUBLIC_MACHINES)

RULES = {"name", "description", "model", "hbm.model", "fifo.depth", "closure_slack"}
"""Keys that choose the rules of the simulation, and say nothing of a machine."""


def leaves(values: dict[str, object], path: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in values.items():
        found |= leaves(value, f"{path}{key}.") if isinstance(value, dict) else {path + key: value}
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_number_has_a_source_or_is_assumed(name: str) -> None:
    machine, known = load_machine(name), provenance(name)
    assert not known.sources.keys() & known.assumptions.keys()
    stated = known.sources.keys() | known.assumptions.keys()
    network = leaves({"noc": NETWORK_PRESETS[machine.noc.name]}) if machine.noc else {}
    own = {key for key in leaves(machine.to_dict()) if key not in network}
    assert own - RULES == stated - {"noc"}
    assert ("noc" in known.sources) == (machine.noc is not None)
    for text in (*known.sources.values(), *known.assumptions.values()):
        assert text.endswith("."), text


@pytest.mark.parametrize("name", NAMES)
def test_a_reference_to_another_key_has_one(name: str) -> None:
    known = provenance(name)
    for text in known.sources.values():
        if text.startswith("See "):
            assert text.removeprefix("See ").removesuffix(".") in known.sources


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_public_is_listed(name: str) -> None:
    known = provenance(name)
    assert known.not_public
    assert known.left_out
    assert len(set(known.not_public)) == len(known.not_public)


PUBLISHED = {
    # GB/s off chip, TFLOPS, cores
    "wormhole": (288, 73.728, 72),
    "wormhole-n300": (288, 65.536, 64),
    "blackhole": (512, 193.536, 140),
    "sn40l": (1600, 638, 1040),
    "tpu-v4": (1200, 275.2512, 8),
    "tpu-v4-cube": (1200, 275.2512, 8),
    "wse-2": (150, 7480, 850_000),
}


@pytest.mark.parametrize("name", NAMES)
def test_rates_per_cycle_are_the_published_rates(name: str) -> None:
    machine = load_machine(name)
    assert machine.clock_ghz is not None
    assert machine.compute is not None
    assert machine.compute.flops_per_cycle is not None
    assert machine.compute.unit_flops_per_cycle is not None
    bandwidth, tflops, cores = PUBLISHED[name]
    assert machine.peak_bandwidth * machine.clock_ghz == pytest.approx(bandwidth, rel=1e-12)
    assert machine.compute.flops_per_cycle * machine.clock_ghz / 1e3 == pytest.approx(tflops)
    assert machine.compute.flops_per_cycle // machine.compute.unit_flops_per_cycle == cores


@pytest.mark.parametrize("name", NAMES)
def test_loads_share_the_published_bandwidth(name: str) -> None:
    machine = load_machine(name)
    memory = machine.hbm
    loads, rows, size = 40, 64, 32 * memory.request_bytes
    with st.Program("loads") as program:
        for number in range(loads):  # an operator requests once per cycle
            x = st.spec(rows, size, name=f"x{number}", dtype="bf16")
            st.consume(st.linear_load(x, tile=(rows, size)))
    result = st.simulate(program, machine)
    assert result.status == "ok"
    moved = loads * rows * size * 2
    assert result.offchip_bytes == moved
    least = moved / machine.peak_bandwidth
    assert least - memory.interval <= result.cycles <= least + memory.latency + memory.interval + 64
    assert result.milliseconds == machine.milliseconds(result.cycles)


@pytest.mark.parametrize("name", ["wormhole", "blackhole"])
def test_an_idle_network_has_the_published_delays(name: str) -> None:
    network = load_machine(name).noc
    assert network is not None
    assert network.flits is not None
    # Two workers of one row, the second to the east of the first, the other way around the torus.
    core = network.core_letters.index("WW")
    near = st.noc.simulate({"source": [core], "destination": [core + 1], "flits": [1]}, network)
    assert near.arrival.tolist() == [10 + 9]
    far = st.noc.simulate({"source": [core + 1], "destination": [core], "flits": [1]}, network)
    assert far.arrival.tolist() == [10 + 9 * (network.cols - 1)]


@pytest.mark.parametrize("name", ["wormhole", "blackhole"])
def test_programs_are_placed_on_their_networks(name: str) -> None:
    with st.Program("silu", compute_bw=1024) as program:
        x = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
        st.linear_store(x.map(st.fn.silu), "out")
    machine = load_machine(name, {"noc.routing": "shortest"})
    assert machine.noc is not None
    place = st.noc.Placement.row_major(program, machine.noc)
    assert st.simulate(program, machine, place=place).cycles > st.simulate(program, machine).cycles


@pytest.mark.parametrize("name", NAMES)
def test_the_file_with_sources_is_that_of_the_machine(name: str) -> None:
    machine = load_machine(name)
    text = annotated_yaml(machine)
    assert Machine(**yaml.safe_load(text)) == machine
    words = " ".join(text.replace("#", " ").split())
    known = provenance(name)
    for part in (*known.sources.values(), *known.assumptions.values(), *known.not_public):
        assert part in words


def test_a_changed_value_loses_its_source() -> None:
    text = annotated_yaml(load_machine("sn40l", {"clock_ghz": 2, "hbm.channels": 26}))
    assert "# Assumed. The clock is not public" not in text
    assert "25.6 TB/s" not in text
    assert "# 64 GB of HBM (SambaNova, Hot Chips 2024).\n  capacity_bytes" in text


def test_other_machines_have_no_comments() -> None:
    machine = load_machine("sda-1024")
    assert annotated_yaml(machine) == machine.to_yaml()


@pytest.mark.parametrize(
    ("name", "end"),
    [("wormhole-n30", "; did you mean 'wormhole-n300'? "), ("sda-1024", ". ")],
)
def test_machines_without_sources_are_refused_by_name(name: str, end: str) -> None:
    with pytest.raises(MachineError) as error:
        provenance(name)
    assert str(error.value) == (
        f"machine '{name}' has no list of sources{end}Machines with one: {', '.join(NAMES)}"
    )
