"""RoutingTable: immutable, identified by content, written whole or not at all."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from stepsim.errors import ArgError, OutputError, TraceError
from stepsim.trace_io import RoutingTable, read_routing, synthetic_routing, write_routing

IDS = np.array([[0, 1], [2, 0], [1, 2]])
WEIGHTS = np.array([[0.5, 0.5], [0.75, 0.25], [1, 0]], dtype=np.float32)


def test_arrays_are_private_and_read_only():
    ids, weights = IDS.astype(np.int32), WEIGHTS.copy()
    table = RoutingTable(ids, weights)
    ids[0, 0] = 7
    weights[0, 0] = 7
    assert table.experts[0, 0] == 0
    assert table.weights[0, 0] == 0.5
    for array in (table.experts, table.weights):
        assert array.flags.c_contiguous
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1
    with pytest.raises(FrozenInstanceError):
        table.layer = 3


@pytest.mark.parametrize("again", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_copies_are_equal_and_read_only(again):
    table = RoutingTable(IDS, WEIGHTS, layer=1, step=2, model="m", first_token=3, source="here")
    other = again(table)
    assert other == table
    assert other.source == "here"
    assert not other.experts.flags.writeable
    assert not other.weights.flags.writeable


def test_values_are_checked():
    with pytest.raises(TraceError, match=r"id 1 occurs more than once in \[1, 1\]; a token"):
        RoutingTable(np.array([[1, 1]]))
    many = np.arange(100_000)[None]
    many[0, 99_999] = 7
    with pytest.raises(TraceError, match=r"in 100000 ids, in slots 7 and 99999; a token") as caught:
        RoutingTable(many)
    assert len(str(caught.value)) < 300
    with pytest.raises(TraceError, match="weights have shape"):
        RoutingTable(IDS, WEIGHTS[:2])
    for name in ("layer", "step", "first_token"):
        with pytest.raises(ArgError, match=rf"{name} is -1, expected 0\.\.2147483647"):
            RoutingTable(IDS, **{name: -1})


def test_identity_is_pinned():
    """It is stored with results: a change needs a new SCHEMA_VERSION."""
    assert RoutingTable(IDS).identity() == (
        "59e7e29227c8ba375cfad13547f3ad6553eed03a0aa8f39f193cbbb06696715f"
    )
    assert RoutingTable(IDS, WEIGHTS, layer=1, step=2, model="m").identity() == (
        "cad5a32c83e0dd0c6dbb935af2a1f9ac4d688c34d60a5969b1900ab9d13f4cdf"
    )


def test_identity_is_of_the_content():
    table = RoutingTable(IDS, WEIGHTS, layer=1, step=2, model="m", first_token=3)
    assert replace(table, source="elsewhere").identity() == table.identity()
    assert replace(table, layer=np.int64(1)).identity() == table.identity()
    assert hash(replace(table, source="elsewhere")) == hash(table)
    changes = {
        "experts": IDS[:, ::-1],
        "weights": None,
        "layer": 2,
        "step": 1,
        "model": None,
        "first_token": 0,
    }
    others = {replace(table, **{name: value}).identity() for name, value in changes.items()}
    assert len(others | {table.identity()}) == len(changes) + 1
    # The same numbers in another shape are another table.
    assert RoutingTable([[0, 1, 2, 3]]) != RoutingTable([[0, 1], [2, 3]])
    assert RoutingTable(IDS) != "table"


def test_counts():
    table = RoutingTable(IDS)
    counts = table.counts(5)
    assert counts.tolist() == [2, 2, 2, 0, 0]
    assert counts.dtype == np.int64
    with pytest.raises(TraceError, match=r"row 1 .*expert id 2 is out of range"):
        table.counts(2)


def test_repr_is_short():
    table = synthetic_routing(4000, 8, 2, seed=1, layer=3, model="m")
    assert repr(table) == (
        "RoutingTable(tokens=4000, k=2, layer=3, step=0, model='m', "
        "source='synthetic (seed 1, skew 1, 8 experts)')"
    )


def test_to_arrow():
    arrow = RoutingTable(IDS, WEIGHTS, layer=1, step=2, model="m", first_token=3).to_arrow()
    arrow.validate(full=True)
    assert arrow.to_pylist()[1] == {
        "model": "m",
        "layer": 1,
        "step": 2,
        "token": 4,
        "experts": [2, 0],
        "weights": [0.75, 0.25],
    }


# --- writing


def test_an_existing_file_is_replaced(tmp_path):
    path = tmp_path / "t.parquet"
    path.write_text("old")
    RoutingTable(IDS).to_parquet(str(path))
    assert read_routing(path) == RoutingTable(IDS)
    assert list(tmp_path.iterdir()) == [path]


def test_the_same_table_gives_the_same_bytes(tmp_path):
    table = synthetic_routing(100, 8, 2, seed=0)
    table.to_parquet(tmp_path / "a")
    replace(table, source="elsewhere").to_parquet(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_nothing_half_written_stays(tmp_path, monkeypatch, error):
    def half(writer, table):
        assert len(list(tmp_path.iterdir())) == 2
        raise error

    monkeypatch.setattr(pq.ParquetWriter, "write_table", half)
    path = tmp_path / "t.parquet"
    path.write_text("old")
    expected = OutputError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        RoutingTable(IDS).to_parquet(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    if expected is OutputError:
        assert str(caught.value) == (
            f"cannot write {path}: No space left on device; "
            "choose a folder that exists, is writable and has space"
        )


def test_unwritable_places(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for path in (
        tmp_path / "missing" / "t.parquet",
        tmp_path / "file" / "t.parquet",
        tmp_path / "folder",
    ):
        with pytest.raises(OutputError) as caught:
            RoutingTable(IDS).to_parquet(path)
        assert str(caught.value).startswith(f"cannot write {path}: ")
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["file", "folder"]


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ([], "no tables given"),
        ([RoutingTable(IDS), RoutingTable(IDS)], r"two tables are of .* \(None, 0, 0\)"),
        (
            [RoutingTable(IDS), RoutingTable(IDS[:, :1], layer=1)],
            "table 1 has k = 1 without weights, table 0 has k = 2 without weights",
        ),
        (
            [RoutingTable(IDS), RoutingTable(IDS, WEIGHTS, layer=1)],
            "table 1 has k = 2 with weights, table 0 has k = 2 without weights",
        ),
    ],
)
def test_tables_that_do_not_go_together(tmp_path, tables, says):
    with pytest.raises(ArgError, match=says):
        write_routing(tables, tmp_path / "t.parquet")
    assert not list(tmp_path.iterdir())
