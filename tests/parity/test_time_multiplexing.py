"""Figures 12 and 13: cycles, bytes, FLOPs and compute of the layer with shared regions."""

from __future__ import annotations

import pytest

from stepsim import simulate
from stepsim.workloads import published_time_multiplexing_config, time_multiplexed_moe
from tests.parity.points import Point, points, routing_indices
from tests.shared import needs_traces

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
    indices = routing_indices(point.trace)
    work = time_multiplexed_moe(**published_time_multiplexing_config(point.tile, regions))
    result = simulate(work.program, bindings={work.routing: indices})
    assert result.status == "ok"
    assert result.cycles == point.canonical
    assert result.cycles == pytest.approx(point.published, rel=band(point))
    bound = work.published_metrics(indices)
    assert bound.off_chip_traffic == point.number("off_chip_bytes")
    assert point.number("on_chip_bytes") in (None, bound.on_chip_memory)
    assert work.published_flops(indices) == point.number("flops")
    assert work.published_padded_flops(indices) == point.number("padded_flops")
    assert work.allocated_compute == point.number("allocated_flops")
    exact = work.program.metrics(memory="paper").bind({work.routing: indices})
    assert result.offchip_bytes == exact.off_chip_traffic
    assert result.flops == exact.flops
    share = bound.off_chip_traffic / point.published / result.peak_bandwidth
    used = work.published_flops(indices) / point.published / work.allocated_compute
    for column, ratio in (("offchip_bw_util_pct", share), ("utilization_pct", used)):
        if point.row[column]:
            assert 100 * ratio == pytest.approx(float(point.row[column]), abs=0.006)
