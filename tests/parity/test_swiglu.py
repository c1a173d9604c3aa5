"""Figure 8: cycles and bytes of the SwiGLU layer on the machine of the hardware validation."""

from __future__ import annotations

import pytest

from stepsim.workloads import Data, Swiglu
from tests.parity.points import Point, points
from tests.workloads.support import run


@points(lambda p: p.row["workload"].startswith("SwiGLU"))
def test_point(point: Point) -> None:
    tile, tile_inter = int(point.tile), int(point.row["tile_F"])
    layer = Swiglu.of(tile=tile, tile_inter=tile_inter, config="published")
    built, result = run(layer, Data(), machine="sda-hdl")
    assert result.status == "ok"
    assert result.cycles == point.canonical
    assert result.cycles == pytest.approx(point.published, rel=0.003)
    published = built.published(Data())
    assert published.offchip_bytes == point.number("off_chip_bytes")
    assert result.offchip_bytes == published.offchip_bytes
    assert result.flops == published.flops
    assert published.allocated_flops_per_cycle == 5 * 4096
