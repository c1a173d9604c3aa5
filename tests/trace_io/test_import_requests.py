"""Import of request traces: recorded files, and small ones with known values."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.errors import ArgError, TraceError
from stepsim.trace_io import (
    detect_trace_format,
    import_trace,
    load_requests,
    read_kv_lengths,
    read_requests,
    summarize_routing,
)
from tests.trace_io import foreign


def imported(source: Path, **options):
    out = source.parent / "out.parquet"
    summary = import_trace(source, out, **options)
    trace = read_requests(out)
    assert (summary.rows, summary.routing) == (len(trace), None)
    assert load_requests(source, column=options.get("column")) == trace
    assert load_requests(out) == trace
    return trace


@pytest.mark.parametrize(
    ("text", "arrival"),
    [
        (foreign.AZURE, [0, 4.314579]),
        (foreign.AZURE.replace("\n", "\r\n") + "\r\n", [0, 4.314579]),
        ("\ufeff" + foreign.AZURE.replace("5900,", "5900+00:00,"), [0, 4.314579]),
        (
            "GeneratedTokens,user,TIMESTAMP,ContextTokens\n44,a,2024-05-12T00:00:00Z,374\n"
            "109,b,2024-05-12 00:00:00.000000001,396\n",
            [0, 1e-9],
        ),
    ],
)
def test_azure(tmp_path, text, arrival):
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode())
    trace = imported(path)
    assert trace.context_tokens.tolist() == [374, 396]
    assert trace.generated_tokens.tolist() == [44, 109]
    np.testing.assert_allclose(trace.arrival_seconds, arrival, rtol=1e-12)
    assert trace.prefix_hashes is None


def test_azure_in_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("stepsim.trace_io.sources.text._BLOCK_BYTES", 90)
    path = tmp_path / "x.csv"
    rows = [f"2024-01-01 00:00:{i:02d},{i},{2 * i}" for i in range(10)]
    path.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]))
    trace = imported(path)
    assert trace.arrival_seconds.tolist() == trace.context_tokens.tolist() == list(range(10))


def test_mooncake(tmp_path, monkeypatch):
    monkeypatch.setattr("stepsim.trace_io.formats.mooncake._BATCH", 1)
    trace = imported(foreign.lines(tmp_path / "x.jsonl", foreign.MOONCAKE))
    assert trace.context_tokens.tolist() == [6758, 12]
    assert trace.generated_tokens.tolist() == [500, 3]
    assert trace.arrival_seconds.tolist() == [0, 3]
    assert [ids.tolist() for ids in trace.prefix_hashes] == [[0, 1, 2], []]
    bare = [{k: v for k, v in record.items() if k != "hash_ids"} for record in foreign.MOONCAKE]
    assert imported(foreign.lines(tmp_path / "y.jsonl", bare)).prefix_hashes is None


def test_lengths(tmp_path):
    np.save(tmp_path / "x.npy", np.array([3, 1, 2], dtype=np.int32))
    np.savez(tmp_path / "x.npz", lengths=[3, 1, 2])
    (tmp_path / "x.csv").write_text("tokens\n3\n1\n2\n")
    for name in ("x.npy", "x.npz", "x.csv"):
        trace = imported(tmp_path / name)
        assert trace.context_tokens.tolist() == [3, 1, 2]
        assert (trace.generated_tokens, trace.arrival_seconds) == (None, None)
    (tmp_path / "y.csv").write_text("id,tokens\n7,3\n8,1\n")
    trace = load_requests(tmp_path / "y.csv", format="lengths", column="tokens")
    assert trace.context_tokens.tolist() == [3, 1]


def test_lengths_are_no_columns_of_arrow(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"lengths": [1, 2]}), path)
    with pytest.raises(TraceError, match=r"is a parquet file, expected \.npy, \.npz or text with"):
        load_requests(path, format="lengths")


@pytest.mark.parametrize("name", ["lengths", "lengths.npy", "lengths.log"])
@pytest.mark.parametrize("named", [None, "lengths"])
def test_the_name_of_a_file_of_lengths_is_its_own(tmp_path, name, named):
    path = tmp_path / name
    path.write_text("tokens\n3\n1\n2\n")
    assert detect_trace_format(path) == "lengths"
    assert imported(path, format=named).context_tokens.tolist() == [3, 1, 2]


def test_lengths_beyond_32_bits(tmp_path):
    np.save(tmp_path / "x.npy", [5, 3_000_000_000])
    assert imported(tmp_path / "x.npy").context_tokens.tolist() == [5, 3_000_000_000]
    assert read_kv_lengths(tmp_path / "out.parquet").tolist() == [5, 3_000_000_000]
    large = [{**foreign.MOONCAKE[0], "input_length": 2**62, "output_length": 2**63 - 1}]
    trace = imported(foreign.lines(tmp_path / "x.jsonl", large))
    assert trace.context_tokens.tolist() == [2**62]
    assert trace.generated_tokens.tolist() == [2**63 - 1]


def test_the_recorded_azure_trace(recorded_traces: Path, tmp_path):
    source = recorded_traces / "AzureLLMInferenceTrace_conv.csv"
    assert import_trace(source, tmp_path / "conv").rows == 19_366
    trace = read_requests(tmp_path / "conv")
    assert trace.arrival_seconds[1] == pytest.approx(4.314579, abs=1e-9)
    assert (trace.context_tokens.sum(), trace.generated_tokens.sum()) == (22_361_870, 4_088_665)


def test_the_recorded_mooncake_trace(recorded_traces: Path, tmp_path):
    source = recorded_traces / "mooncake_conversation_trace.jsonl"
    assert import_trace(source, tmp_path / "m").rows == 12_031
    trace = read_requests(tmp_path / "m")
    with source.open() as file:
        records = [json.loads(line) for line in file]
    assert trace.context_tokens.tolist() == [record["input_length"] for record in records]
    assert [ids.tolist() for ids in trace.prefix_hashes] == [r["hash_ids"] for r in records]
    # One id per block of 512 tokens.
    blocks = np.array([len(ids) for ids in trace.prefix_hashes])
    assert (blocks == -(-trace.context_tokens // 512)).mean() > 0.99


def test_the_other_kind_is_refused(tmp_path):
    np.save(tmp_path / "r.npy", foreign.routing(3))
    with pytest.raises(TraceError, match=r"is a trace of expert routing \(numpy\), expected one"):
        load_requests(tmp_path / "r.npy")
    foreign.lines(tmp_path / "m.jsonl", foreign.MOONCAKE)
    with pytest.raises(TraceError, match=r"is a request trace \(mooncake\), expected one of exp"):
        summarize_routing(tmp_path / "m.jsonl")
    import_trace(tmp_path / "m.jsonl", tmp_path / "m.parquet")
    with pytest.raises(TraceError, match="is in the request schema already, expected a foreign"):
        import_trace(tmp_path / "m.parquet", tmp_path / "n.parquet")


def test_arguments_are_checked(tmp_path):
    path = foreign.lines(tmp_path / "m.jsonl", foreign.MOONCAKE)
    with pytest.raises(ArgError, match="is the source itself; name another file to write"):
        import_trace(path, path)
    with pytest.raises(ArgError, match="format 'csv' is not known, expected one of azure, leng"):
        import_trace(path, tmp_path / "o", format="csv")
    for name in ("experts", "k", "layers"):
        with pytest.raises(ArgError, match=f"{name} is 0, expected at least 1 or None"):
            import_trace(path, tmp_path / "o", **{name: 0})
    assert [p.name for p in tmp_path.iterdir()] == ["m.jsonl"]


@pytest.mark.parametrize(
    "change",
    [
        lambda line: ",".join(f'"{field}"' for field in line.split(",")),
        lambda line: " , ".join(line.split(",")),
        lambda line: ", ".join(f'"{field} "' for field in line.split(",")),
    ],
    ids=["quoted", "padded", "both"],
)
def test_azure_fields_quoted_and_padded(tmp_path, change):
    plain, other = tmp_path / "plain.csv", tmp_path / "other.csv"
    plain.write_text(foreign.AZURE)
    other.write_text("\n".join(map(change, foreign.AZURE.splitlines())))
    assert detect_trace_format(other) == "azure"
    assert load_requests(other) == load_requests(plain)


def test_azure_quotes_that_do_not_end(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(f'{foreign.AZURE}"2023-11-16 18:15:51,{"1" * 200_000},1\n')
    with pytest.raises(TraceError, match=r"line 4: 1 fields .*expected 3 in format `azure`; "):
        load_requests(path)
