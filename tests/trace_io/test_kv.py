"""KV lengths: files, text, and what the message says when they are wrong."""

from __future__ import annotations

import csv
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from stepsim.errors import ArgError, TraceError
from stepsim.trace_io import (
    ParquetStream,
    RequestTrace,
    import_trace,
    open_kv_lengths,
    read_kv_lengths,
    replay,
    replay_rows,
)
from tests.property_profile import profile
from tests.trace_io import foreign

LENGTHS = [374, 396, 0, 8191]


def message(source, **options) -> str:
    with pytest.raises(TraceError) as caught:
        read_kv_lengths(source, **options)
    return str(caught.value)


def text_file(folder, text: str, name: str = "x.csv"):
    path = folder / name
    path.write_bytes(text.encode())
    return path


def test_numpy_files(tmp_path):
    np.save(tmp_path / "x.npy", np.array(LENGTHS, dtype=np.uint16))
    np.savez(tmp_path / "one.npz", any=LENGTHS)
    np.savez(tmp_path / "named.npz", lengths=LENGTHS, other=[1])
    for source in (*sorted(tmp_path.iterdir()), np.array(LENGTHS)[::-1][::-1]):
        lengths = read_kv_lengths(source, requests=4)
        assert lengths.tolist() == LENGTHS
        assert lengths.dtype == np.int64
        assert lengths.flags.c_contiguous
        assert not lengths.flags.writeable


@pytest.mark.parametrize(
    "text",
    [
        "374\n396\n0\n8191\n",
        "374\r\n396\r\n0\r\n8191",
        "\ufefftokens\n374\n 396 \n0\n8191\n\n\n",
        '"374"\n396\n0\n8191\n',
    ],
)
@pytest.mark.parametrize("name", ["x.csv", "x.txt", "X.CSV"])
def test_text_files(tmp_path, text, name):
    assert read_kv_lengths(text_file(tmp_path, text, name)).tolist() == LENGTHS


def test_columns(tmp_path):
    path = text_file(tmp_path, "time,context,generated\nmorning,374,1\nnoon,396,2\n")
    assert read_kv_lengths(path, column="context").tolist() == [374, 396]
    assert message(path) == (
        f"{path}: has 3 columns (`time`, `context`, `generated`) and no column is chosen; choose "
        "one of them with column="
    )
    assert "column 'kv' does not occur exactly once; choose" in message(path, column="kv")
    assert f"{path}: line 2: the KV length is 'morning'" in message(path, column="time")
    bare = text_file(tmp_path, "374\n")
    assert "has no header to find column 'context' in" in message(bare, column="context")
    assert "array: has no columns to choose 'a' from" in message(np.array([1]), column="a")


@profile(50)
@given(st.lists(st.integers(0, 10**18 - 1), min_size=1, max_size=30), st.booleans())
def test_text_round_trip(tmp_path_factory, lengths, header):
    text = ("length\n" if header else "") + "\n".join(map(str, lengths))
    path = text_file(tmp_path_factory.mktemp("kv"), text)
    assert read_kv_lengths(path).tolist() == lengths


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1\n2.5\n", "line 2: the KV length is '2.5', expected a whole number of tokens, at most"),
        ("1\nnan\n", "line 2: the KV length is 'nan', expected"),
        ("1\n1_000\n", "line 2: the KV length is '1_000', expected"),
        ("1\n٣\n", "line 2: the KV length is '٣', expected"),
        ("n\n1\n9999999999999999999\n", "line 3: the KV length is '9999999999999999999', exp"),
        ("1\n\n2\n", "line 2: the KV length is '', expected"),
        (
            "1\n2,3\n",
            "line 2: 2 fields '2,3', expected 1 in format `lengths`; the file may be cut off",
        ),
        ("1\n-7\n", "line 2: KV length -7 is out of range, expected at least 0 tokens"),
        ("n\n", "the trace is empty, it has 0 rows"),
        ("\n", "the trace is empty, it has 0 rows"),
        ('1\n"2\n', "line 2: the KV length is '2\\n', expected"),
    ],
)
def test_bad_text(tmp_path, text, says):
    path = text_file(tmp_path, text)
    assert message(path).startswith(f"{path}: {says}")


@pytest.mark.parametrize("first", ["12.5", "1e3", "nan", "9223372036854775808", "-", "1_000"])
def test_a_wrong_first_length_is_no_header(tmp_path, first):
    path = text_file(tmp_path, f"{first}\n13\n14\n")
    assert message(path).startswith(f"{path}: line 1: the KV length is {first!r}, expected a wh")
    with pytest.raises(TraceError, match=f"line 1: the KV length is '{re.escape(first)}'"):
        import_trace(path, tmp_path / "out.parquet", format="lengths")


@pytest.mark.parametrize("header", [",kv", "2nd,kv", '"# id",kv', "长度,kv"])
def test_headers(tmp_path, header):
    assert read_kv_lengths(text_file(tmp_path, f"{header}\n0,5\n1,6\n"), column="kv").tolist() == [
        5,
        6,
    ]


def test_not_text(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"12\n\xff\xfe\n")
    assert "is not readable as UTF-8 text" in message(path)


@pytest.mark.parametrize(
    ("values", "options", "says"),
    [
        (np.array([1, -2, -3]), {}, "row 1: KV length -2 is out of range (and in 1 more), "),
        (np.array([1, 0]), {"minimum": 1}, "row 1: KV length 0 is out of range, expected at least"),
        (np.array([9, 5]), {"maximum": 8}, "row 0: KV length 9 is out of range, expected 0..8 to"),
        (np.array([2**64 - 1], dtype=np.uint64), {}, "row 0: KV length 18446744073709551615 is"),
        (np.array([1, 2]), {"requests": 3}, "2 lengths, expected 3; choose"),
        (np.array([], dtype=int), {}, "the trace is empty, it has 0 lengths"),
        (np.array([[1, 2]]), {}, "KV lengths have 2 dims, shape (1, 2), expected one length per"),
        (np.array(5), {}, "KV lengths have 0 dims, shape ()"),
        (np.array([1.0, np.nan]), {}, "KV lengths are float64, expected integers (row 1 holds nan"),
        (np.array([True]), {}, "KV lengths are bool, expected integers"),
    ],
)
def test_bad_arrays(values, options, says):
    assert message(values, **options).startswith(f"array: {says}")


def test_bad_files(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.arange(100))
    path.write_bytes(path.read_bytes()[:-5])
    assert f"{path}: the npy file cannot be read to its end, it is truncated" in message(path)
    other = text_file(tmp_path, "1\n", "x.dat")
    assert read_kv_lengths(other).tolist() == [1]
    other.write_text("[1, 2]\n")
    assert f"{other}: line 1: 2 fields" in message(other)
    other.write_bytes(b"PAR1....")
    assert f"{other}: the parquet file is truncated" in message(other)
    pq.write_table(pa.table({"x": [1]}), other)
    assert f"{other}: has columns `x`, expected `context_tokens` of a request" in message(other)
    np.savez(tmp_path / "x.npz", a=[1], b=[2])
    assert "exactly one named `lengths` or `data`" in message(tmp_path / "x.npz")


def test_recorded_windows(recorded_traces):
    """Each recorded window is a stretch of the recorded conversation trace, by its name."""
    whole = read_kv_lengths(
        recorded_traces / "AzureLLMInferenceTrace_conv.csv", column="ContextTokens"
    )
    windows = sorted((recorded_traces / "azure_trace").rglob("*.npy"))
    assert len(windows) == 51
    for path in windows:
        first, last = map(int, re.search(r"_(\d+)_(\d+)\.npy$", path.name).groups())
        lengths = read_kv_lengths(path, requests=last - first + 1, minimum=1)
        np.testing.assert_array_equal(lengths, whole[first - 1 : last])


def test_recorded_sums(recorded_traces):
    rows = [
        [field.strip() for field in line.strip("|").split("|")]
        for line in (recorded_traces / "README.md").read_text().splitlines()
        if line.startswith("| azure_trace/")
    ]
    assert len(rows) == 51
    for name, _, low, high, _, _, total, tiles, _ in rows:
        lengths = read_kv_lengths(recorded_traces / name)
        assert [lengths.min(), lengths.max(), lengths.sum()] == [int(low), int(high), int(total)]
        assert (-(-(lengths + 1) // 32)).sum() == int(tiles)


def test_a_csv_file_by_the_standard_writer(tmp_path):
    path = tmp_path / "x.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["id", "kv"], ["a,b", 5], ['"c"', 6]])
    assert read_kv_lengths(path, column="kv").tolist() == [5, 6]


# --- files of many batches


@pytest.fixture
def trace() -> RequestTrace:
    generator = np.random.default_rng(0)
    return RequestTrace(generator.integers(1, 500, 60), generator.integers(1, 9, 60))


def test_windows_of_every_kind_of_file(tmp_path, trace):
    lengths = trace.context_tokens
    np.save(tmp_path / "x.npy", lengths)
    np.savez_compressed(tmp_path / "x.npz", lengths=lengths)
    (tmp_path / "x.csv").write_text("\n".join(map(str, lengths)))
    trace.to_parquet(tmp_path / "x.parquet")
    for source in (*tmp_path.iterdir(), lengths):
        for window in (0, 3, 6):
            found = read_kv_lengths(source, requests=8, window=window)
            assert found.tolist() == lengths[8 * window :][:8].tolist()
        assert "it has 60 requests, which makes windows 0..6 of 8, but window 7" in message(
            source, requests=8, window=7
        )
        with pytest.raises(ArgError, match=r"the size of window 1 is not known; give requests="):
            read_kv_lengths(source, window=1)
        assert (
            "60 lengths, expected 8; choose a file with this batch size, or one window"
            in message(source, requests=8)
        )
        assert "has no steps to choose 1 from" in message(source, step=1)


def test_foreign_request_traces(tmp_path):
    azure = text_file(tmp_path, foreign.AZURE)
    mooncake = foreign.lines(tmp_path / "x.jsonl", foreign.MOONCAKE)
    assert read_kv_lengths(azure).tolist() == [374, 396]
    assert read_kv_lengths(azure, column="GeneratedTokens").tolist() == [44, 109]
    assert read_kv_lengths(mooncake).tolist() == [6758, 12]
    import_trace(mooncake, tmp_path / "x.parquet")
    assert read_kv_lengths(tmp_path / "x.parquet", requests=1, window=1).tolist() == [12]


@pytest.mark.parametrize("rows", [3, 1000])
def test_steps_of_a_replay(tmp_path, trace, rows):
    steps = list(replay(trace, 8))[::2]
    path = tmp_path / "steps.parquet"
    with ParquetStream(path, row_group_rows=rows) as out:
        out.write(replay_rows(steps))
    file = open_kv_lengths(path)
    assert file.steps.tolist() == [step.step for step in steps]
    assert file.sizes.tolist() == [len(step.requests) for step in steps]
    for batch, step in enumerate(steps):
        assert file.read(batch).tolist() == step.kv_lengths.tolist()
        assert read_kv_lengths(path, step=step.step).tolist() == step.kv_lengths.tolist()
    window = read_kv_lengths(path, step=4, requests=3, window=1)
    assert window.tolist() == steps[2].kv_lengths[3:6].tolist()
    last = steps[-1].step
    assert f"holds {len(steps)} steps from 0 to {last}, expected one; choose one of them" in (
        message(path)
    )
    assert "0 of them are step 5; choose one of them with step=" in message(path, step=5)
    assert "step 4 has 8 requests, which makes windows 0..1 of 3, but window 2 is" in message(
        path, step=4, requests=3, window=2
    )


@pytest.mark.parametrize(
    ("steps", "lengths", "says"),
    [
        ([0, 1], [[1], []], "row 1: step 1 has no requests, expected at least 1"),
        ([3, 1], [[1], [4, None]], "step 1, request 1: the KV length is null, expected one for"),
        ([3, 1], [[1], [4, -5]], "step 1, request 1: KV length -5 is out of range"),
        ([0, None], [[1], [2]], "row 1: `step` is null"),
        ([], [], "holds no steps, expected at least 1"),
    ],
)
def test_bad_steps(tmp_path, steps, lengths, says):
    columns = {
        "step": pa.array(steps, pa.int64()),
        "kv_lengths": pa.array(lengths, pa.list_(pa.int64())),
    }
    pq.write_table(pa.table(columns), tmp_path / "s.parquet")
    assert says in message(tmp_path / "s.parquet", step=1)


def test_steps_of_another_type(tmp_path):
    pq.write_table(pa.table({"step": [0], "kv_lengths": [[0.5]]}), tmp_path / "s.parquet")
    assert "is list<element: double>, expected a list of integers (KV lengths); cast it" in message(
        tmp_path / "s.parquet"
    )


@pytest.mark.parametrize("bad", [None, -7])
def test_a_bad_length_in_a_window_of_a_step(tmp_path, bad):
    lengths = pa.array([[1], [1, 2, 3, bad]], pa.list_(pa.int64()))
    pq.write_table(pa.table({"step": [0, 9], "kv_lengths": lengths}), tmp_path / "s.parquet")
    said = message(tmp_path / "s.parquet", step=9, requests=2, window=1)
    assert said.startswith(f"{tmp_path / 's.parquet'}: step 9, request 3: ")
    assert read_kv_lengths(tmp_path / "s.parquet", step=9, requests=2, window=0).tolist() == [1, 2]


def test_lengths_come_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("stepsim.trace_io.sources.text._BLOCK_BYTES", 6)
    monkeypatch.setattr("stepsim.trace_io.formats.lengths.CHUNK_BYTES", 24)
    (tmp_path / "x.csv").write_text("n\n" + "\n".join(map(str, range(10))) + "\n\n\n")
    np.save(tmp_path / "x.npy", np.arange(10))
    for name in ("x.csv", "x.npy"):
        assert import_trace(tmp_path / name, tmp_path / "out.parquet").rows == 10
        assert read_kv_lengths(tmp_path / "out.parquet").tolist() == list(range(10))
    np.save(tmp_path / "x.npy", np.array([1, 2, 3, 4, -5]))
    with pytest.raises(TraceError, match="row 4: KV length -5 is out of range"):
        import_trace(tmp_path / "x.npy", tmp_path / "out.parquet")
    (tmp_path / "x.csv").write_text("1\n2\n3\n4\n\n5\n")
    with pytest.raises(TraceError, match="line 5: the KV length is '', expected a whole"):
        import_trace(tmp_path / "x.csv", tmp_path / "out.parquet")
