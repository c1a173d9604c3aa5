"""Figure 8: cycles and bytes of the SwiGLU layer on the machine of the hardware validation."""

from __future__ import annotations

import pytest

from stepsim import simulate
from stepsim.workloads import published_swiglu_config, swiglu_layer
from tests.parity.points import Point, points


@points(lambda p: p.row["workload"].startswith("SwiGLU"))
def test_point(point: Point) -> None:
    work = swiglu_layer(**published_swiglu_config(int(point.tile), int(point.row["tile_F"])))
    result = simulate(work.program, machine="sda-hdl")
    assert result.status == "ok"
    assert result.cycles == point.canonical
    assert result.cycles == pytest.approx(point.published, rel=0.003)
    bound = work.metrics()
    assert bound.off_chip_traffic == point.number("off_chip_bytes")
    assert result.offchip_bytes == bound.off_chip_traffic
    assert result.flops == bound.flops
    assert work.allocated_compute == 5 * 4096
