"""Figures 12 and 13: cycles, bytes, FLOPs and compute of the layer with shared regions."""

from __future__ import annotations

import pytest

from stepsim.workloads import Data, Moe
from tests.parity.points import Point, points, routing_indices
from tests.shared import needs_traces
from tests.workloads.support import exact, run

pytestmark = needs_traces


def band(point: Point) -> float:
    """Spread of the published runs around the canonical one."""
    regions = int(point.row["par_regions"])
    if point.tile == "dynamic":
        return 0.008 if regions >= 64 else 0.001
    return {64: 0.002, 32: 0.006}.get(regions, 0.001)


@points(lambda p: "time-multiplexing" in p.row["workload"])
def test_point(point: Point) -> None:
    regions = int(point.row["par_regions"])
    data = Data.of(routing=routing_indices(point.trace))
    layer = Moe.of(
        model="qwen3-30b-a3b", tile=point.tile, regions=regions, config="published", data=data
    )
    built, result = run(layer, data)
    assert result.status == "ok"
    assert result.cycles == point.canonical
    assert result.cycles == pytest.approx(point.published, rel=band(point))
    published = built.published(data)
    assert published.offchip_bytes == point.number("off_chip_bytes")
    assert point.number("on_chip_bytes") in (None, published.onchip_bytes)
    assert published.flops == point.number("flops")
    assert published.padded_flops == point.number("padded_flops")
    assert published.allocated_flops_per_cycle == point.number("allocated_flops")
    counted = exact(built, data)
    assert result.offchip_bytes == counted.off_chip_traffic
    assert result.flops == counted.flops
    share = published.offchip_bytes / point.published / result.peak_bandwidth
    used = published.flops / point.published / published.allocated_flops_per_cycle
    for column, ratio in (("offchip_bw_util_pct", share), ("utilization_pct", used)):
        if point.row[column]:
            assert 100 * ratio == pytest.approx(float(point.row[column]), abs=0.006)
