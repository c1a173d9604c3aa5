"""Figures 14, 15 and 21: cycles of decode attention under three ways of sharing requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepsim.workloads import Attention, Data
from tests.parity.points import Point, kv_lengths, points
from tests.shared import TRACES, needs_traces
from tests.workloads.support import exact, run

pytestmark = needs_traces


@points(lambda p: p.row["workload"].startswith("attention"))
def test_point(point: Point) -> None:
    strategy = point.row["variant"].split()[-1]
    data = Data.of(kv_lengths=kv_lengths(point.trace)[: point.batch])
    given = {"max_length": 6464} if point.row["figure"] == "15" else {}
    built, result = run(published(strategy, data, **given), data)
    assert result.status == "ok"
    assert result.cycles == point.canonical
    assert abs(result.cycles - point.published) <= 2
    regions = built.parameters["regions_built"]
    assert point.number("par_regions") in (None, regions)
    counted = exact(built, data)
    assert result.offchip_bytes == counted.off_chip_traffic
    assert result.flops == counted.flops
    assert counted.allocated_compute == regions * 6 * 2048


def published(strategy: str, data: Data, **given: Any) -> Attention:
    return Attention.of(
        model="qwen3-30b-a3b", strategy=strategy, config="published", data=data, **given
    )


GROUPS = {
    "b16": ["1454", "1455", "1456", "0986", "0987", "0479", "0480"],
    "b64": ["1370", "1374", "1457", "0995", "0996", "0477", "0484", "0508"],
    "b80": ["1310", "1334", "1413", "0986", "0987", "0529", "0531", "0562"],
}


def test_mean_gain_of_dynamic_sharing() -> None:
    """Means over three classes of three traces and three batches, 64 + 16 among them."""
    gains: dict[str, list[float]] = {"coarse": [], "interleaved": []}
    for folder, deviations in GROUPS.items():
        traces = [
            path
            for path in sorted((TRACES / "azure_trace" / folder).iterdir())
            if path.name.removeprefix("conv_stdev")[:4] in deviations
        ]
        assert len(traces) == 9
        for path in traces:
            cycles = {s: cycles_of(path, s) for s in ("coarse", "interleaved", "dynamic")}
            for strategy, found in gains.items():
                found.append(cycles[strategy] / cycles["dynamic"])
    means = {s: float(np.exp(np.mean(np.log(found)))) for s, found in gains.items()}
    assert means["coarse"] == pytest.approx(1.8501, abs=1e-4)
    assert means["interleaved"] == pytest.approx(1.3624, abs=1e-4)


def cycles_of(path: Path, strategy: str) -> int:
    data = Data.of(kv_lengths=kv_lengths(path))
    _, result = run(published(strategy, data), data)
    return result.cycles
