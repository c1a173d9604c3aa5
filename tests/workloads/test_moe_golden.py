"""Bytes, FLOPs and allocated compute of the published MoE points, typed from the STeP paper."""

from __future__ import annotations

import numpy as np
import pytest

from stepsim.workloads import Built, Data, Moe, ParameterError
from tests.workloads.support import exact

MIXTRAL, QWEN = "mixtral-8x7b", "qwen3-30b-a3b"

MIXTRAL_COUNTS = {
    64: [13, 10, 17, 14, 17, 10, 24, 23],
    1024: [236, 219, 279, 215, 164, 414, 301, 220],
}


def qwen_like(batch: int, unused: int) -> list[int]:
    """Counts with the published number of idle experts and slots; the split is arbitrary."""
    used = 128 - unused
    share, extra = divmod(batch * 8, used)
    return [share + (i < extra) for i in range(used)] + [0] * unused


def published(model: str, batch: int, tile: int | str) -> Built:
    data = Data(rows=batch)
    return Moe.of(model=model, tile=tile, config="published", data=data).build(data)


def unshared(tile: int | str) -> Built:
    """The baseline of the figures of sharing."""
    layer = Moe(model=QWEN, tile=tile, tile_inter=48, compute_bw=1024)
    return layer.build(Data(rows=64))


def everything(built: Built) -> int:
    """On-chip bytes with those of idle experts, which depend on no routing."""
    return built.program.metrics(counting="published").on_chip_memory


def bound(built: Built, counts: list[int], on_demand: bool):
    metrics = built.program.metrics(counting="published", on_demand=on_demand)
    return metrics.bind({built.routing: counts})


# (batch, tile, off-chip bytes, on-chip bytes)
MIXTRAL_POINTS = [
    (64, "dynamic", 2_820_145_408, 18_915_330),
    (64, 8, 7_048_003_840, 15_769_602),
    (64, 16, 4_229_431_552, 18_915_330),
    (64, 32, 2_820_145_408, 25_206_786),
    (64, 64, 2_820_145_408, 37_789_698),
    (1024, "dynamic", 2_843_742_208, 113_287_170),
    (1024, 64, 12_708_745_216, 37_789_698),
    (1024, 128, 7_071_600_640, 62_955_522),
    (1024, 256, 3_900_706_816, 113_287_170),
    (1024, 512, 2_843_742_208, 213_950_466),
]


@pytest.mark.parametrize(("batch", "tile", "traffic", "memory"), MIXTRAL_POINTS)
@pytest.mark.parametrize("on_demand", [False, True])
def test_mixtral_bytes(batch, tile, traffic, memory, on_demand):
    work = published(MIXTRAL, batch, tile)
    got = bound(work, MIXTRAL_COUNTS[batch], on_demand)  # no expert is idle: both agree
    assert (got.off_chip_traffic, got.on_chip_memory) == (traffic, memory)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch", "unused", "all_experts", "used"),
    [(64, 68, 113_266_690, 59_789_314), (1024, 45, 302_010_370, 266_620_930)],
)
def test_qwen_dynamic_bytes_with_and_without_idle_experts(batch, unused, all_experts, used):
    work = published(QWEN, batch, "dynamic")
    counts = qwen_like(batch, unused)
    traffic = {64: 567_018_496, 1024: 795_885_568}[batch]
    assert bound(work, counts, False).on_chip_memory == all_experts
    assert bound(work, counts, True).on_chip_memory == used
    assert bound(work, counts, True).off_chip_traffic == traffic


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tile", "memory"),
    [
        (8, 125_849_602), (16, 151_015_426), (32, 201_347_074), (64, 302_010_370),
        (256, 905_990_146), (1024, 3_321_909_250),
    ],
)  # fmt: skip
def test_qwen_static_memory_counts_all_experts(tile, memory):
    assert everything(published(QWEN, 64, tile)) == memory


@pytest.mark.parametrize(("tile", "memory"), [(16, 70_799_362), (64, 141_578_242)])
def test_qwen_static_memory_on_demand_replaces_experts_by_active_ones(tile, memory):
    work = published(QWEN, 64, tile)
    assert bound(work, qwen_like(64, 68), True).on_chip_memory == memory


TRACES = [
    (QWEN, 64, 8, 897_319_936),
    (QWEN, 64, 16, 680_264_704),
    (QWEN, 64, 32, 576_455_680),
    (QWEN, 64, 64, 567_018_496),
    (QWEN, 1024, 16, 5_287_985_152),
    (QWEN, 1024, 64, 1_758_478_336),
    (QWEN, 1024, 256, 928_006_144),
    (QWEN, 1024, 1024, 795_885_568),
]


@pytest.mark.parametrize(("model", "batch", "tile", "traffic"), TRACES)
def test_traffic_on_the_recorded_routings(recorded_routing, model, batch, tile, traffic):
    data = Data.of(routing=recorded_routing(model, batch))
    assert published(model, batch, tile).published(data).offchip_bytes == traffic


@pytest.mark.parametrize(
    ("batch", "tile", "flops", "padded"),
    [
        (64, 8, 131_535_667_200, 26_307_133_440),
        (64, 64, 420_914_135_040, 315_685_601_280),
        (64, "dynamic", 105_228_533_760, 0),
        (1024, 1024, 6_734_626_160_640, 5_050_969_620_480),
    ],
)
def test_published_flops(batch, tile, flops, padded):
    data = Data.of(routing=indices_with_counts(MIXTRAL_COUNTS[batch], batch, 2))
    counted = published(MIXTRAL, batch, tile).published(data)
    assert (counted.flops, counted.padded_flops) == (flops, padded)


def indices_with_counts(counts: list[int], rows: int, k: int) -> np.ndarray:
    """Some index array whose histogram is ``counts``."""
    slots = np.repeat(np.arange(len(counts)), counts)
    return slots.reshape(k, rows).T


@pytest.mark.slow
def test_allocated_compute_with_the_published_omission():
    data = Data.of(routing=indices_with_counts(qwen_like(64, 68), 64, 8))
    for tile, compute in ((32, 787_456), ("dynamic", 786_432)):
        work = unshared(tile)
        assert work.published(data).allocated_flops_per_cycle == compute
        assert exact(work, data).allocated_compute == 787_456


def test_time_multiplexing_baselines():
    work = unshared(32)
    assert everything(work) == 176_181_250
    assert bound(work, qwen_like(64, 68), True).on_chip_memory == 82_595_842
    assert bound(unshared("dynamic"), qwen_like(64, 68), True).on_chip_memory == 47_992_834


def test_exact_flops_follow_the_functions():
    work = published(MIXTRAL, 64, 8)
    got = bound(work, MIXTRAL_COUNTS[64], False)
    rows = 20 * 8
    d, f = 4096, 14336
    each = rows * (6 * d * f + f + 8 * f)
    assert got.flops == each + 128 * d + 128 * d  # scaling by the router weight and the final sum


def test_paper_model_counts_every_tile_at_its_own_width():
    work = published(MIXTRAL, 64, 16)
    paper = work.program.metrics(counting="paper").bind({work.routing: MIXTRAL_COUNTS[64]})
    plotted = bound(work, MIXTRAL_COUNTS[64], False)
    assert plotted.off_chip_traffic - paper.off_chip_traffic == 2 * 64 * 4096  # the store


@pytest.mark.parametrize("tile", [0, -1, True, "auto", 2.5])
def test_bad_tile(tile):
    message = "tile: expected a whole number from 1, or 'dynamic', found"
    with pytest.raises(ParameterError, match=message):
        Moe(model=MIXTRAL, tile=tile)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tile_inter": 60}, "tile_inter: expected a divisor of the inner dimension 14336"),
        ({"model": "mixtral"}, "model: unknown model 'mixtral'.*mixtral-8x7b"),
        ({"model": "llama"}, "model: unknown model 'llama'"),
        ({"regions": 4, "pack_bw": 1}, "pack_bw: expected compute_bw 4096, .*found 1; leave it"),
    ],
)
def test_bad_parameters(changes, message):
    with pytest.raises(ParameterError, match=message):
        Moe(**{"model": MIXTRAL, "tile": 8} | changes).build(Data(rows=64))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "glm-4.5"}, "there is no published experiment of glm-4.5; there are those of"),
        (
            {"model": MIXTRAL, "regions": 4},
            "there is no published experiment of mixtral-8x7b with shared regions; there is that",
        ),
    ],
)
def test_what_was_not_published_is_refused(given, message):
    with pytest.raises(ParameterError, match=f"^config: {message}"):
        Moe.of(tile=8, config="published", **given)
