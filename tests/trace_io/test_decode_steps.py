"""The steps of a replay are no trace: what reads traces says what to do with them instead."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.errors import TraceError
from stepsim.trace_io import (
    RequestTrace,
    detect_trace_format,
    import_trace,
    is_routing_table,
    load_requests,
    read_kv_lengths,
    read_routing,
    replay,
    replay_rows,
    summarize_routing,
)


@pytest.fixture(params=["ours", "written by another tool"])
def steps(request, tmp_path: Path) -> Path:
    trace = RequestTrace(np.array([5, 7, 9]), np.array([2, 3, 1]))
    table = replay_rows(list(replay(trace, 2)))
    path = tmp_path / "steps.parquet"
    pq.write_table(table if request.param == "ours" else table.replace_schema_metadata(), path)
    return path


@pytest.mark.parametrize(
    "read",
    [
        detect_trace_format,
        is_routing_table,
        read_routing,
        load_requests,
        summarize_routing,
        lambda path: summarize_routing(path, column="requests"),
        lambda path: summarize_routing(path, format="parquet", column="requests"),
        lambda path: import_trace(path, path.with_name("o")),
        lambda path: import_trace(path, path.with_name("o"), format="parquet", column="requests"),
    ],
)
def test_steps_are_refused_as_a_trace(steps, read):
    with pytest.raises(TraceError) as caught:
        read(steps)
    assert str(caught.value) == (
        f"{steps}: holds the steps of a replay, expected a trace of expert routing or of requests; "
        f"use it with --kv-lengths {steps},step=N, or in a sweep as cache lengths"
    )
    assert list(steps.parent.iterdir()) == [steps]


def test_steps_are_lengths(steps):
    assert read_kv_lengths(steps, step=1).tolist() == [6, 8]


def test_routing_may_have_columns_of_these_names(tmp_path):
    table = {"experts": [[0, 1], [2, 3]], "step": [0, 0], "requests": [4, 5]}
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table(table), path)
    assert detect_trace_format(path) == "parquet"
    assert read_routing(path).tokens == 2
