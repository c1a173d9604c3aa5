"""RequestTrace and its schema: checked, immutable, identified by content, written whole."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from stepsim.errors import ArgError, TraceError
from stepsim.trace_io import (
    REQUESTS_SCHEMA_VERSION,
    ParquetStream,
    RequestTrace,
    read_requests,
    requests_schema,
)
from tests.property_profile import profile

CONTEXT = np.array([374, 396, 0])
GENERATED = np.array([44, 0, 3])
ARRIVAL = np.array([0.0, 4.25, 4.25])
HASHES = (np.array([1, 2]), np.array([], dtype=np.int64), np.array([1]))
FULL = RequestTrace(CONTEXT, GENERATED, ARRIVAL, HASHES)


def message(*arguments) -> str:
    with pytest.raises(TraceError) as caught:
        RequestTrace(*arguments)
    return str(caught.value)


def test_schema_snapshot():
    """The schema is a promise: this changes only together with REQUESTS_SCHEMA_VERSION."""
    schema = requests_schema(prefix_hashes=True)
    assert REQUESTS_SCHEMA_VERSION == 1
    assert [(f.name, str(f.type), f.nullable, f.metadata.get(b"unit")) for f in schema] == [
        ("request", "int64", False, None),
        ("arrival_seconds", "double", False, b"s"),
        ("context_tokens", "int64", False, b"tokens"),
        ("generated_tokens", "int64", False, b"tokens"),
        ("prefix_hashes", "list<item: int64 not null>", False, None),
    ]
    assert schema.metadata == {b"stepsim.schema": b"requests", b"stepsim.schema_version": b"1"}
    assert all(field.metadata[b"description"] for field in schema)
    assert requests_schema(arrival=False, generated=False).names == ["request", "context_tokens"]


def test_identity_is_pinned():
    """It is stored with results: a change needs a new REQUESTS_SCHEMA_VERSION."""
    assert FULL.identity() == "e7e19e7f4d4f94f6ada075d893d37b79f190ed1b2aff2beef046218a44eea080"


def test_identity_is_of_the_content():
    assert replace(FULL, source="elsewhere") == FULL
    changes = {
        "context_tokens": CONTEXT + 1,
        "generated_tokens": None,
        "arrival_seconds": ARRIVAL + 1,
        "prefix_hashes": (HASHES[0], HASHES[2], HASHES[1]),
    }
    others = {replace(FULL, **{name: value}) for name, value in changes.items()}
    assert len(others | {FULL}) == 5
    assert FULL != "trace"


@pytest.mark.parametrize(
    "trace",
    [
        FULL,
        RequestTrace(CONTEXT),
        RequestTrace(CONTEXT, GENERATED),
        RequestTrace(CONTEXT, None, ARRIVAL),
        RequestTrace(CONTEXT, None, None, HASHES),
    ],
)
def test_round_trips(tmp_path, trace):
    path = tmp_path / "t.parquet"
    trace.to_parquet(path)
    assert read_requests(path) == trace
    assert read_requests(trace) == trace
    assert read_requests(trace.to_arrow().slice(1)).requests == 2
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as out:
        table = trace.to_arrow()
        with pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    assert read_requests(tmp_path / "t.arrow") == trace
    trace.to_arrow().validate(full=True)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_arrays_are_private_and_read_only():
    context = CONTEXT.copy()
    trace = RequestTrace(context, GENERATED, ARRIVAL, HASHES)
    context[0] = 7
    assert trace.context_tokens[0] == 374
    for array in (trace.context_tokens, trace.arrival_seconds, trace.prefix_hashes[0]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(FrozenInstanceError):
        trace.source = "x"
    assert repr(trace) == "RequestTrace(requests=3, source='array')"


def test_windows_count_from_one():
    part = FULL.window(2, 3)
    assert part.context_tokens.tolist() == [396, 0]
    assert part.arrival_seconds.tolist() == [4.25, 4.25]
    assert [ids.tolist() for ids in part.prefix_hashes] == [[], [1]]
    for first, last in ((0, 1), (2, 1), (1, 4)):
        with pytest.raises(ArgError, match=rf"{first}\.\.{last} is not within the 3 requests"):
            FULL.window(first, last)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([],), "array: context_tokens are float64 of shape (0,), expected integers (requests,)"),
        ((np.array([], dtype=int),), "array: the trace is empty, it has 0 requests, expected at"),
        ((CONTEXT * 1.0,), "array: context_tokens are float64 of shape (3,), expected integers"),
        (([[1]],), "array: context_tokens are int64 of shape (1, 1), expected integers"),
        (([1, -2],), "array: row 1: context_tokens is -2, expected at least 0 tokens; drop"),
        ((CONTEXT, [1, -1, 1]), "array: row 1: generated_tokens is -1, expected at least 0"),
        ((CONTEXT, [1]), "array: 1 generated_tokens, but 3 context_tokens; each request needs"),
        ((CONTEXT, None, [0.0]), "array: 1 arrival_seconds, but 3 context_tokens"),
        ((CONTEXT, None, [0, 2, np.nan]), "array: row 2: arrival_seconds is nan, expected seconds"),
        ((CONTEXT, None, [-1.0, 2, 3]), "array: row 0: arrival_seconds is -1.0, expected seconds"),
        (
            (CONTEXT, None, [0, 2.5, 2]),
            "array: row 2: arrival_seconds is 2.0, before the 2.5 of row 1, expected the order of "
            "arrival; sort the trace",
        ),
        ((CONTEXT, None, None, ()), "array: 0 prefix_hashes, but 3 context_tokens"),
        (
            (CONTEXT, None, None, ([1], [], [0.5])),
            "array: row 2: prefix_hashes holds float64 of shape (1,), expected a list of int64",
        ),
    ],
)
def test_values_are_checked(arguments, says):
    assert message(*arguments).startswith(says)


def test_other_tables_are_refused(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"experts": [[1]]}), path)
    with pytest.raises(TraceError) as caught:
        read_requests(path)
    assert str(caught.value) == (
        f"{path}: has no column `context_tokens` (found `experts`), expected a request trace; "
        "import it first with: stepsim trace import"
    )
    pq.write_table(FULL.to_arrow().slice(0, 0), path)
    with pytest.raises(TraceError, match="the trace is empty, it has 0 requests"):
        read_requests(path)
    path.write_text("TIMESTAMP\n")
    with pytest.raises(
        TraceError, match=r"is not an Arrow file .* convert it with: stepsim trace imp"
    ):
        read_requests(path)
    with pytest.raises(TraceError, match="int: is not an Arrow table"):
        read_requests(3)


def test_a_newer_version_is_refused():
    table = FULL.to_arrow()
    metadata = {**table.schema.metadata, b"stepsim.schema_version": b"2"}
    with pytest.raises(TraceError, match="written with version 2 of the request schema, this"):
        read_requests(table.replace_schema_metadata(metadata))


@pytest.mark.parametrize("name", ["context_tokens", "generated_tokens"])
@pytest.mark.parametrize(
    ("values", "says"),
    [
        (pa.array([1, -3]), "row 1: `{}` is -3, expected a number of tokens 0..922"),
        (pa.array([2**63, 1], pa.uint64()), "row 0: `{}` is 9223372036854775808, expected a num"),
        (pa.array([1, None]), "row 1: `{}` is null, expected a number of tokens from 0; fill it"),
        (pa.array([1.0, 2.0]), "column `{}` is double, expected integers"),
    ],
)
def test_wrong_counts_are_refused(name, values, says):
    table = pa.table({"context_tokens": [1, 2]} | {name: values})
    with pytest.raises(TraceError) as caught:
        read_requests(table)
    assert str(caught.value).startswith(f"Table: {says.format(name)}")


@pytest.mark.parametrize(
    ("hashes", "says"),
    [
        (pa.array([[1], [], [1, None, 7]]), "row 2: `prefix_hashes` is null or holds null, expec"),
        (pa.array([[], [1], None]), "row 2: `prefix_hashes` is null or holds null, expected the"),
        (pa.array([[1], [None], []]), "row 1: `prefix_hashes` is null or holds null, expected"),
        (
            pa.array([["a"], [], []]),
            "column `prefix_hashes` is list<item: string>, expected a list of integers (ids of bl",
        ),
        (
            pa.array([[1], [5, 2**63], []], pa.list_(pa.uint64())),
            "row 1: prefix_hashes holds an id of 9223372036854775808, expected a list of int64; n",
        ),
    ],
)
def test_wrong_prefix_hashes_are_refused(hashes, says):
    table = pa.table({"context_tokens": [1, 2, 3], "prefix_hashes": hashes})
    with pytest.raises(TraceError) as caught:
        read_requests(table)
    assert str(caught.value).startswith(f"Table: {says}")


def test_times_of_another_type_are_refused():
    table = pa.table({"context_tokens": [1], "arrival_seconds": pa.array([None], pa.float64())})
    with pytest.raises(TraceError, match="`arrival_seconds` is double with 1 nulls, expected"):
        read_requests(table)


# --- the writer


@profile(30)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 8))
def test_row_groups_are_full_whatever_the_pieces(tmp_path_factory, sizes, group):
    path = tmp_path_factory.mktemp("w") / "t.parquet"
    with ParquetStream(path, row_group_rows=group) as file:
        for start, size in enumerate(sizes):
            file.write(pa.table({"x": np.arange(size) + 100 * start}))
    total = sum(sizes)
    assert file.rows == total
    with pq.ParquetFile(path) as written:
        meta = written.metadata
        found = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
        values = written.read().column("x").to_pylist()
    assert found == [group] * (total // group) + [total % group] * (total % group > 0)
    assert values == [100 * i + j for i, size in enumerate(sizes) for j in range(size)]
