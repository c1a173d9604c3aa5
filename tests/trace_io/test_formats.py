"""The same table through every format; the content decides, not the file name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from stepsim.errors import TraceError
from stepsim.trace_io import RoutingTable, read_routing, read_routing_batches, synthetic_routing

TABLE = synthetic_routing(50, 16, 4, seed=3)


def write_stream(table, path):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


def write_ipc(table, path):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


WRITERS = {
    "t.parquet": lambda path: TABLE.to_parquet(path),
    "row_groups.parquet": lambda path: pq.write_table(TABLE.to_arrow(), path, row_group_size=9),
    "t.arrow": lambda path: write_ipc(TABLE.to_arrow(), path),
    "t.ipc": lambda path: write_stream(TABLE.to_arrow(), path),
    "t.feather": lambda path: pa.feather.write_feather(TABLE.to_arrow(), path),
    "t.npy": lambda path: np.save(path, TABLE.experts.astype(np.int64)),
    "only.npz": lambda path: np.savez(path, routing=TABLE.experts),
    "data.npz": lambda path: np.savez_compressed(path, data=TABLE.experts, other=np.arange(3)),
    "experts.npz": lambda path: np.savez(path, experts=TABLE.experts, other=np.arange(3)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_table(tmp_path, name):
    path = tmp_path / name
    WRITERS[name](path)
    read = read_routing(path, experts=16, k=4, tokens=50)
    assert read == TABLE
    assert read.source == str(path)
    disguised = path.rename(tmp_path / "no_extension")
    assert read_routing(str(disguised)) == TABLE


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", ">i4"]
)
def test_every_integer_dtype(dtype):
    read = read_routing(TABLE.experts.astype(dtype))
    assert read == TABLE
    assert read.experts.dtype == np.int32


def test_not_contiguous_array():
    wide = np.zeros((100, 8), dtype=np.int64)
    wide[::2, ::2] = TABLE.experts
    assert read_routing(wide[::2, ::2]) == TABLE
    assert read_routing(np.asfortranarray(TABLE.experts)).experts.flags.c_contiguous


def test_weights_of_an_archive(tmp_path):
    weights = np.linspace(0, 1, TABLE.experts.size).reshape(TABLE.experts.shape)
    np.savez(tmp_path / "t.npz", experts=TABLE.experts, weights=weights)
    read = read_routing(tmp_path / "t.npz")
    assert read.weights.dtype == np.float32
    np.testing.assert_array_equal(read.weights, weights.astype(np.float32))
    assert read != TABLE


def test_three_dims_are_tokens_layers_k(tmp_path):
    layers = [synthetic_routing(20, 16, 4, seed=1, layer=i) for i in range(3)]
    stacked = np.stack([table.experts for table in layers], axis=1)
    np.save(tmp_path / "t.npy", stacked)
    assert list(read_routing_batches(tmp_path / "t.npy", experts=16)) == layers
    assert read_routing(stacked, layer=2) == layers[2]
    assert read_routing(stacked[:, :1]) == layers[0]


def test_three_dims_with_weights(tmp_path):
    ids = np.stack([synthetic_routing(5, 8, 2, seed=1, layer=i).experts for i in (0, 1)], axis=1)
    weights = np.arange(20, dtype=np.float32).reshape(5, 2, 2)
    np.savez(tmp_path / "t.npz", experts=ids, weights=weights)
    np.testing.assert_array_equal(read_routing(tmp_path / "t.npz", layer=1).weights, weights[:, 1])
    np.savez(tmp_path / "bad.npz", experts=ids, weights=weights[:, 0])
    with pytest.raises(
        TraceError, match=r"weights have shape \(5, 2\), the expert ids \(5, 2, 2\)"
    ):
        read_routing(tmp_path / "bad.npz", layer=1)


def test_three_dims_need_a_layer():
    ids = np.zeros((4, 3, 1), dtype=np.int32)
    with pytest.raises(TraceError) as caught:
        read_routing(ids)
    assert str(caught.value) == (
        "array: holds 3 routing tables (layer 0 step 0; layer 1 step 0; layer 2 step 0), expected "
        "one; choose with layer= (read_routing_batches of Python reads all of them)"
    )
    with pytest.raises(TraceError, match=r"has no layer 3, .* \[tokens, layers, k\] .* 0\.\.2"):
        read_routing(ids, layer=3)


def test_labels_for_sources_without_them():
    read = read_routing(TABLE.experts, layer=5, step=2, model="tiny")
    assert (read.layer, read.step, read.model) == (5, 2, "tiny")
    bare = pa.table({"experts": TABLE.experts.tolist()})
    assert read_routing(bare, layer=5, step=2, model="tiny") == read
    # A recorded null model is no label either.
    assert read_routing(TABLE, model="tiny").model == "tiny"


def test_arrow_objects():
    arrow = TABLE.to_arrow()
    assert read_routing(arrow) == TABLE
    assert read_routing(TABLE) == TABLE
    assert read_routing(arrow.to_batches()[0]) == TABLE
    assert (
        read_routing(pa.RecordBatchReader.from_batches(arrow.schema, arrow.to_batches())) == TABLE
    )
    frame = pd.DataFrame({"token": range(50), "experts": TABLE.experts.tolist()})
    assert read_routing(frame) == TABLE

    class Producer:
        def __arrow_c_stream__(self, requested_schema=None):
            return arrow.__arrow_c_stream__(requested_schema)

    read = read_routing(Producer())
    assert read == TABLE
    assert read.source.endswith("Producer")


def test_rows_are_sorted_by_token():
    order = np.random.default_rng(0).permutation(50)
    assert read_routing(TABLE.to_arrow().take(pa.array(order))) == TABLE
    without = TABLE.to_arrow().take(pa.array(order)).drop_columns("token")
    np.testing.assert_array_equal(read_routing(without).experts, TABLE.experts[order])


def test_a_window_keeps_its_token_numbers():
    window = read_routing(TABLE.to_arrow().slice(10, 20))
    assert (window.first_token, window.tokens) == (10, 20)
    np.testing.assert_array_equal(window.experts, TABLE.experts[10:30])
    assert read_routing(window) == window
    assert window != RoutingTable(window.experts)


def many() -> tuple[list[RoutingTable], pa.Table]:
    tables = [
        synthetic_routing(6, 8, 2, seed=1, layer=layer, step=step, model=model)
        for model in (None, "a", "b")
        for layer in (0, 10)
        for step in (0, 2)
    ]
    arrow = pa.concat_tables([table.to_arrow() for table in reversed(tables)])
    return tables, arrow.take(pa.array(np.random.default_rng(0).permutation(len(arrow))))


def test_batches_in_order_of_model_layer_step():
    tables, arrow = many()
    assert list(read_routing_batches(arrow)) == tables
    assert list(read_routing_batches(arrow, model="b", layer=10)) == tables[-2:]
    assert read_routing(arrow, model="a", layer=0, step=2) == tables[5]


def test_choices_are_listed():
    _, arrow = many()
    with pytest.raises(TraceError) as caught:
        read_routing(arrow, model="a")
    assert str(caught.value) == (
        "pyarrow.lib.Table: holds 4 routing tables (model 'a' layer 0 step 0; model 'a' layer 0 "
        "step 2; model 'a' layer 10 step 0; model 'a' layer 10 step 2), expected one; choose with "
        "layer= and step= (read_routing_batches of Python reads all of them)"
    )
    with pytest.raises(TraceError, match=r"holds 12 .*; \.\.\. up to model 'b' layer 10 step 2"):
        read_routing(arrow)
    with pytest.raises(TraceError) as caught:
        read_routing(arrow, model="a", layer=7)
    assert "has no routing table for layer 7, model 'a'; it holds layer 0" in str(caught.value)


def test_tables_of_different_k_in_one_list_column():
    arrow = pa.table({"layer": [0, 1, 0], "experts": [[1, 2], [3], [2, 1]]})
    first, second = read_routing_batches(arrow)
    assert first.experts.tolist() == [[1, 2], [2, 1]]
    assert second.experts.tolist() == [[3]]


def test_a_bad_table_does_not_hide_a_good_one():
    arrow = pa.table({"layer": [0, 1], "experts": [[1, 1], [1, 2]]})
    assert read_routing(arrow, layer=1).experts.tolist() == [[1, 2]]
    batches = read_routing_batches(arrow)
    with pytest.raises(TraceError, match="row 0"):
        next(batches)
