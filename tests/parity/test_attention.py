"""Figures 14, 15 and 21: cycles of decode attention under three ways of sharing requests."""

from __future__ import annotations

from stepsim import simulate
from stepsim.workloads import attention, published_attention_config
from tests.parity.points import Point, kv_lengths, needs_points, points

pytestmark = needs_points


@points(lambda p: p.row["workload"].startswith("attention"))
def test_point(point: Point) -> None:
    strategy = point.row["variant"].split()[-1]
    lengths = kv_lengths(point.trace)[: point.batch]
    config = published_attention_config(point.batch, strategy)
    if point.row["figure"] == "15":
        config["max_length"] = 6464
    work = attention(kv_lengths=lengths, **config)
    result = simulate(work.program)
    assert result.status == "ok"
    assert result.cycles == point.canonical
    assert abs(result.cycles - point.published) <= 2
    assert point.number("par_regions") in (None, work.regions)
    exact = work.metrics(memory="paper")
    assert result.traffic_bytes == exact.off_chip_traffic
    assert result.flops == exact.flops
    assert work.allocated_compute == work.regions * 6 * 2048
