"""Sequences of one trace have one number of layers, also where it is not recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.errors import TraceError
from stepsim.trace_io import (
    import_trace,
    read_routing,
    read_routing_batches,
    summarize_routing,
)
from tests.trace_io import foreign
from tests.trace_io.foreign import K, routing

A, B = routing(8, layers=4), routing(4, seed=1, layers=4)


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(TraceError) as caught:
        summarize_routing(path, **options)
    return str(caught.value).replace(str(path), "FILE")


def partial(ids: np.ndarray, start: int, **more: Any) -> dict[str, Any]:
    """A response of /generate with the tokens from ``start`` only."""
    response = foreign.sglang_generate(ids)
    response["meta_info"] |= {"routed_experts": foreign.int32_base64(ids[start:])} | more
    return response


# --- SGLang: the layers follow from the count of tokens


def test_fewer_tokens_than_counted_are_not_other_layers(tmp_path):
    path = foreign.lines(tmp_path / "x.jsonl", [foreign.sglang_generate(A), partial(A, 4)])
    assert refusal(path, k=K) == (
        "FILE: line 2: `meta_info.routed_experts` has 64 ids, which are 2 layers x k = 4 of 8 "
        "tokens, expected 4 layers as in `meta_info.routed_experts` of FILE: line 1; give --layers "
        "if only a part of the tokens was asked for (routed_experts_start_len)"
    )
    import_trace(path, tmp_path / "o", k=K, layers=4)
    assert read_routing(tmp_path / "o", layer=3, step=1).experts.tolist() == A[4:, 3].tolist()


@pytest.mark.parametrize("place", ["meta_info", "record", "choice", "sgl_ext"])
def test_the_begin_of_a_part_is_used_where_it_is_recorded(tmp_path, place):
    start = {"routed_experts_start_len": 4}
    if place in ("choice", "sgl_ext"):
        second = foreign.sglang_openai(A)
        choice = second["choices"][0]
        choice["sgl_ext"]["routed_experts"] = foreign.int32_base64(A[4:])
        (choice if place == "choice" else choice["sgl_ext"]).update(start)
    else:
        second = partial(A, 4, **(start if place == "meta_info" else {}))
        second |= start if place == "record" else {}
    path = foreign.lines(tmp_path / "x.jsonl", [second, foreign.sglang_generate(A)])
    import_trace(path, tmp_path / "o", k=K)
    for step, expected in enumerate((A[4:], A)):
        found = read_routing(tmp_path / "o", layer=3, step=step).experts
        assert found.tolist() == expected[:, 3].tolist()


def test_responses_that_count_nothing_have_the_layers_of_those_before(tmp_path):
    silent = {"choices": [{"routed_experts": foreign.int32_base64(B)}]}
    path = foreign.lines(tmp_path / "x.jsonl", [foreign.sglang_openai(A), silent])
    import_trace(path, tmp_path / "o", k=K)
    assert read_routing(tmp_path / "o", layer=3, step=1).experts.tolist() == B[:, 3].tolist()


@pytest.mark.parametrize("factor", [2, 4])
def test_a_k_that_is_too_small_shows(tmp_path, factor):
    ids = routing(40, layers=6)
    path = foreign.lines(tmp_path / "x.jsonl", [foreign.sglang_generate(ids)])
    assert summarize_routing(path, k=K).k == K
    small, layers = K // factor, 6 * factor
    assert refusal(path, k=small) == (
        f"FILE: line 1: `meta_info.routed_experts` has 960 ids, {layers} layers x k = {small} of "
        f"40 tokens, but no token has an expert twice in {factor} adjacent layers, expected "
        f"of 6 layers x k = 4; check --k, or give --layers {layers} if it is right"
    )
    assert len(summarize_routing(path, k=small, layers=layers).layers) == layers


def test_a_repeated_token_proves_nothing(tmp_path):
    # Its layers may well have no expert in common.
    ids = np.tile(np.arange(16).reshape(1, 4, 4), (200, 1, 1))
    path = foreign.lines(tmp_path / "x.jsonl", [foreign.sglang_generate(ids)])
    assert len(summarize_routing(path, k=4, experts=16).layers) == 4


def test_responses_without_experts_are_left_out_on_request(tmp_path):
    bare = {"meta_info": {"prompt_tokens": 1, "completion_tokens": 1}}
    path = foreign.lines(tmp_path / "x.jsonl", [bare, foreign.sglang_generate(A), bare])
    assert refusal(path, k=K).startswith("FILE: line 1: has no `meta_info.routed_experts` or ")
    summary = import_trace(path, tmp_path / "o", k=K, drop_missing=True)
    assert summary.notes == ("left out 2 responses without routed_experts, first in line 1",)
    assert (summary.rows, summary.routing.steps) == (32, 1)


# --- vLLM and Parquet: the layers are recorded


def test_a_prompt_and_its_completion_have_the_same_layers(tmp_path):
    says = "expected 4 as in `prompt_routed_experts` of FILE"
    path = foreign.lines(tmp_path / "x.jsonl", [foreign.vllm_response(A, B[:, :3])])
    assert refusal(path) == (
        "FILE: line 1: `choices[0].routed_experts` has 3 layers (shape (4, 3, 4)), "
        f"{says}: line 1; all sequences of a trace are of one model, put others into a separate "
        "file"
    )
    np.savez(tmp_path / "x.npz", prompt_routed_experts=A, routed_experts=B[:, :3])
    assert says in refusal(tmp_path / "x.npz")


def test_responses_of_two_models(tmp_path):
    responses = [foreign.vllm_response(None, ids) for ids in (A, B[:, :3])]
    path = foreign.lines(tmp_path / "x.jsonl", responses)
    assert refusal(path).startswith("FILE: line 2: `choices[0].routed_experts` has 3 layers")
    pq.write_table(pa.table({"experts": [A.tolist(), B[:, :3].tolist()]}), tmp_path / "p")
    assert refusal(tmp_path / "p").startswith("FILE: row 1: `experts` has 3 layers (shape (4, 3")


# --- Parts without tokens


@pytest.mark.parametrize("nothing", [[], foreign.npy_base64(A[:0])], ids=["list", "base64"])
@pytest.mark.parametrize("where", ["prompt", "completion", "response"])
def test_empty_parts_of_vllm_are_left_out(tmp_path, nothing, where):
    responses = [foreign.vllm_response(A, B), foreign.vllm_response(A, B)]
    expected = [[*A[:, 3].tolist(), *B[:, 3].tolist()], B[:, 3].tolist()]
    if where != "completion":
        responses[1]["prompt_routed_experts"] = nothing
    if where != "prompt":
        responses[1]["choices"][0]["routed_experts"] = nothing
        expected[1] = A[:, 3].tolist()
    if where == "response":
        expected.pop()
    path = foreign.lines(tmp_path / "x.jsonl", responses)
    import_trace(path, tmp_path / "o")
    found = [t.experts.tolist() for t in read_routing_batches(tmp_path / "o", layer=3)]
    assert found == expected


def test_empty_parts_of_other_formats_are_left_out(tmp_path):
    records = [
        foreign.megatron_record(A[:, 0], 0, 0),
        foreign.megatron_record(A[:0, 0], 1, 0),
        foreign.megatron_record(B[:, 0], 1, 0),
    ]
    path = foreign.lines(tmp_path / "m.jsonl", records)
    assert summarize_routing(path).rows == 12
    responses = [foreign.sglang_generate(A[:0], prompt=1), foreign.sglang_generate(A)]
    path = foreign.lines(tmp_path / "s.jsonl", responses)
    found = summarize_routing(path, k=K)
    assert (found.rows, found.steps) == (32, 1)
    np.savez(tmp_path / "v.npz", prompt_routed_experts=A, routed_experts=A[:0])
    assert summarize_routing(tmp_path / "v.npz").rows == 32


@pytest.mark.parametrize(
    ("record", "options"),
    [
        (foreign.vllm_response(A[:0], A[:0]), {}),
        (foreign.megatron_record(A[:0, 0], 0, 0), {}),
        (foreign.sglang_generate(A[:0], prompt=1), {"k": K}),
    ],
    ids=["vllm", "megatron", "sglang"],
)
def test_a_trace_of_empty_parts_is_empty(tmp_path, record, options):
    path = foreign.lines(tmp_path / "x.jsonl", [record, record])
    assert refusal(path, **options) == (
        "FILE: the trace is empty, it has 0 rows, expected at least 1; record it again"
    )


def test_an_empty_record_that_counts_tokens_is_damaged(tmp_path):
    record = foreign.megatron_record(A[:, 0], 0, 0, top_indices=[])
    assert "`top_indices` has shape (0,), expected (8, 4)" in refusal(
        foreign.lines(tmp_path / "x.jsonl", [record])
    )
