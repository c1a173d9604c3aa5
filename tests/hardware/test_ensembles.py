"""Ensembles at the hardware level: values of the machine drawn by seed, within bounds."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest

import stepsim as st
from stepsim.errors import ArgError
from stepsim.hardware import DISTURBANCES
from stepsim.hardware.simulation import on_hardware
from stepsim.workloads.inputs import Data
from stepsim.workloads.swiglu import Swiglu


def layer() -> st.Program:
    shape = Swiglu(batch=32, hidden=128, intermediate=128, tile=32, tile_inter=32)
    return shape.build(Data.of()).program


@pytest.mark.slow
def test_members_are_runs_with_the_changes_that_were_drawn() -> None:
    program = layer()
    found = st.hardware.ensemble(program, runs=8, seed=3)
    what = on_hardware(program)
    values = {
        "memory.pointer": 0, "memory.return_delay": 0, "dram.read_queue": 33,
        "dram.write_queue": 33, "fifo_depth": 2,
    }  # fmt: skip
    assert found.bounds == {
        "memory.pointer": (0, 4), "memory.return_delay": (0, 3), "dram.read_queue": (-1, 0),
        "dram.write_queue": (-1, 0), "fifo_depth": (0, 1),
    }  # fmt: skip
    assert found.nominal == st.hardware.simulate(program).cycles
    assert len(set(found.cycles)) > 1
    for member, cycles in enumerate(found.cycles):
        changed = {
            one.name: values[one.name] + one.drawn(3, member, found.bounds[one.name], what)
            for one in DISTURBANCES
        }
        machine = st.hardware.load_machine("hdl", changed)
        assert st.hardware.simulate(program, machine).cycles == cycles


@pytest.mark.slow
def test_the_same_seed_gives_the_same_members_on_any_number_of_threads() -> None:
    one, again = (
        st.hardware.ensemble(layer(), runs=runs, threads=threads)
        for runs, threads in ((6, 1), (8, 3))
    )
    assert again.cycles[:6] == one.cycles
    other = st.hardware.ensemble(layer(), runs=6, seed=1)
    assert other.cycles != one.cycles


def test_a_turn_begins_at_a_port_that_there_is() -> None:
    machine = st.hardware.load_machine("hdl", {"memory.pointer": 4})
    bounds = {"memory.pointer": (1, 1), "memory.return_delay": 0, "fifo_depth": 0} | dict.fromkeys(
        ("dram.read_queue", "dram.write_queue"), 0
    )
    found = st.hardware.ensemble(layer(), machine, runs=1, bounds=bounds)
    assert found.cycles == (st.hardware.simulate(layer()).cycles,)


@pytest.mark.slow
@pytest.mark.usefixtures("signals_by_default")
def test_an_interrupt_ends_the_members_under_way() -> None:
    long = Swiglu(batch=2048, hidden=2048, intermediate=2048, tile=32, tile_inter=32)
    program = long.build(Data.of()).program
    st.hardware.simulate(program, max_cycles=1)
    timer = threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            st.hardware.ensemble(program, runs=2, threads=2)
    finally:
        timer.cancel()
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"max_cycles": 3}, "the nominal run ended with status limit"),
        ({"bounds": {"hbm.latency": 3}}, "names 'hbm.latency'"),
        ({"bounds": {"fifo_dept": 3}}, "did you mean 'fifo_depth'?"),
        ({"runs": 0}, "runs"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgError) as caught:
        st.hardware.ensemble(layer(), **{"runs": 2, **arguments})
    assert said in str(caught.value)
