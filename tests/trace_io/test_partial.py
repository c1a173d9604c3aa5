"""Reading a part or a window of a trace: the values of the whole, and only what it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from stepsim.errors import ArgError, TraceError
from stepsim.trace_io import (
    RoutingTable,
    import_trace,
    read_routing,
    read_routing_batches,
    routing_parts,
    synthetic_routing,
    write_routing,
    writer,
)
from stepsim.trace_io.sources import numpy as numpy_source
from tests.property_profile import profile
from tests.trace_io import foreign


@pytest.fixture
def groups_read(monkeypatch) -> list[int]:
    """The row groups that are read, in order."""
    read: list[int] = []
    real = pq.ParquetFile.read_row_group

    def read_row_group(self, index, **options):
        read.append(index)
        return real(self, index, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", read_row_group)
    return read


def tables(layers: int, steps: int, tokens: int = 40, model: str | None = "m") -> list:
    return [
        synthetic_routing(tokens, 16, 4, seed=1, layer=layer, step=step, model=model)
        for step in range(steps)
        for layer in range(layers)
    ]


def write_groups(tables, path: Path, rows: int) -> None:
    pq.write_table(pa.concat_tables([t.to_arrow() for t in tables]), path, row_group_size=rows)


# --- what is read


def test_one_layer_reads_its_row_groups_only(tmp_path, groups_read):
    made = tables(layers=6, steps=5)
    write_groups(made, tmp_path / "t.parquet", rows=20)
    read = read_routing(tmp_path / "t.parquet", layer=4, step=3)
    assert read == made[3 * 6 + 4]
    first = (3 * 6 + 4) * 2
    assert groups_read == [first, first + 1]


def test_a_window_reads_the_row_groups_of_its_tokens_only(tmp_path, groups_read):
    made = tables(layers=3, steps=1, tokens=100)
    write_groups(made, tmp_path / "t.parquet", rows=10)
    part = next(p for p in routing_parts(tmp_path / "t.parquet") if p.layer == 1)
    assert (part.tokens, part.first_row, groups_read) == (100, 100, [])
    window = part.read_window(3, 12)
    assert groups_read == [13, 14]
    assert window == RoutingTable(made[1].experts[36:48], layer=1, model="m", first_token=36)
    # The next window begins in a row group that is still there.
    part.read_window(4, 12)
    assert groups_read == [13, 14, 15]


def test_layers_that_share_a_row_group_are_found(tmp_path, groups_read):
    made = tables(layers=6, steps=5)
    write_groups(made, tmp_path / "t.parquet", rows=100)
    read = routing_parts(tmp_path / "t.parquet", layers=[5, 9], steps=[4])
    assert [(part.layer, part.step) for part in read] == [(5, 4)]
    assert read[0].read() == made[-1]
    # The labels of the two that may hold it, then its rows.
    assert groups_read == [9, 11, 11]


def short_groups(monkeypatch, rows: int) -> None:
    def stream(path, **rest):
        return writer.ParquetStream(path, row_group_rows=rows, **rest)

    monkeypatch.setattr("stepsim.trace_io.importing.ParquetStream", stream)
    monkeypatch.setattr("stepsim.trace_io.routing.table.ParquetStream", stream)


def test_imports_and_writers_make_row_groups_of_one_layer(tmp_path, monkeypatch):
    ids = foreign.routing(3000)
    np.save(tmp_path / "x.npy", ids)
    short_groups(monkeypatch, 2048)
    import_trace(tmp_path / "x.npy", tmp_path / "x.parquet")
    write_routing(
        [RoutingTable(ids[:, layer], layer=layer) for layer in range(foreign.LAYERS)],
        tmp_path / "y.parquet",
    )
    for name in ("x.parquet", "y.parquet"):
        metadata = pq.read_metadata(tmp_path / name)
        found = [metadata.row_group(i).column(1).statistics for i in range(metadata.num_row_groups)]
        assert [(s.min, s.max, s.num_values) for s in found] == [
            (layer, layer, rows) for layer in range(foreign.LAYERS) for rows in (2048, 952)
        ]


def test_short_layer_steps_share_row_groups(tmp_path, monkeypatch):
    short_groups(monkeypatch, 800)
    write_routing(tables(layers=6, steps=5), tmp_path / "t.parquet")
    metadata = pq.read_metadata(tmp_path / "t.parquet")
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert sizes == [120] * 10


PEAK = """
import re, sys
from pathlib import Path
from stepsim.trace_io import read_routing
peak = lambda: int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
import pyarrow.parquet
before = peak()
table = read_routing(sys.argv[1], layer=20, tokens=64, window=int(sys.argv[2]))
print(peak() - before, *table.experts[0])
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read in /proc")
@pytest.mark.parametrize(
    ("name", "most_mb"),
    [("c.npy", 12), ("f.npy", 12), ("c.npz", 30), ("f.npz", 30), ("x.parquet", 100)],
)
def test_memory_of_a_window_is_small(tmp_path, name, most_mb):
    """150,000 tokens of 24 layers: 58 MB as int16, 115 MB as int32 without what reading adds."""
    ids = np.tile(foreign.routing(1000, layers=24).repeat(2, axis=2), (150, 1, 1))
    ids[:, :, 1::2] += foreign.EXPERTS
    path = tmp_path / name
    if name.startswith("f"):
        ids = np.asfortranarray(ids)
    if name.endswith("npz"):
        np.savez(path, data=ids)
    else:
        np.save(tmp_path / "c.npy" if name == "x.parquet" else path, ids)
    if name == "x.parquet":
        import_trace(tmp_path / "c.npy", path)
    command = [sys.executable, "-c", PEAK, str(path), "2000"]
    found = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    assert [int(value) for value in found[1:]] == ids[2000 * 64, 20].tolist()
    assert float(found[0]) < most_mb


# --- the same values


@pytest.mark.slow
@profile(24, thorough=1000)
@given(st.data())
def test_pieces_of_any_size_give_the_whole_table(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("pieces")
    made = [t for model in (None, "a") for t in tables(2, 2, data.draw(st.integers(1, 12)), model)]
    arrow = pa.concat_tables([t.to_arrow() for t in made])
    if data.draw(st.booleans(), "shuffled"):
        order = np.random.default_rng(data.draw(st.integers(0, 99))).permutation(len(arrow))
        arrow = arrow.take(pa.array(order))
    if data.draw(st.booleans(), "without numbers"):
        arrow = arrow.drop_columns("token")
    rows, statistics = data.draw(st.integers(1, 30)), data.draw(st.booleans())
    pq.write_table(arrow, folder / "t.parquet", row_group_size=rows, write_statistics=statistics)
    with (
        pa.OSFile(str(folder / "t.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, arrow.schema) as out,
    ):
        out.write_table(arrow, max_chunksize=rows)
    whole = list(read_routing_batches(arrow))
    for name in ("t.parquet", "t.arrow"):
        assert list(read_routing_batches(folder / name)) == whole
        size = data.draw(st.integers(1, 4))
        for part, table in zip(routing_parts(folder / name), whole, strict=True):
            assert part.tokens == table.tokens
            for window in range(part.tokens // size):
                rows_of = slice(window * size, (window + 1) * size)
                found = part.read_window(window, size)
                assert found.experts.tolist() == table.experts[rows_of].tolist()
                assert found.first_token == window * size


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("order", ["C", "F"])
def test_windows_of_arrays(tmp_path, monkeypatch, order, small):
    if not small:
        monkeypatch.setattr(numpy_source, "_MAX_UNPACKED_BYTES", 0)
        monkeypatch.setattr(numpy_source, "_WINDOW_BYTES", 100)
    ids = np.asarray(foreign.routing(20), order=order)
    weights = np.random.default_rng(0).random(ids.shape).astype(np.float32)
    np.save(tmp_path / "x.npy", ids)
    np.save(tmp_path / "flat.npy", ids[:, 1])
    np.savez_compressed(tmp_path / "x.npz", experts=ids, weights=weights)
    for window in range(6):
        options = {"layer": 1, "tokens": 3, "window": window}
        wanted = RoutingTable(ids[3 * window :][:3, 1], layer=1, first_token=3 * window)
        for source in (tmp_path / "x.npy", tmp_path / "flat.npy", ids):
            assert read_routing(source, **options) == wanted
        found = read_routing(tmp_path / "x.npz", **options)
        assert found.experts.tolist() == wanted.experts.tolist()
        assert found.weights.tolist() == weights[3 * window :][:3, 1].tolist()
    assert read_routing(tmp_path / "x.npy", layer=2) == RoutingTable(ids[:, 2], layer=2)


def test_weights_missing_in_some_row_groups_are_reported(tmp_path):
    table = pa.table(
        {
            "experts": [[1], [2], [3]],
            "weights": pa.array([[0.5], None, [0.5]], pa.list_(pa.float32())),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=1)
    with pytest.raises(TraceError, match=r"row 1 \(.*\): `weights` is null, expected a list"):
        read_routing(tmp_path / "t.parquet")
    assert read_routing(tmp_path / "t.parquet", tokens=1, window=1).weights is None


def test_uneven_row_groups_are_reported(tmp_path):
    table = pa.table({"experts": [[1, 2], [3, 4], [5]]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=1)
    with pytest.raises(TraceError, match=r"row 2 .*: `experts` has 1 values, but row 0 has 2"):
        read_routing(tmp_path / "t.parquet")


def test_labels_of_other_types_are_refused(tmp_path):
    for values in (["0", "0"], [0.0, 0.0], [True, True], [-1, -1], [2**40, 2**40], [None, None]):
        table = pa.table({"layer": values, "experts": [[1], [2]]})
        pq.write_table(table, tmp_path / "t.parquet")
        with pytest.raises(TraceError, match="`layer` is"):
            read_routing(tmp_path / "t.parquet").layer  # noqa: B018
    pq.write_table(pa.table({"model": [1, 1], "experts": [[1], [2]]}), tmp_path / "t.parquet")
    with pytest.raises(TraceError, match="column `model` is int64, expected text"):
        read_routing(tmp_path / "t.parquet")


def test_models_may_be_null_or_dictionaries(tmp_path):
    bare, named = tables(1, 1, model=None)[0], tables(1, 1, model="b")[0]
    write_groups([bare], tmp_path / "t.parquet", rows=10)
    assert read_routing(tmp_path / "t.parquet", model="b") == named
    write_groups([bare, named], tmp_path / "t.parquet", rows=10)
    assert read_routing(tmp_path / "t.parquet", model="b") == named
    with pytest.raises(TraceError, match="has no routing table for model 'c'; it holds layer 0"):
        read_routing(tmp_path / "t.parquet", model="c")
    arrow = named.to_arrow()
    column = arrow["model"].dictionary_encode()
    pq.write_table(arrow.set_column(0, "model", column), tmp_path / "t.parquet")
    assert read_routing(tmp_path / "t.parquet") == named


def test_layers_of_an_array_need_not_be_there():
    ids = foreign.routing(5)
    assert [part.layer for part in routing_parts(ids, layers=[1, 7])] == [1]
    assert routing_parts(ids, layers=[7]) == []
    assert routing_parts(ids[:, 0], steps=[1]) == []


# --- what cannot be read


def test_a_window_past_the_end(tmp_path):
    tables(1, 1)[0].to_parquet(tmp_path / "t.parquet")
    with pytest.raises(TraceError) as caught:
        read_routing(tmp_path / "t.parquet", tokens=15, window=2)
    assert str(caught.value) == (
        f"{tmp_path}/t.parquet: model 'm' layer 0 step 0 has 40 tokens, which makes windows 0..1 "
        "of 15, but window 2 is asked for; choose one of them"
    )
    with pytest.raises(TraceError, match="fewer than the batch of 41 asked for; choose"):
        read_routing(tmp_path / "t.parquet", tokens=41, window=0)
    with pytest.raises(ArgError, match="the size of window 1 is not known; give tokens= as well"):
        read_routing(tmp_path / "t.parquet", window=1)
    with pytest.raises(ArgError, match=r"window must be an int from 0 .*, found -1"):
        read_routing(tmp_path / "t.parquet", tokens=4, window=-1)
    with pytest.raises(TraceError, match=r"40 tokens \(.*\), expected 4; .* with window="):
        read_routing(tmp_path / "t.parquet", tokens=4)


def test_a_token_that_a_window_lacks(tmp_path):
    arrow = tables(1, 1)[0].to_arrow()
    pq.write_table(pa.concat_tables([arrow.slice(0, 9), arrow.slice(10)]), tmp_path / "t.parquet")
    assert read_routing(tmp_path / "t.parquet", tokens=3, window=2).tokens == 3
    with pytest.raises(TraceError, match="has 2 of 3 tokens from token 9; the recorder may have"):
        read_routing(tmp_path / "t.parquet", tokens=3, window=3)


def test_a_file_cut_off_is_reported_before_its_first_value_is_read(tmp_path):
    np.save(tmp_path / "x.npy", foreign.routing(20))
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-1])
    with pytest.raises(TraceError, match="truncated or damaged"):
        read_routing(tmp_path / "x.npy", layer=0, tokens=1, window=0)
