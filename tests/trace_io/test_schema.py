"""The schema is a promise: these tests change only together with SCHEMA_VERSION."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stepsim.errors import TraceError
from stepsim.trace_io import (
    SCHEMA_VERSION,
    read_routing,
    routing_schema,
    synthetic_routing,
    write_routing,
)


def test_schema_snapshot():
    schema = routing_schema(8, weights=True)
    assert SCHEMA_VERSION == 1
    assert [(f.name, str(f.type), f.nullable) for f in schema] == [
        ("model", "string", True),
        ("layer", "int32", False),
        ("step", "int32", False),
        ("token", "int32", False),
        ("experts", "fixed_size_list<item: int32 not null>[8]", False),
        ("weights", "fixed_size_list<item: float not null>[8]", False),
    ]
    assert schema.metadata == {
        b"stepsim.schema": b"expert-routing",
        b"stepsim.schema_version": b"1",
        b"stepsim.experts_per_token": b"8",
    }
    assert all(field.metadata[b"description"] for field in schema)
    assert routing_schema(8).names == ["model", "layer", "step", "token", "experts"]


def test_a_parquet_file_keeps_the_schema(tmp_path):
    path = tmp_path / "t.parquet"
    synthetic_routing(4, 8, 2, seed=0).to_parquet(path)
    stored = pa.parquet.read_schema(path)
    assert stored.equals(routing_schema(2), check_metadata=False)
    assert stored.metadata[b"stepsim.schema_version"] == b"1"
    assert stored.field("experts").metadata[b"description"].startswith(b"ids of the experts")


def with_version(text: bytes) -> pa.Table:
    table = synthetic_routing(4, 8, 2, seed=0).to_arrow()
    return table.replace_schema_metadata({b"stepsim.schema_version": text})


def test_a_newer_version_is_refused():
    with pytest.raises(TraceError) as caught:
        read_routing(with_version(b"2"))
    assert str(caught.value) == (
        "pyarrow.lib.Table: written with version 2 of the routing schema, this stepsim reads "
        "versions up to 1; upgrade stepsim or write the file with the older one"
    )


@pytest.mark.parametrize("text", [b"one", b"0", b"-1", b"", b"\xff"])
def test_a_version_that_is_no_number_is_refused(text):
    with pytest.raises(TraceError, match=r"`stepsim.schema_version` is '.*', expected a version"):
        read_routing(with_version(text))


def test_several_layers_in_one_file(tmp_path):
    path = tmp_path / "t.parquet"
    tables = [
        synthetic_routing(4, 8, 2, seed=0, layer=layer, step=step)
        for layer in (0, 3)
        for step in (0, 1)
    ]
    write_routing(tables, path)
    assert [read_routing(path, layer=t.layer, step=t.step) for t in tables] == tables
