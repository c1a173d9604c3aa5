"""The MoE layer with shared regions: graph, bytes, compute, bad input."""

from __future__ import annotations

import pytest

import stepsim.graph as st
from stepsim.workloads import Built, Data, Moe, ParameterError
from stepsim.workloads.models import MoEShape
from tests.workloads.support import exact, kinds_per_step, run

QWEN = "qwen3-30b-a3b"
TINY = MoEShape("tiny", experts=4, active=2, model_dim=64, inner_dim=128)
BATCH = Data.of(routing=[[0, 1], [1, 0], [0, 1], [1, 0], [0, 1]])  # experts 2 and 3 are idle


def published(tile, regions, data=None) -> Built:
    data = data or Data(rows=64)
    layer = Moe.of(model=QWEN, tile=tile, regions=regions, config="published", data=data)
    return layer.build(data)


@pytest.mark.parametrize(
    ("regions", "memory", "compute"),
    [
        (128, 82_595_842, 787_456), (64, 66_998_274, 459_776), (32, 44_716_034, 295_936),
        (16, 32_460_802, 214_016), (8, 24_662_018, 173_056), (4, 20_205_570, 152_576),
    ],
)  # fmt: skip
def test_published_bytes_and_compute(recorded_routing, regions, memory, compute):
    data = Data.of(routing=recorded_routing(QWEN, 64))
    got = published(32, regions, data).published(data)
    assert (got.offchip_bytes, got.onchip_bytes) == (576_455_680, memory)
    assert got.allocated_flops_per_cycle == compute


@pytest.mark.parametrize("regions", [64, 4])
def test_all_experts_counted(regions):
    work = published(32, regions)
    e, t, d, f = 128, 32, 2048, 48
    everything = work.program.metrics(counting="published").on_chip_memory
    assert everything == e * 4 * t * d + regions * (6 * d * f + 8 * t * d) + 10 * d + 2


def test_dynamic_tiles_have_the_same_compute(recorded_routing):
    data = Data.of(routing=recorded_routing(QWEN, 64))
    shared, alone = (published("dynamic", regions, data).published(data) for regions in (32, 128))
    assert shared.allocated_flops_per_cycle == 295_936
    assert shared.offchip_bytes == 567_018_496
    assert alone.allocated_flops_per_cycle == 786_432  # without the final sum, as published


def test_one_region_for_each_expert_is_the_plain_layer():
    shared, plain = (run(Moe(model=TINY, tile=2, regions=r), BATCH) for r in (4, None))
    assert shared[1].units.equals(plain[1].units)
    assert shared[0].program.metrics().on_chip_memory == plain[0].program.metrics().on_chip_memory


def test_regions_are_built_step_by_step():
    built = Moe(model=TINY, tile=2, regions=2).build(BATCH)
    wiring = st.wire(built.program, built.bindings(BATCH))
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
    work = Moe(model=TINY, tile=tile, regions=2).build(BATCH)
    rows = [op.outputs[0].shape for op in work.program.operators if op.name == "flat_map"]
    unpacked = [s for s in rows if len(s) == 1]
    assert [str(s[0]) for s in unpacked] == ["n0", "n1", "n2", "n3"]
    assert work.program.assumptions == []


def test_sharing_changes_neither_traffic_nor_flops_of_dynamic_tiles():
    alone, shared = (
        exact(Moe(model=TINY, tile="dynamic", regions=r).build(BATCH), BATCH) for r in (None, 2)
    )
    assert alone.off_chip_traffic == shared.off_chip_traffic
    assert alone.flops == shared.flops


@pytest.mark.parametrize("tile", [2, "dynamic"])
@pytest.mark.parametrize("regions", [1, 2, 4])
def test_a_run_moves_the_bytes_of_the_formula(tile, regions):
    built, result = run(Moe(model=TINY, tile=tile, regions=regions), BATCH)
    counted = exact(built, BATCH)
    assert result.status == "ok"
    assert result.offchip_bytes == counted.off_chip_traffic
    assert result.flops == counted.flops


@pytest.mark.parametrize(
    ("regions", "message"),
    [
        *(
            (n, f"a divisor of the 4 experts of tiny, found {n}; near ones are 1, 2, 4")
            for n in (3, 8)
        ),
        *((n, f"a whole number from 1, found {n}") for n in (0, True, 2.0)),
    ],
)
def test_bad_regions(regions, message):
    with pytest.raises(ParameterError, match=f"^regions: expected {message}"):
        Moe(model=TINY, tile=2, regions=regions).build(BATCH)
