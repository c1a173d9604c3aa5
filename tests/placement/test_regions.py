"""Operators that must be in a region: strips of columns, and the dies of compiled designs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stepsim as st
from stepsim.errors import ArgError


def program() -> st.Program:
    with st.Program("gated", compute_bw=1024) as made:
        x = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
        gate, up = x.map(st.fn.silu), x.map(st.fn.gelu)
        st.linear_store(st.zip(gate, up).map(st.fn.mul), "out")
    return made


def machine(rows: int = 3, cols: int = 7) -> st.Machine:
    return st.load_machine("sda-1024", {"noc": "mesh", "noc.rows": rows, "noc.cols": cols})


REGIONS = {"silu#2": 0, "gelu#3": 2, "mul#5": 1}


@pytest.mark.parametrize("seed", range(3))
def test_operators_are_in_their_region(seed: int) -> None:
    found = st.place(program(), machine(), regions=REGIONS, effort=0.05, seed=seed)
    for placement in (found.placement, found.row_major):
        columns = {name: placement.place_of(name)[1] for name in REGIONS}
        # Of seven columns, the strips begin at 0, 7 // 3 and 14 // 3, rounded up.
        assert columns["silu#2"] in (0, 1, 2)
        assert columns["mul#5"] in (3, 4)
        assert columns["gelu#3"] in (5, 6)
        assert len(set(placement.operators.values())) == 7
    free = st.place(program(), machine(), effort=0.05, seed=seed)
    figures = found.metrics()
    assert figures["busiest_link_bytes"] >= free.metrics()["busiest_link_bytes"]
    assert figures["hop_bytes"] <= figures["row_major_hop_bytes"]


def test_a_placement_in_regions_is_run() -> None:
    found = st.place(program(), machine(), regions=REGIONS, effort=0.05)
    run = st.simulate(program(), machine(), place=found.placement)
    assert sum(run.links()["link_bytes"].to_pylist()) == found.metrics()["hop_bytes"]


@pytest.mark.parametrize(
    ("regions", "size", "message"),
    [
        ({"silu#9": 0}, (3, 7), "has no operator 'silu#9'"),
        ({"silu#2": 7}, (3, 7), r"regions\['silu#2'\] must be an int from 0 to 6"),
        ({"silu#2": -1}, (3, 7), "must be an int from 0 to 6"),
        ([1, 2], (3, 7), "expected a mapping from names of operators to numbers of regions"),
        ({}, (3, 7), "expected a mapping"),
        (
            {"silu#2": 1, "gelu#3": 1, "zip#4": 1},
            (2, 4),
            None,
        ),
        (
            {"silu#2": 3, "gelu#3": 3, "zip#4": 3},
            (2, 4),
            "region 3 of 4 has 3 operators, and network 'mesh' 2 tiles .* per_tile=2",
        ),
    ],
)
def test_wrong_regions_are_named(regions: Any, size: tuple[int, int], message: str | None) -> None:
    if message is None:
        st.place(program(), machine(*size), regions=regions, effort=0.01)
        return
    with pytest.raises(ArgError, match=message):
        st.place(program(), machine(*size), regions=regions, effort=0.01)


GRID = {"noc": "mesh", "noc.rows": 8, "noc.cols": 9}


@pytest.fixture(scope="module")
def compiled() -> st.design.Compiled:
    return st.compile("gpt2-medium", st.load_machine("u55c", GRID), tokens=32)


@pytest.mark.slow
def test_a_design_is_placed_by_its_dies(compiled: st.design.Compiled) -> None:
    target = st.load_machine("u55c", GRID)
    assert target.device is not None
    dies = {kernel.name: kernel.die for kernel in compiled.plan.graph.kernels}
    assert len(set(dies.values())) > 1
    for prepared, found in zip(
        compiled.prepared, compiled.place(per_tile=8, effort=0.01), strict=True
    ):
        bound = 0
        for unit in prepared.wiring.units:
            if unit.operator is None or dies.get(unit.operator.label) is None:
                continue
            bound += 1
            column = found.placement.place_of(unit.name)[1]
            assert column * target.device.dies // 9 == dies[unit.operator.label]
        assert bound > 0
        figures = found.metrics()
        assert figures["busiest_link_bytes"] <= figures["row_major_busiest_link_bytes"]


@pytest.mark.long
def test_a_sweep_places_a_design_by_its_dies(compiled: st.design.Compiled, tmp_path: Path) -> None:
    compiled.save(tmp_path / "design")
    spec = {
        "workload": str(tmp_path / "design"),
        "machine": "u55c",
        "place": "auto,per_tile=8,effort=0.01",
        "points": [{f"machine.{key}": value for key, value in GRID.items()}],
    }
    st.sweep.run_sweep(spec, tmp_path / "runs")
    [cycles] = st.sweep.read_runs(tmp_path / "runs", ["cycles"])["cycles"].to_pylist()
    [prepared], [found] = compiled.prepared, compiled.place(per_tile=8, effort=0.01)
    assert cycles == prepared.changed(place=found.placement).run().cycles
    anywhere = st.place(prepared.program, prepared.machine, per_tile=8, effort=0.01)
    assert anywhere.placement != found.placement
