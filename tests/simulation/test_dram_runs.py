"""Runs on machines with a DRAM: what reads them finds the same as with other memories."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stepsim as st
from stepsim.simulation import Prepared, prepare

pytestmark = pytest.mark.slow
"""They compile an engine."""

_RECORDED = """
from tests.simulation.test_dram_runs import loaded
plain, recorded = loaded().result(), loaded().result(record=True)
assert recorded.cycles == plain.cycles
waits = recorded.timeline()
assert plain.provenance["image_hash"] == recorded.provenance["image_hash"]
print("same")
"""


def test_a_recorded_run_is_the_run() -> None:
    """In plain Python, for the engine of recorded runs is another one to compile."""
    done = subprocess.run(
        [sys.executable, "-c", _RECORDED], cwd=Path(__file__).parents[2], text=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, check=False,
    )  # fmt: skip
    assert done.stdout == "same\n", done.stderr


def scattered() -> st.Program:
    with st.Program("scattered") as program:
        table = st.spec(512, 16, dtype="f32", name="table")
        read = st.random_load(st.metadata(np.arange(24) * 7 % 32), table, tile=(16, 16))
        st.linear_store(read, "out")
    return program


def loaded(machine: str = "hdl-arbiter") -> Prepared:
    return prepare(scattered(), machine)


def test_the_value_of_an_address_is_the_tile() -> None:
    """Tiles of one row of the DRAM take less time than tiles of many rows of one bank."""
    cycles = {}
    for name, step in (("near", 1), ("far", 128)):
        with st.Program(name) as program:
            table = st.spec(16 * 4096, 16, dtype="f32", name="table")
            addresses = st.metadata(np.arange(16) * step)
            st.random_load(addresses, table, tile=(16, 16)).consume()
        places = {"table": "tiled"}
        cycles[name] = st.simulate(program, "hdl-dram", addresses=places).cycles
    assert cycles["near"] < cycles["far"]


def test_batches_are_single_runs() -> None:
    single = loaded().run()
    assert loaded().run_depths([{}, {}, {}]).cycles.tolist() == 3 * [single.cycles]


def test_no_run_uses_more_than_there_is() -> None:
    run = loaded().result()
    assert run.bandwidth_utilization is not None
    assert 0 < run.bandwidth_utilization <= 1


def test_changes_of_the_memory_are_those_of_a_new_program() -> None:
    other = loaded("hdl-dram").changed(machine="hdl-arbiter")
    assert other.image().digest() == loaded().image().digest()
    moved = loaded().changed(addresses={"out": 4096})
    assert moved.image().digest() != loaded().image().digest()
    assert moved.result().provenance["addresses"] == {"out": {"base": 4096, "layout": None}}
