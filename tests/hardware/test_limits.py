"""What a run at the hardware level refuses, and values of machines: each of them matters."""

from __future__ import annotations

import re
from typing import Any

import pytest

import stepsim as st
from stepsim.hardware import Machine, Network, load_machine
from stepsim.machine.loading import known_keys

_LAYER = (32, 32, 64, 16, 32)


def _loaded(dims: list[int], **port: Any) -> Network:
    network = Network()
    network.printer("p", network.reader("r", dims, **port), last=len(dims))
    return network


@pytest.mark.parametrize(
    ("network", "overrides", "words"),
    [
        (_loaded([1 << 40, 1 << 40]), {}, "reader 'r': 1208925819614629174706176 entries"),
        (_loaded([2], base=(1 << 40) - 1500), {}, "end beyond 2**40, the addresses of a memory"),
        (_loaded([4]), {"memory.pointer": 1}, "memory.pointer must be one of its 1 ports"),
        (_loaded([1]), {"memory.request_bytes": 2048}, "which a reader never requests"),
        (_loaded([5]), {"memory.request_bytes": 4096}, "which a reader never requests"),
    ],
)
def test_streams_that_cannot_be_loaded(network: Network, overrides: Any, words: str) -> None:
    with pytest.raises(st.errors.GraphError, match=re.escape(words)):
        st.hardware.simulate(network, load_machine("hdl", overrides))


def test_readers_of_any_length_end() -> None:
    for length in (1, 2, 3, 127, 128, 129):
        for block in (64, 512, 1027):
            machine = load_machine("hdl", {"memory.request_bytes": block})
            result = st.hardware.simulate(_loaded([length]), machine)
            assert (result.status, result.reads) == ("ok", (1028 * length - 1) // block)


def test_messages_of_all_fifos_have_a_limit() -> None:
    network = Network()
    network.sink(network.map("m", network.source("s", [0]), latency=1 << 40))
    with pytest.raises(st.errors.GraphError, match=re.escape("the largest is 'm.out'")):
        st.hardware.simulate(network)


# Of the DRAM see tests/dram; a name is no number.
_OTHER: dict[str, Any] = {
    "fifo_depth": 3, "tile_bytes": 512, "stop_bytes": 0, "product.interval": 3,
    "product.latency": 4, "elementwise.interval": 40, "elementwise.latency": 3, "buffer.sets": 3,
    "buffer.frames": 1, "buffer.references": 1, "buffer.wake_cycle": 900,
    "memory.request_bytes": 256, "memory.arbiter": "fair", "memory.pointer": 2,
    "memory.first_depth": 1, "memory.second_depth": 1, "memory.in_flight": 5, "memory.table": 1,
    "memory.request_delay": 2, "memory.return_delay": 1, "memory.base_step": 8192,
    "clock_ghz": 0.7, "dram.preset": "hbm1", "dram.nCL": 9,
}  # fmt: skip


@pytest.mark.parametrize("key", _OTHER)
def test_every_value_of_a_machine_matters(key: str) -> None:
    def events(machine: Machine) -> object:
        result = st.hardware.simulate(st.hardware.swiglu(*_LAYER), machine, trace=True)
        assert result.events is not None
        return result.status, result.events

    assert events(load_machine("hdl", {key: _OTHER[key]})) != events(Machine())


def test_values_of_machines_are_all_varied() -> None:
    of_dram = {key for key in known_keys(Machine) if key.startswith("dram.")}
    assert set(_OTHER) | of_dram == set(known_keys(Machine)) - {"name", "description"}


@pytest.mark.parametrize(
    ("sizes", "sink", "status", "cycles"),
    [
        ((32, 288, 144, 32, 144), "writer", "mismatch", 2736),
        ((16, 160, 576, 16, 144), "printer", "mismatch", 4365),
    ],
)
def test_groups_that_share_sets(
    sizes: tuple[int, int, int, int, int], sink: Any, status: str, cycles: int
) -> None:
    """Against a second model written from the rules; a set that is freed stays free.

    In these cases a set is reserved and freed in one cycle. Of the two actions that of the later
    rule holds; these runs take another course where it is the other one.
    """
    result = st.hardware.simulate(st.hardware.swiglu(*sizes, sink=sink))
    assert (result.status, result.cycles) == (status, cycles)
