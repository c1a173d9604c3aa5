"""Ensembles: drawn by seed, within bounds, and equal to runs with these changes made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.errors import ArgError
from stepsim.simulation import DISTURBANCES


def copies(compute_bw: int = 8) -> st.Program:
    with st.Program("copies", compute_bw=compute_bw, fifo_depth=2) as program:
        for _ in range(3):
            x = st.linear_load(st.spec(32, 64), tile=(4, 64))
            st.linear_store(x.map(st.fn.silu), None)
    return program


NAMED = {one.name: one for one in DISTURBANCES}
INTERLEAVED = st.load_machine("sda-1024", {"hbm.model": "interleaved", "hbm.channels": 5})


def test_disturbances_of_one_member_are_drawn_apart() -> None:
    first, second = NAMED["hbm.latency"], NAMED["hbm.port.response_latency"]
    drawn = [
        [one.drawn(0, member, (0, 3), None) for member in range(16)] for one in (first, second)
    ]
    assert drawn[0] != drawn[1]
    assert {*drawn[0], *drawn[1]} == {0, 1, 2, 3}


def test_the_same_seed_gives_the_same_members() -> None:
    first, again = (st.ensemble(copies(), runs=12, seed=7) for _ in range(2))
    assert first == again
    assert st.ensemble(copies(), runs=12, seed=8).cycles != first.cycles
    # More members leave those before them as they are, and so do threads.
    assert st.ensemble(copies(), runs=14, seed=7, threads=2).cycles[:12] == first.cycles


def test_statistics_are_those_of_the_members() -> None:
    found = st.ensemble(copies(), INTERLEAVED, runs=16)
    cycles = np.array(found.cycles)
    assert found.nominal == st.simulate(copies(), INTERLEAVED).cycles
    assert (found.least, found.most) == (cycles.min(), cycles.max())
    assert [found.p5, found.median, found.p95] == np.percentile(cycles, [5, 50, 95]).tolist()
    assert found.least < found.most
    assert found.spread == (found.p95 - found.p5) / found.median
    assert found.to_arrow()["cycles"].to_pylist() == list(found.cycles)
    assert set(found.bounds) == {"hbm.latency", "hbm.bases", "fifo.depth"}


def test_members_are_runs_with_the_changes_that_were_drawn() -> None:
    program = copies()
    latency, depth = NAMED["hbm.latency"], NAMED["fifo.depth"]
    found = st.ensemble(program, runs=6, seed=3, bounds={"hbm.latency": 9, "fifo.depth": 3})
    prepared = st.prepare(program)
    names = [fifo.name for fifo in prepared.wiring.fifos]
    for member, cycles in enumerate(found.cycles):
        late = latency.drawn(3, member, (0, 9), prepared)
        deeper = depth.drawn(3, member, (0, 3), prepared)
        assert 0 <= late <= 9
        assert all(0 <= one <= 3 for one in deeper)
        machine = st.load_machine("sda-1024", {"hbm.latency": 2 + late})
        depths = {name: 2 + more for name, more in zip(names, deeper, strict=True)}
        assert st.simulate(program, machine, fifo_depth=depths).cycles == cycles


def test_bases_move_the_first_requests_of_ports() -> None:
    bounds = {"hbm.latency": 0, "fifo.depth": 0, "hbm.bases": (0, 4)}
    found = st.ensemble(copies(), INTERLEAVED, runs=24, bounds=bounds)
    assert len(set(found.cycles)) > 1
    assert found.bounds == {"hbm.bases": (0, 4)}
    # All ports moved on together meet as they did.
    together = st.ensemble(copies(), INTERLEAVED, runs=4, bounds=bounds | {"hbm.bases": (2, 2)})
    assert set(together.cycles) == {together.nominal}


# One channel, so that tensors that lie elsewhere meet in other banks.
DRAM = st.load_machine("hdl-arbiter", {"hbm.addresses.bases": "packed"})


@pytest.mark.slow  # compiles the engine of that memory
def test_members_on_a_dram_are_runs_with_the_changes_that_were_drawn() -> None:
    program = copies()
    prepared = st.prepare(program, DRAM)
    ports, rows = len(prepared.template.first.ports), prepared.address_rows()
    found = st.ensemble(program, DRAM, runs=6, seed=5, bounds={"fifo.depth": 0})
    assert found.bounds == {
        "hbm.port.response_latency": (0, 3), "hbm.port.first": (0, ports - 1), "hbm.bases": (0, 3),
    }  # fmt: skip
    assert len(set(found.cycles)) > 1
    for member, cycles in enumerate(found.cycles):
        late, first, moved = (
            NAMED[name].drawn(5, member, bounds, prepared) for name, bounds in found.bounds.items()
        )
        machine = st.load_machine(
            DRAM, {"hbm.port.first": first, "hbm.port.response_latency": 7 + late}
        )
        places = {
            row["operators"][0]: {"base": row["base"] + 512 * change}
            for row, change in zip(rows, moved, strict=True)
        }
        assert st.simulate(program, machine, addresses=places).cycles == cycles


def test_tensors_are_moved_within_the_dram_only() -> None:
    prepared = st.prepare(copies(), DRAM)
    regions = prepared.address_map.regions
    far = NAMED["hbm.bases"].apply(prepared, (1 << 16,) * len(regions))
    before, after = ({port.base for port in one.template.first.accesses} for one in (prepared, far))
    assert len(after) == len(before)
    assert {base - 512 * (1 << 16) for base in after} == before
    beyond = NAMED["hbm.bases"].apply(prepared, (1 << 40,) * len(regions))
    ends = [
        port.base + region.size
        for port, region in zip(beyond.template.first.accesses, regions, strict=True)
    ]
    assert set(ends) == {prepared.address_map.capacity}


@pytest.mark.slow  # compiles the engine of that memory
def test_bases_that_are_the_design_of_a_machine_stay_unless_asked_for() -> None:
    assert "hbm.bases" not in st.ensemble(copies(), "hdl-arbiter", runs=1).bounds
    bounds = {"hbm.bases": 2, "fifo.depth": 0}
    assert st.ensemble(copies(), "hdl-arbiter", runs=1, bounds=bounds).bounds["hbm.bases"] == (0, 2)


def test_depths_never_fall_below_one_and_lost_members_are_counted() -> None:
    with st.Program("needs two", compute_bw=8) as program:
        x = st.metadata([1, 2, 3]).with_depth(2)
        first, second = st.broadcast(x, 2)
        st.zip(first.with_depth(2), second.with_depth(2)).consume()
    bounds = {"fifo.depth": (-5, 0)}
    found = st.ensemble(program, runs=8, bounds=bounds)
    assert found.lost == sum(status != "ok" for status in found.statuses)
    assert [one is None for one in found.cycles] == [s != "ok" for s in found.statuses]


def test_two_ensembles_differ_within_noise_where_their_ranges_overlap() -> None:
    one = st.ensemble(copies(), runs=16)
    assert one.is_within(st.ensemble(copies(), runs=16, seed=1))
    assert not one.is_within(st.ensemble(copies(4), runs=16))


def test_programs_that_run_one_after_another_add_up_by_member() -> None:
    first, last = (st.ensemble(copies(width), runs=5) for width in (8, 4))
    both = first.and_then(last)
    assert both.nominal == first.nominal + last.nominal
    assert both.cycles == tuple(map(sum, zip(first.cycles, last.cycles, strict=True)))
    lost = replace(first, cycles=(None, *first.cycles[1:]), statuses=("limit",) + ("ok",) * 4)
    assert lost.and_then(last).cycles[0] is None
    assert lost.and_then(last).statuses == lost.statuses == last.and_then(lost).statuses


def test_a_program_that_does_not_fit_has_a_spread_too() -> None:
    small = st.load_machine("sda-1024", {"compute.flops_per_cycle": 1})
    found = st.ensemble(copies(), small, runs=4)
    assert found.cycles == st.ensemble(copies(), runs=4).cycles


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"runs": 0}, "runs"),
        ({"seed": -1}, "seed"),
        ({"bounds": {"hbm.latencies": 3}}, "did you mean 'hbm.latency'?"),
        ({"bounds": {"hbm.bases": 3}}, "has no effect"),
        ({"bounds": {"hbm.latency": (3, 0)}}, "the least and the largest change"),
        ({"bounds": {"hbm.latency": 0, "fifo.depth": 0}}, "nothing is left to disturb"),
        ({"bounds": [3]}, "must be a mapping"),
        ({"limits": st.Limits(max_cycles=3)}, "the nominal run ended with status limit"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgError) as caught:
        st.ensemble(copies(), **arguments)
    assert said in str(caught.value)
