"""The table of formats: content decides, names of files do not."""

from __future__ import annotations

import bz2
import codecs
import gzip
import json
import lzma
import os
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
    summarize_routing,
)
from tests.trace_io import foreign
from tests.trace_io.foreign import routing

A = routing(6)


def npy(ids):
    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.save(file, ids)

    return write


def npz(**arrays):
    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, **arrays)

    return write


def text(content: str):
    return lambda path: path.write_text(content)


def records(*values):
    return lambda path: foreign.lines(path, list(values))


def parquet(**columns):
    return lambda path: pq.write_table(pa.table(columns), path)


def folder(path: Path) -> None:
    path.mkdir()
    foreign.lines(path / "router_trace_rank0.jsonl", [foreign.megatron_record(A[:, 0], 0, 0)])


CASES = [
    ("megatron", folder),
    ("lengths", npy(np.arange(3))),
    ("numpy", npy(A[:, 0])),
    ("numpy", npy(A)),
    ("vllm", npz(routed_experts=A, prompt_routed_experts=A)),
    ("vllm", npz(prompt_routed_experts=A)),
    ("lengths", npz(lengths=np.arange(3), other=A)),
    ("numpy", npz(data=A)),
    ("numpy", npz(experts=A, weights=A * 1.0)),
    ("requests", RequestTrace(np.arange(3)).to_parquet),
    ("parquet", parquet(experts=A[:, 0].tolist())),
    ("parquet", parquet(anything=A.tolist())),
    ("megatron", records(foreign.megatron_record(A[:, 0], 0, 0))),
    ("mooncake", records(*foreign.MOONCAKE)),
    ("mooncake", records({"timestamp": 0, "input_length": 1, "output_length": 1})),
    ("sglang", records(foreign.sglang_generate(A))),
    ("sglang", records(foreign.sglang_openai(A))),
    ("sglang", records({"choices": [{"routed_experts": foreign.int32_base64(A)}]})),
    ("sglang", records([foreign.sglang_generate(A)], [foreign.sglang_generate(A)])),
    ("vllm", records(foreign.vllm_response(A, A))),
    ("vllm", records(foreign.vllm_base64_response(A))),
    ("vllm", text(json.dumps(foreign.vllm_response(A, A), indent=2))),
    ("vllm", text(json.dumps([foreign.vllm_response(A, A)]))),
    ("azure", text(foreign.AZURE)),
    ("azure", text("\ufeff" + foreign.AZURE)),
    ("llamacpp", text("layer,expert\n0,1\n")),
    ("llamacpp", text("layer, expert\n0, 1\n")),
    ("llamacpp", text("0,1\n0,2\n")),
    ("lengths", text("tokens\n1\n")),
    ("lengths", text("1\n2\n")),
]


@pytest.mark.parametrize(("name", "write"), CASES)
def test_detection(tmp_path, name, write):
    path = tmp_path / "file.data"
    write(path)
    assert detect_trace_format(path) == name


@pytest.mark.parametrize(
    "write",
    [
        text("a,b,c\n1,2,3\n"),
        text("{\n"),
        text('{"a": 1}\n'),
        text("\n\n"),
        lambda path: path.write_bytes(b"\xf8\x00"),
    ],
)
def test_unknown_content(tmp_path, write):
    path = tmp_path / "x"
    write(path)
    with pytest.raises(TraceError) as caught:
        detect_trace_format(path)
    assert str(caught.value) == (
        f"{path}: the format cannot be detected from the content, name it with --format: expected "
        "one of azure, lengths, llamacpp, megatron, mooncake, numpy, parquet, requests, sglang, "
        "vllm"
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (gzip.compress(foreign.AZURE.encode()), "gzip, expected the trace itself; unpack it first"),
        (bz2.compress(foreign.AZURE.encode()), "bzip2, expected the trace itself; unpack it first"),
        (lzma.compress(foreign.AZURE.encode()), "xz, expected the trace itself; unpack it first"),
        (b"\x28\xb5\x2f\xfd\x04", "zstd, expected the trace itself; unpack it first: unzstd "),
        (foreign.AZURE.encode("utf-16"), "UTF-16 text, expected the trace itself; convert it "),
        (codecs.BOM_UTF16_BE + foreign.AZURE.encode("utf-16-be"), "UTF-16 text, expected the "),
    ],
)
@pytest.mark.parametrize("named", [None, "azure"])
def test_content_in_another_form(tmp_path, content, says, named):
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        load_requests(path, format=named)
    assert str(caught.value).startswith(f"{path}: is {says}")
    assert str(caught.value).endswith(f" {path}")


@pytest.mark.parametrize("named", [None, "azure"])
def test_a_pipe_is_not_opened(tmp_path, named):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(TraceError) as caught:
        load_requests(path, format=named)
    assert str(caught.value) == (
        f"{path}: is a pipe or a device, expected a file, since a trace is read more than once; "
        "write it to a file first"
    )


@pytest.mark.parametrize(
    ("bare", "name"),
    [
        ({"text": "", "meta_info": {"prompt_tokens": 1, "completion_tokens": 1}}, "sglang"),
        ({"choices": [{"index": 0, "text": ""}], "usage": {}}, "sglang"),
        ({"choices": [{"index": 0, "text": "", "routed_experts": None}]}, "vllm"),
    ],
)
def test_the_first_response_may_lack_its_experts(tmp_path, bare, name):
    full = foreign.sglang_openai(A) if name == "sglang" else foreign.vllm_response(None, A)
    path = foreign.lines(tmp_path / "x", [bare, bare, full])
    assert detect_trace_format(path) == name


def test_files_that_cannot_be_opened(tmp_path):
    for path, says in (
        (tmp_path, "is a folder, expected a file"),
        (tmp_path / "no", "cannot be read (No such file or directory)"),
    ):
        with pytest.raises(TraceError) as caught:
            detect_trace_format(path)
        assert str(caught.value).startswith(f"{path}: {says}")
    path = tmp_path / "x"
    npy(np.zeros((1, 1, 1, 1)))(path)
    with pytest.raises(TraceError, match="the array has 4 dims, expected 1"):
        detect_trace_format(path)


def test_what_needs_no_import(tmp_path):
    path = tmp_path / "x"
    for write, expected in (
        (npy(A), True),
        (parquet(experts=A[:, 0].tolist()), True),
        (parquet(experts=A.tolist()), False),
        (parquet(ids=A[:, 0].tolist()), False),
        (records(*foreign.MOONCAKE), False),
    ):
        write(path)
        assert is_routing_table(path) is expected


def ipc(path: Path) -> None:
    with pa.ipc.new_file(path, TABLE.schema) as file:
        file.write_table(TABLE)


def stream(path: Path) -> None:
    with pa.ipc.new_stream(path, TABLE.schema) as file:
        file.write_table(TABLE)


TABLE = pa.table({"step": [0] * len(A), "experts": A[:, 0].tolist()})


@pytest.mark.parametrize(
    ("kind", "write"),
    [("ipc", ipc), ("ipc stream", stream), ("parquet", lambda path: pq.write_table(TABLE, path))],
)
def test_damaged_names_of_columns(tmp_path, kind, write):
    path = tmp_path / "x"
    write(path)
    assert path.read_bytes().count(b"step") > 0
    path.write_bytes(path.read_bytes().replace(b"step", b"s\xc8ep"))
    for read in (
        detect_trace_format,
        is_routing_table,
        summarize_routing,
        lambda path: import_trace(path, tmp_path / "o"),
        lambda path: import_trace(path, tmp_path / "o", format="parquet"),
    ):
        with pytest.raises(TraceError) as caught:
            read(path)
        assert str(caught.value).startswith(f"{path}: the {kind} file ")
        assert "'utf-8' codec can't decode byte 0xc8" in str(caught.value)
