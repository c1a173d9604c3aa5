"""Machines made without a file: what is wrong is a MachineError with all of it."""

from __future__ import annotations

import copy
import pickle

import pytest

import stepsim as st
from stepsim.errors import MachineError
from stepsim.machine.model import Fifo, Hbm, OnChip

HBM = {"request_bytes": 64, "channels": 2, "latency": 1, "interval": 1, "startup": 0}


def test_every_wrong_value_is_named() -> None:
    with pytest.raises(MachineError) as caught:
        st.Machine(name=3, hbm={**HBM, "chanels": 2, "latency": -1}, closure_slack=0)
    text = str(caught.value)
    assert text.startswith("Machine: ")
    assert "hbm.chanels: unknown key 'chanels'; did you mean 'channels'?" in text
    assert "hbm.latency: expected an integer from 0 to 1048576" in text
    assert "name: expected a non-empty text" in text
    assert "onchip: missing" in text


def test_a_section_alone_is_checked() -> None:
    with pytest.raises(MachineError, match="Hbm: interval: expected an integer from 1"):
        Hbm(**{**HBM, "interval": 0})
    with pytest.raises(MachineError, match="OnChip: bytes_per_cycle: missing"):
        OnChip()
    with pytest.raises(MachineError, match=r"Fifo: expected keywords \(depth\), found 3"):
        Fifo(3)


def test_a_machine_does_not_change() -> None:
    machine = st.load_machine()
    with pytest.raises(MachineError, match=r"Hbm: 'channels' cannot be set.*load_machine"):
        machine.hbm.channels = 4
    assert machine.hbm.channels == st.load_machine().hbm.channels


def test_sections_and_plain_values_make_equal_machines() -> None:
    plain = st.Machine(name="m", hbm=HBM, onchip={"bytes_per_cycle": 1})
    made = st.Machine(name="m", hbm=Hbm(**HBM), onchip=OnChip(bytes_per_cycle=1), fifo=Fifo())
    assert plain == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert copy.deepcopy(made) == made
    assert hash(made) == hash(plain)
