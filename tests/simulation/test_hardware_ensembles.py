"""Ensembles at the hardware level: values of the machine drawn by seed, within bounds."""

from __future__ import annotations

from typing import Any

import pytest

import stepsim as st
from stepsim.errors import ArgError
from stepsim.simulation.hardware_level.disturbances import HARDWARE
from stepsim.simulation.hardware_level.programs import on_hardware
from stepsim.workloads.parameters import Data
from stepsim.workloads.swiglu import Swiglu


def layer() -> st.Program:
    shape = Swiglu(batch=32, hidden=128, intermediate=128, tile=32, tile_inter=32)
    return shape.build(Data.of()).program


def test_members_are_runs_with_the_changes_that_were_drawn() -> None:
    program = layer()
    found = st.ensemble(program, runs=8, seed=3, level="hardware")
    what = on_hardware(program)
    values = {
        "memory.pointer": 0, "memory.return_delay": 0, "dram.read_queue": 33,
        "dram.write_queue": 33, "fifo_depth": 2,
    }  # fmt: skip
    assert found.bounds == {
        "memory.pointer": (0, 4), "memory.return_delay": (0, 3), "dram.read_queue": (-1, 0),
        "dram.write_queue": (-1, 0), "fifo_depth": (0, 1),
    }  # fmt: skip
    assert found.nominal == st.simulate(program, level="hardware").cycles
    assert len(set(found.cycles)) > 1
    for member, cycles in enumerate(found.cycles):
        changed = {
            one.name: values[one.name] + one.drawn(3, member, found.bounds[one.name], what)
            for one in HARDWARE
        }
        machine = st.hardware.load_machine("hdl", changed)
        assert st.simulate(program, level="hardware", hardware=machine).cycles == cycles


def test_the_same_seed_gives_the_same_members_on_any_number_of_threads() -> None:
    one, again = (
        st.ensemble(layer(), runs=runs, level="hardware", threads=threads)
        for runs, threads in ((6, 1), (8, 3))
    )
    assert again.cycles[:6] == one.cycles
    other = st.ensemble(layer(), runs=6, level="hardware", seed=1)
    assert other.cycles != one.cycles


def test_a_turn_begins_at_a_port_that_there_is() -> None:
    machine = st.hardware.load_machine("hdl", {"memory.pointer": 4})
    bounds = {"memory.pointer": (1, 1), "memory.return_delay": 0, "fifo_depth": 0} | dict.fromkeys(
        ("dram.read_queue", "dram.write_queue"), 0
    )
    found = st.ensemble(layer(), runs=1, level="hardware", hardware=machine, bounds=bounds)
    assert found.cycles == (st.simulate(layer(), level="hardware").cycles,)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"machine": "sda-hdl"}, "machine has no effect at level 'hardware'"),
        ({"fifo_depth": 3}, "fifo_depth has no effect at level 'hardware'"),
        ({"limits": st.Limits(max_steps=3)}, "limits has max_cycles only"),
        ({"limits": st.Limits(max_cycles=3)}, "the nominal run ended with status limit"),
        ({"bounds": {"hbm.latency": 3}}, "names 'hbm.latency'"),
        ({"bounds": {"fifo_dept": 3}}, "did you mean 'fifo_depth'?"),
        ({"level": "gates"}, "level must be 'tile' or 'hardware'"),
        ({"level": "tile", "hardware": st.hardware.Machine()}, "pass level='hardware'"),
        ({"runs": 0}, "runs"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ArgError) as caught:
        st.ensemble(layer(), **{"level": "hardware", "runs": 2, **arguments})
    assert told in str(caught.value)
