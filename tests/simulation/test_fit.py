"""Programs that do not fit their machine: named, with what is too much, and still timed."""

from __future__ import annotations

from typing import Any

import pytest

import stepsim as st
from stepsim.errors import ArgError


def program_of(width: int = 64) -> st.Program:
    with st.Program("two", compute_bw=width) as program:
        for label in ("left", "right"):
            x = st.linear_load(st.spec(4, 8), tile=(4, 8), label=f"load_{label}")
            x.map(st.fn.silu, label=label).consume()
    return program


def machine_of(**values: Any) -> st.Machine:
    return st.load_machine("sda-1024", {key.replace("__", "."): v for key, v in values.items()})


def test_compute_bandwidth_in_all() -> None:
    plain = st.simulate(program_of())
    fits = st.simulate(program_of(), machine_of(compute__flops_per_cycle=128))
    over = st.simulate(program_of(), machine_of(compute__flops_per_cycle=127))
    assert (fits.status, fits.diagnosis) == ("ok", None)
    assert (over.status, over.cycles) == ("infeasible", plain.cycles)
    assert str(over.diagnosis) == (
        "program 'two' does not fit machine 'sda-1024': it needs 128 FLOPs per cycle of compute "
        "bandwidth, but the machine has 127 (compute.flops_per_cycle); the largest are left#1 "
        "(64), "
        "right#4 (64)"
    )
    assert over.bandwidth_utilization == plain.bandwidth_utilization


def test_onchip_memory_in_all() -> None:
    needed = program_of().metrics().bind().on_chip_memory
    fits = st.simulate(program_of(), machine_of(onchip__capacity_bytes=needed))
    over = st.simulate(program_of(), machine_of(onchip__capacity_bytes=needed - 1))
    assert fits.status == "ok"
    assert over.status == "infeasible"
    assert f"it needs {needed:,} bytes of on-chip memory" in str(over.diagnosis)
    assert "load_left#0" in str(over.diagnosis)


def test_regions_share_evenly_what_is_placed_in_them() -> None:
    machine = machine_of(compute__flops_per_cycle=200, compute__regions=2)
    prepared = st.prepare(program_of(), machine)
    assert prepared.result().status == "ok"
    apart = prepared.changed(regions={"left#1": 0, "right#4": 1})
    assert apart.result().status == "ok"
    crowded = prepared.changed(regions={"left*": 1, "right*": 1}).result()
    assert crowded.status == "infeasible"
    assert (
        "needs 128 FLOPs per cycle of compute bandwidth in region 1, but the machine has 100"
        in (str(crowded.diagnosis))
    )
    assert crowded.provenance["regions"] == {"left#1": 1, "right#4": 1}


def test_a_run_can_place_operators() -> None:
    machine = machine_of(compute__flops_per_cycle=200, compute__regions=2)
    run = st.simulate(program_of(), machine, regions={"left*": 1, "right*": 1})
    assert run.status == "infeasible"
    assert st.simulate(program_of(), machine).status == "ok"


def test_changed_bandwidths_count() -> None:
    prepared = st.prepare(program_of(), machine_of(compute__flops_per_cycle=128))
    assert prepared.run().status == "ok"
    assert prepared.changed(compute={"left#1": 2}).run().status == "infeasible"
    assert prepared.run().status == "ok"


def test_batches_say_so_too() -> None:
    machines = [machine_of(compute__flops_per_cycle=n) for n in (128, 100)]
    rows = st.simulate_many(program_of(), machines=machines).to_pylist()
    assert [row["status"] for row in rows] == ["ok", "infeasible"]
    assert rows[0]["cycles"] == rows[1]["cycles"]
    assert rows[0]["bandwidth_utilization"] == rows[1]["bandwidth_utilization"]
    assert "compute.flops_per_cycle" in rows[1]["reason"]


def test_a_size_that_only_the_run_decides_is_said_to_be_unknown() -> None:
    with st.Program("open", compute_bw=64) as program:
        # How many elements each output gets is known only from the numbers of the data.
        chosen = st.map(st.fn.index_to_multihot(2), st.metadata([0, 1, 1, 0]))
        x = st.linear_load(st.spec(4, 8), tile=(1, 8)).flatten(0, 1)
        for part in st.partition(x, chosen):
            part.promote().accum(st.fn.pack_rows, rank=1).consume()
    result = st.simulate(program, machine_of(onchip__capacity_bytes=1))
    assert any("only the run decides" in note for note in result.notes)


@pytest.mark.parametrize(
    ("regions", "said"),
    [
        ({"left#1": 2}, "must be a number from 0 to 1"),
        ({"lef#1": 0}, "is not an operator; did you mean 'left#1'?"),
        (["left#1"], "must be a mapping"),
    ],
)
def test_wrong_regions(regions: Any, said: str) -> None:
    prepared = st.prepare(program_of(), machine_of(compute__regions=2))
    with pytest.raises(ArgError, match="regions") as caught:
        prepared.changed(regions=regions)
    assert said in str(caught.value)


def test_regions_need_a_machine_that_has_some() -> None:
    with pytest.raises(ArgError, match="has no regions, so that they have no effect"):
        st.prepare(program_of()).changed(regions={"left#1": 0})
