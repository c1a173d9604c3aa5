"""Traces that need an import, or hold requests, where expert routing is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepsim.errors import TraceError
from stepsim.trace_io import RequestTrace, read_routing, routing_parts
from tests.trace_io import foreign

A = foreign.routing(6)


def message(path: Path) -> str:
    found = []
    for read in (read_routing, routing_parts):
        with pytest.raises(TraceError) as caught:
            read(path)
        found.append(str(caught.value))
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("llamacpp", lambda path: path.write_text(foreign.llamacpp_text([A]))),
        ("sglang", lambda path: foreign.lines(path, [foreign.sglang_generate(A)])),
        ("vllm", lambda path: foreign.lines(path, [foreign.vllm_response(A, A)])),
        ("megatron", lambda path: foreign.lines(path, [foreign.megatron_record(A[:, 0], 0, 0)])),
    ],
)
def test_routing_that_needs_an_import(tmp_path, name, write):
    path = tmp_path / "x.csv"
    write(path)
    assert message(path) == (
        f"{path}: is a {name} trace, expected one of Parquet, Arrow IPC (file or stream), .npy and "
        f".npz; convert it with: stepsim trace import {path} OUT.parquet"
    )


def test_a_folder(tmp_path, monkeypatch):
    assert message(tmp_path).startswith(f"{tmp_path}: is a folder, expected a file")
    foreign.lines(tmp_path / "router_trace_rank0.jsonl", [foreign.megatron_record(A[:, 0], 0, 0)])
    assert message(tmp_path).startswith(f"{tmp_path}: is a megatron trace, expected one of Parquet")

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert message(tmp_path).startswith(f"{tmp_path}: cannot be read (Permission denied)")


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("azure", lambda path: path.write_text(foreign.AZURE)),
        ("mooncake", lambda path: foreign.lines(path, foreign.MOONCAKE)),
        ("lengths", lambda path: path.write_text("5\n7\n")),
        ("requests", RequestTrace(np.arange(3)).to_parquet),
    ],
)
def test_requests(tmp_path, name, write):
    path = tmp_path / "x.data"
    write(path)
    assert message(path) == (
        f"{path}: is a request trace ({name}), expected one of expert routing; choose another, or "
        "take the lengths of its prompts with --kv-lengths (read_kv_lengths)"
    )
