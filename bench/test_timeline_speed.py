"""The timeline of the published run with the most tokens: size of the file, time to write it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from stepsim.explain import critical_path
from stepsim.report import TimelineFile, write_perfetto
from stepsim.simulation import prepare
from stepsim.workloads import Data, Moe
from tests.parity.points import all_points, routing_indices
from tests.shared import needs_traces

POINT = "f10_mixtral_16"
"""406,930 tokens in 55,561,737 cycles; no published run has more of either."""


@needs_traces
def test_perfetto_of_the_largest_published_point(
    benchmark: BenchmarkFixture, tmp_path: Path
) -> None:
    (point,) = (point for point in all_points() if point.name == POINT)
    data = Data.of(routing=routing_indices(point.trace))
    layer = Moe.of(model="mixtral-8x7b", tile=16, config="published", data=data)
    built = layer.build(data)
    prepared, bindings = prepare(built.program), built.bindings(data)
    prepared.result(bindings, record=True)  # compiled
    path = tmp_path / "run.pftrace"

    def record_and_write() -> TimelineFile:
        result = prepared.result(bindings, record=True)
        assert result.cycles == point.canonical
        segments = critical_path(prepared, bindings).segments
        return write_perfetto(result, path, segments=segments)

    begin = time.process_time()
    made = benchmark.pedantic(record_and_write, rounds=1)
    seconds = time.process_time() - begin
    benchmark.extra_info["megabytes"] = round(made.nbytes / 1e6, 1)
    benchmark.extra_info["slices"] = made.slices
    assert made.nbytes == path.stat().st_size
    assert made.nbytes < 50_000_000
    assert seconds < 10
    assert made.grain == 1


@pytest.mark.parametrize("limit", [5_000_000, 20_000_000])
@needs_traces
def test_a_smaller_file(benchmark: BenchmarkFixture, tmp_path: Path, limit: int) -> None:
    (point,) = (point for point in all_points() if point.name == POINT)
    data = Data.of(routing=routing_indices(point.trace))
    layer = Moe.of(model="mixtral-8x7b", tile=16, config="published", data=data)
    built = layer.build(data)
    result = prepare(built.program).result(built.bindings(data), record=True)
    path = tmp_path / "run.pftrace"
    made = benchmark.pedantic(lambda: write_perfetto(result, path, limit_bytes=limit), rounds=1)
    benchmark.extra_info["grain"] = made.grain
    assert limit / 4 < path.stat().st_size <= limit
