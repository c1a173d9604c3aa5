"""The MoE layer with shared regions: graph, bytes, compute, bad input."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim import simulate
from stepsim.errors import ArgError
from stepsim.workloads import (
    MoEShape,
    moe_layer,
    published_time_multiplexing_config,
    time_multiplexed_moe,
)

QWEN = "qwen3-30b-a3b"
TINY = MoEShape("tiny", experts=4, active=2, model_dim=64, inner_dim=128)
TABLE = np.array([[0, 1], [1, 0], [0, 1], [1, 0], [0, 1]])  # experts 2 and 3 are idle


@pytest.mark.parametrize(
    ("regions", "memory", "compute"),
    [
        (128, 82_595_842, 787_456), (64, 66_998_274, 459_776), (32, 44_716_034, 295_936),
        (16, 32_460_802, 214_016), (8, 24_662_018, 173_056), (4, 20_205_570, 152_576),
    ],
)  # fmt: skip
def test_published_bytes_and_compute(routing_trace, regions, memory, compute):
    work = time_multiplexed_moe(**published_time_multiplexing_config(32, regions))
    got = work.published_metrics(routing_trace(QWEN, 64))
    assert (got.off_chip_traffic, got.on_chip_memory) == (576_455_680, memory)
    assert work.allocated_compute == compute
    assert (work.regions, work.experts_per_region) == (regions, 128 // regions)


@pytest.mark.parametrize("regions", [64, 4])
def test_all_experts_counted(regions):
    work = time_multiplexed_moe(**published_time_multiplexing_config(32, regions))
    e, t, d, f = 128, 32, 2048, 48
    everything = work.program.metrics().on_chip_memory
    assert everything == e * 4 * t * d + regions * (6 * d * f + 8 * t * d) + 10 * d + 2


def test_dynamic_tiles_have_the_same_compute(routing_trace):
    work = time_multiplexed_moe(**published_time_multiplexing_config("dynamic", 32))
    assert work.allocated_compute == 295_936
    assert work.published_metrics(routing_trace(QWEN, 64)).off_chip_traffic == 567_018_496
    alone = time_multiplexed_moe(**published_time_multiplexing_config("dynamic", 128))
    assert alone.allocated_compute == 786_432  # without the final sum, as published


def test_one_region_for_each_expert_is_the_plain_layer():
    shared = time_multiplexed_moe(TINY, 5, 2, 4, 64, name="x")
    plain = moe_layer(TINY, 5, 2, 64, compute_bw=1024, name="x")
    assert shared.program.fingerprint() == plain.program.fingerprint()


def kinds_per_step(wiring) -> list[str]:
    """Unit kinds with runs of the same kind collapsed."""
    found: list[str] = []
    for unit in wiring.units:
        if not found or found[-1] != unit.kind:
            found.append(unit.kind)
    return found


def test_regions_are_built_step_by_step():
    work = time_multiplexed_moe(TINY, 5, 2, 2, 64)
    wiring = st.wire(work.program, {work.routing: TABLE})
    kinds = kinds_per_step(wiring)
    start = kinds.index("EagerMerge")
    assert kinds[start : start + 16] == [
        "EagerMerge", "RepeatStatic", "ExpertAddrGen", "RandomOffChipLoad", "Flatten", "BinaryMap",
        "RandomOffChipLoad", "Flatten", "BinaryMap", "UnaryMap", "BinaryMap", "RandomOffChipLoad",
        "Flatten", "BinaryMapAccum", "Partition", "RetileStreamify",
    ]  # fmt: skip
    reads = {c: u.name.split("#")[0] for u in wiring.units for c in u.inputs}
    fans = {u.name.split("#")[0]: [reads[c] for c in u.outputs] for u in wiring.units}
    assert fans["broadcast(region.1"] == ["addresses.1", "split.1"]
    assert fans["broadcast(addresses.0"] == ["load_up.0", "load_gate.0", "load_down.0"]
    assert fans["broadcast(repeat.0"] == ["matmul_up.0", "matmul_gate.0"]


@pytest.mark.parametrize("tile", [2, "dynamic"])
def test_shared_regions_restore_the_rows_of_every_expert(tile):
    work = time_multiplexed_moe(TINY, 5, tile, 2, 64)
    rows = [op.outputs[0].shape for op in work.program.operators if op.name == "flat_map"]
    unpacked = [s for s in rows if len(s) == 1]
    assert [str(s[0]) for s in unpacked] == ["n0", "n1", "n2", "n3"]
    assert work.program.assumptions == []


def test_sharing_changes_neither_traffic_nor_flops_of_dynamic_tiles():
    alone = moe_layer(TINY, 5, "dynamic", 64).program.metrics().bind_trace(TABLE)
    shared = time_multiplexed_moe(TINY, 5, "dynamic", 2, 64).program.metrics().bind_trace(TABLE)
    assert alone.off_chip_traffic == shared.off_chip_traffic
    assert alone.flops == shared.flops


@pytest.mark.parametrize("tile", [2, "dynamic"])
@pytest.mark.parametrize("regions", [1, 2, 4])
def test_a_run_moves_the_bytes_of_the_formula(tile, regions):
    work = time_multiplexed_moe(TINY, 5, tile, regions, 64, indices=TABLE)
    result = simulate(work.program)
    exact = work.program.metrics(memory="paper").bind()
    assert result.status == "ok"
    assert result.offchip_bytes == exact.off_chip_traffic
    assert result.flops == exact.flops


@pytest.mark.parametrize("regions", [0, 3, 8, True, 2.0])
def test_bad_regions(regions):
    with pytest.raises(ArgError, match=r"regions must divide the 4 experts of tiny, .*of 1, 2, 4"):
        time_multiplexed_moe(TINY, 5, 2, regions, 64)
