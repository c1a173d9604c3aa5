"""Bytes and compute of the time-multiplexed layer and of the SwiGLU layer, typed from the paper."""

from __future__ import annotations

import pytest

import stepsim.graph as st
from stepsim.errors import ArgError
from stepsim.workloads import (
    MoEShape,
    moe_layer,
    published_swiglu_config,
    swiglu_layer,
    time_multiplexed_moe,
)
from tests.workloads.test_moe_graph import TABLE, kinds_per_step

QWEN = "qwen3-30b-a3b"


@pytest.mark.parametrize(
    ("regions", "memory", "compute"),
    [
        (64, 66_998_274, 459_776), (32, 44_716_034, 295_936), (16, 32_460_802, 214_016),
        (8, 24_662_018, 173_056), (4, 20_205_570, 152_576),
    ],
)  # fmt: skip
def test_time_multiplexing(routing_trace, regions, memory, compute):
    work = time_multiplexed_moe(QWEN, 64, 32, regions)
    got = work.published_metrics(routing_trace(QWEN, 64), on_demand=True)
    assert (got.off_chip_traffic, got.on_chip_memory) == (576_455_680, memory)
    assert work.allocated_compute == compute
    everything = work.program.metrics().on_chip_memory
    e, t, d, f = 128, 32, 2048, 48
    assert everything == e * 4 * t * d + regions * (6 * d * f + 8 * t * d) + 10 * d + 2


def test_time_multiplexing_of_dynamic_tiles_has_the_same_compute(routing_trace):
    work = time_multiplexed_moe(QWEN, 64, "dynamic", 32)
    assert work.allocated_compute == 295_936
    got = work.published_metrics(routing_trace(QWEN, 64))
    assert got.off_chip_traffic == 567_018_496


@pytest.mark.parametrize(
    ("tile_b", "tile_inter", "traffic"),
    [
        (16, 16, 8_454_144), (16, 256, 6_488_064), (32, 64, 3_735_552), (64, 16, 3_735_552),
        (64, 64, 2_162_688), (64, 256, 1_769_472),
    ],
)  # fmt: skip
@pytest.mark.parametrize("model", ["published", "paper"])
def test_swiglu_traffic(tile_b, tile_inter, traffic, model):
    work = swiglu_layer(**published_swiglu_config(tile_b, tile_inter))
    assert work.metrics(memory=model).off_chip_traffic == traffic


def test_swiglu_order_and_write_back():
    wiring = st.wire(swiglu_layer(**published_swiglu_config(16, 64)).program)
    loads = [u.name.split("#")[0] for u in wiring.units if u.kind == "OffChipLoad"]
    assert loads == ["activations", "gate", "up", "down"]
    params = {u.name.split("#")[0]: u.params for u in wiring.units}
    assert params["matmul_down"]["wb"] is True
    assert params["activations"] == {
        "tile": [16, 256], "view": [4, 8, 1], "par": 4, "bpe": 4, "lead": False,
    }  # fmt: skip
    assert params["columns"]["s"] == 1


# shared regions


def test_regions_are_built_step_by_step():
    shape = MoEShape("tiny", experts=4, active=2, model_dim=64, inner_dim=128)
    work = time_multiplexed_moe(shape, 5, 2, 2, 64)
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
    with pytest.raises(ArgError, match="regions must divide the 4 experts"):
        time_multiplexed_moe(shape, 5, 2, 3, 64)


def test_shared_regions_restore_the_rows_of_every_expert():
    shape = MoEShape("tiny", experts=4, active=2, model_dim=64, inner_dim=128)
    for tile in (2, "dynamic"):
        work = time_multiplexed_moe(shape, 5, tile, 2, 64)
        rows = [op.outputs[0].shape for op in work.program.operators if op.name == "flat_map"]
        unpacked = [s for s in rows if len(s) == 1]
        assert [str(s[0]) for s in unpacked] == ["n0", "n1", "n2", "n3"]
        assert work.program.assumptions == []


def test_sharing_changes_neither_traffic_nor_flops_of_dynamic_tiles():
    shape = MoEShape("tiny", experts=4, active=2, model_dim=64, inner_dim=128)
    alone = moe_layer(shape, 5, "dynamic", 64).program.metrics().bind_trace(TABLE)
    shared = time_multiplexed_moe(shape, 5, "dynamic", 2, 64).program.metrics().bind_trace(TABLE)
    assert alone.off_chip_traffic == shared.off_chip_traffic
    assert alone.flops == shared.flops
