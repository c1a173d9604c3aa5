"""Arrow layouts: however the values are laid out, they are read as the table shows them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from stepsim.errors import TraceError
from stepsim.trace_io import RoutingTable, read_routing, read_routing_batches
from tests.property_profile import profile

INTEGERS = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16()]
INTEGERS += [pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
LISTS = ["list", "large_list", "fixed", "list_view", "large_list_view"]


def list_of(values: np.ndarray, kind: str, item: pa.Array) -> pa.Array:
    """A list array of [n, k] ``values`` whose flat values are ``item``."""
    n, k = values.shape
    ends = np.arange(n + 1) * k
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(item, k)
    if kind == "list":
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), item)
    if kind == "large_list":
        return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), item)
    index = pa.int32() if kind == "list_view" else pa.int64()
    cls = pa.ListViewArray if kind == "list_view" else pa.LargeListViewArray
    # Views may be out of order: store the rows backwards.
    backwards = item.take(pa.array(np.arange(n * k).reshape(n, k)[::-1].ravel()))
    offsets = pa.array(ends[:-1][::-1].copy(), index)
    return cls.from_arrays(offsets, pa.array([k] * n, index), backwards)


@st.composite
def ids(draw):
    n, experts = draw(st.integers(1, 12)), draw(st.integers(1, 100))
    k = draw(st.integers(1, min(experts, 5)))
    rows = st.lists(st.integers(0, experts - 1), min_size=k, max_size=k, unique=True)
    return np.array(draw(st.lists(rows, min_size=n, max_size=n)), dtype=np.int64)


@st.composite
def laid_out(draw):
    """A table with padding rows around the real ones, sliced and chunked; and the real values."""
    values = draw(ids())
    before, after = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    # Rows outside the slice are invalid on purpose: reading one of them cannot go unnoticed.
    stored = np.pad(values, ((before, after), (0, 0)), constant_values=111)
    item = pa.array(stored.ravel(), draw(st.sampled_from(INTEGERS)))
    if draw(st.booleans()):
        item = item.dictionary_encode()
    rows = list_of(stored, draw(st.sampled_from(LISTS)), item)
    weights = pa.array(list(stored.astype(float) / 128), pa.list_(pa.float64()))
    weights = weights.cast(pa.list_(draw(st.sampled_from(FLOATS))))
    n = len(stored)
    token = pa.array(np.arange(n), draw(st.sampled_from(INTEGERS)))
    layer = pa.array([4] * n, draw(st.sampled_from(INTEGERS)))
    model = pa.array(["m"] * n, draw(st.sampled_from([pa.string(), pa.large_string()])))
    encoding = draw(st.sampled_from(["plain", "dictionary", "run end"]))
    if encoding == "dictionary":
        layer, model = layer.dictionary_encode(), model.dictionary_encode()
    if encoding == "run end":
        layer, model = pc.run_end_encode(layer), pc.run_end_encode(model)
    table = pa.table(
        {
            "weights": weights,
            "model": model,
            "x": token,
            "token": token,
            "experts": rows,
            "layer": layer,
        }
    )
    if draw(st.booleans()):
        cut = draw(st.integers(0, n))
        table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    return values, before, table.slice(before, len(values))


@profile(100)
@given(laid_out())
def test_every_layout_is_read_right(case):
    values, before, table = case
    read = read_routing(table)
    np.testing.assert_array_equal(read.experts, values)
    np.testing.assert_array_equal(read.weights, (values / 128).astype(np.float32))
    assert (read.first_token, read.layer, read.model) == (before, 4, "m")


@profile(20)
@given(laid_out())
def test_streams_are_read_right(case):
    values, _, table = case
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    np.testing.assert_array_equal(read_routing(reader).experts, values)


@profile(20)
@given(laid_out(), st.data())
def test_a_null_anywhere_is_named(case, data):
    values, before, table = case
    n, k = values.shape
    row = data.draw(st.integers(0, n - 1))
    lists = table["experts"].to_pylist()
    if data.draw(st.booleans()):
        lists[row] = None
        expected = "`experts` is null"
    else:
        slot = data.draw(st.integers(0, k - 1))
        lists[row][slot] = None
        expected = f"`experts` has a null in slot {slot}"
    at = table.column_names.index("experts")
    for kind in (pa.list_(pa.int32()), pa.large_list(pa.uint16())):
        bad = table.set_column(at, "experts", pa.array(lists, kind))
        with pytest.raises(TraceError) as caught:
            read_routing(bad)
        place = f"row {row} (layer 4, step 0, token {before + row}): {expected}"
        assert f"pyarrow.lib.Table: {place}" in str(caught.value)


@profile(20)
@given(ids())
def test_dictionary_of_lists(values):
    repeated = np.concatenate([values, values])
    encoded = pa.DictionaryArray.from_arrays(
        pa.array(list(range(len(values))) * 2, pa.int16()), pa.array(values.tolist())
    )
    table = pa.table({"experts": encoded}).slice(1)
    np.testing.assert_array_equal(read_routing(table).experts, repeated[1:])


@profile(40)
@given(ids(), st.booleans())
def test_round_trips(tmp_path_factory, values, with_weights):
    weights = values / 3 if with_weights else None
    path = tmp_path_factory.mktemp("round") / "t.parquet"
    table = RoutingTable(values, weights, layer=2, step=3, model="m", first_token=7)
    table.to_parquet(path)
    assert read_routing(path) == table
    assert read_routing(table) == table
    ipc = path.with_suffix(".arrow")
    with pa.OSFile(str(ipc), "wb") as sink, pa.ipc.new_stream(sink, table.to_arrow().schema) as out:
        out.write_table(table.to_arrow(), max_chunksize=3)
    assert read_routing(ipc) == table


def test_chunks_with_different_dictionaries():
    chunks = [
        list_of(np.array(rows), "list", pa.array(np.ravel(rows)).dictionary_encode())
        for rows in ([[5, 9], [9, 5]], [[1, 5]], [[9, 1]])
    ]
    table = pa.table({"experts": pa.chunked_array(chunks)})
    assert read_routing(table.slice(1)).experts.tolist() == [[9, 5], [1, 5], [9, 1]]


def test_dictionary_parquet_and_ipc_files(tmp_path):
    item = pa.array([5, 9, 9, 5, 1, 5]).dictionary_encode()
    rows = list_of(np.zeros((3, 2)), "list", item)
    model = pa.array(["m"] * 3).dictionary_encode()
    table = pa.table({"experts": rows, "model": model})
    pq.write_table(table, tmp_path / "t.parquet")
    with (
        pa.OSFile(str(tmp_path / "t.arrow"), "wb") as out,
        pa.ipc.new_file(out, table.schema) as writer,
    ):
        writer.write_table(table)
    for name in ("t.parquet", "t.arrow"):
        read = read_routing(tmp_path / name)
        assert read.experts.tolist() == [[5, 9], [9, 5], [1, 5]]
        assert read.model == "m"


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_kinds_of_text(kind):
    if pa.types.is_string_view(kind) and int(pa.__version__.split(".")[0]) < 18:
        pytest.skip("this version of pyarrow cannot cast text views")
    model = pa.chunked_array([pa.array(["b", "a"], kind), pa.array(["b", None], kind)])
    table = pa.table({"model": model, "experts": [[0], [1], [2], [3]]})
    read = {part.model: part.experts.ravel().tolist() for part in read_routing_batches(table)}
    assert list(read.items()) == [(None, [3]), ("a", [1]), ("b", [0, 2])]


def test_fixed_shape_tensors():
    storage = pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int32(), 2))
    tensor = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int32(), [2]), storage)
    assert read_routing(pa.table({"experts": tensor}).slice(1)).experts.tolist() == [[3, 4], [5, 6]]


@pytest.mark.parametrize("missing", ["column", "rows"])
def test_weights_that_are_null_throughout_are_absent(missing):
    kind = pa.null() if missing == "column" else pa.list_(pa.float32())
    table = pa.table({"experts": [[1, 2], [3, 4]], "weights": pa.nulls(2, kind)})
    assert read_routing(table).weights is None


def null_view() -> pa.Array:
    """A view whose null row has a size all the same, as the format allows."""
    offsets, sizes = pa.array([0, 0], pa.int32()), pa.array([2, 2], pa.int32())
    values = pa.array([0.5, 0.25], pa.float32())
    return pa.ListViewArray.from_arrays(offsets, sizes, values, mask=pa.array([True, False]))


@pytest.mark.parametrize(
    "weights",
    [
        pa.array([None, [0.5, 0.25]], pa.list_(pa.float32())),
        pa.array([None, [0.5, 0.25]], pa.list_(pa.float32(), 2)),
        null_view(),
    ],
    ids=lambda weights: str(weights.type),
)
def test_weights_in_one_layer_only(weights):
    table = pa.table({"layer": [0, 1], "experts": [[1, 2], [3, 4]], "weights": weights})
    assert read_routing(table, layer=0).weights is None
    assert read_routing(table, layer=1).weights.tolist() == [[0.5, 0.25]]
    with pytest.raises(TraceError, match=r"row 0 \(layer 0, .*\): `weights` is null"):
        read_routing(table.drop_columns("layer"))
