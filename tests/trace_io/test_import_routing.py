"""Import of expert routing: what went in comes out of the Parquet file, for every format."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from stepsim.errors import ArgError, TraceError
from stepsim.trace_io import (
    import_trace,
    read_origin,
    read_routing,
    read_routing_batches,
    routing_schema,
    summarize_routing,
    synthetic_routing,
    write_routing,
)
from stepsim.trace_io.formats import numpy as numpy_format
from tests.property_profile import profile
from tests.trace_io import foreign
from tests.trace_io.foreign import EXPERTS, LAYERS, K, routing

A, B, C = routing(11, 1), routing(7, 2), routing(1, 3)


def imported(source: Path, **options) -> dict[tuple[int, int], np.ndarray]:
    """The ids by (layer, step) of what an import wrote; they begin at token 0."""
    out = source.parent / "out.parquet"
    summary = import_trace(source, out, **options)
    tables = list(read_routing_batches(out))
    assert all(table.first_token == 0 for table in tables)
    assert sum(table.tokens for table in tables) == summary.rows == summary.routing.rows
    schema, wanted = pq.read_schema(out), routing_schema(tables[0].k)
    assert schema.equals(wanted)
    assert {key: schema.metadata[key] for key in wanted.metadata} == wanted.metadata
    given = {key: options[key] for key in ("experts",) if key in options}
    assert read_origin(out) == {"format": summary.format, **given}
    again = summarize_routing(out, experts=options.get("experts"))
    loads = [layer.counts.tolist() for layer in summary.routing.layers]
    assert [layer.counts.tolist() for layer in again.layers] == loads
    assert np.sum(loads) == sum(table.experts.size for table in tables)
    return {(table.layer, table.step): table.experts for table in tables}


def by_step(*steps: np.ndarray) -> dict[tuple[int, int], list]:
    return {
        (layer, step): ids[:, layer].tolist()
        for step, ids in enumerate(steps)
        for layer in range(ids.shape[1])
    }


def check(found, *steps: np.ndarray) -> None:
    assert {key: ids.tolist() for key, ids in found.items()} == by_step(*steps)


# --- NumPy


@pytest.mark.parametrize("dtype", [np.int16, np.uint8, np.int64, ">i4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numpy(tmp_path, dtype, order):
    ids = np.asarray(A, dtype=dtype, order=order)
    np.save(tmp_path / "x.npy", ids)
    check(imported(tmp_path / "x.npy"), A)
    np.savez_compressed(tmp_path / "x.npz", data=ids)
    check(imported(tmp_path / "x.npz"), A)
    np.save(tmp_path / "flat.npy", ids[:, 0])
    check(imported(tmp_path / "flat.npy"), A[:, :1])


@profile(25)
@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 900))
def test_pieces_of_any_size(tmp_path_factory, tokens, layers, size):
    ids = routing(tokens, layers=layers)
    path = tmp_path_factory.mktemp("n") / "x.npy"
    np.save(path, ids)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_format, "CHUNK_BYTES", size)
        check(imported(path), ids)


def test_weights_come_along(tmp_path, monkeypatch):
    monkeypatch.setattr(numpy_format, "CHUNK_BYTES", 100)
    weights = np.random.default_rng(0).random(A.shape)
    np.savez(tmp_path / "x.npz", experts=A, weights=weights)
    import_trace(tmp_path / "x.npz", tmp_path / "out", model="m", experts=EXPERTS, k=K)
    for layer in range(LAYERS):
        table = read_routing(tmp_path / "out", layer=layer)
        assert table.experts.tolist() == A[:, layer].tolist()
        assert table.weights.tolist() == weights[:, layer].astype(np.float32).tolist()
        assert table.model == "m"


def test_missing_tokens_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(numpy_format, "CHUNK_BYTES", 100)
    marked = A.copy()
    marked[[0, 1, 2, 3, 7]] = -1
    np.save(tmp_path / "x.npy", marked)
    check(imported(tmp_path / "x.npy", drop_missing=True), np.delete(A, [0, 1, 2, 3, 7], axis=0))
    check(
        imported(tmp_path / "x.npy", drop_missing=True, format="vllm"),
        np.delete(A, [0, 1, 2, 3, 7], axis=0),
    )


def test_missing_tokens_are_left_out_over_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("stepsim.trace_io.formats.parquet._BATCH_ROWS", {1: 3, 2: 3, 3: 1})
    marked = A.copy()
    marked[[0, 1, 4]] = -1
    pq.write_table(pa.table({"experts": marked.tolist()}), tmp_path / "x.parquet")
    check(imported(tmp_path / "x.parquet", drop_missing=True), np.delete(A, [0, 1, 4], axis=0))


# --- vLLM


def test_vllm_arrays(tmp_path):
    np.save(tmp_path / "x.npy", A)
    check(imported(tmp_path / "x.npy", format="vllm"), A)
    np.savez(tmp_path / "x.npz", routed_experts=B, prompt_routed_experts=A, token_ids=[1])
    check(imported(tmp_path / "x.npz"), np.concatenate([A, B]))
    np.savez(tmp_path / "y.npz", routed_experts=B)
    check(imported(tmp_path / "y.npz"), B)


def test_vllm_responses(tmp_path):
    path = foreign.lines(
        tmp_path / "x.jsonl",
        [
            foreign.vllm_response(A, B, C),
            foreign.vllm_response(None, C),
            foreign.vllm_base64_response(A),
        ],
    )
    check(imported(path), np.concatenate([A, B]), C, C, A)


@pytest.mark.parametrize("indent", [None, 2])
def test_one_response_is_one_document(tmp_path, indent):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(foreign.vllm_response(A, B), indent=indent))
    check(imported(path), np.concatenate([A, B]))
    path.write_text(json.dumps([foreign.vllm_response(A, B)] * 2, indent=1))
    check(imported(path), np.concatenate([A, B]), np.concatenate([A, B]))


def test_vllm_marks_can_be_left_out(tmp_path):
    marked = A.copy()
    marked[:4] = -1
    response = foreign.vllm_response(marked, B)
    response["choices"].append({"index": 1, "routed_experts": None})
    path = foreign.lines(tmp_path / "x.jsonl", [response, foreign.vllm_response(None, C)])
    out = tmp_path / "out"
    summary = import_trace(path, out, drop_missing=True)
    assert summary.notes == ("line 1: choices[1] has no routed_experts",)
    assert read_routing(out, layer=1, step=0).experts.tolist() == (
        np.concatenate([A[4:], B])[:, 1].tolist()
    )
    assert read_routing(out, layer=1, step=1).experts.tolist() == C[:, 1].tolist()


# --- SGLang


def test_sglang(tmp_path):
    records = [foreign.sglang_generate(A), foreign.sglang_openai(B)]
    path = foreign.lines(tmp_path / "x.jsonl", records)
    check(imported(path, k=K), A, B)
    check(imported(path, k=K, layers=LAYERS), A, B)


@pytest.mark.parametrize("whole", [False, True], ids=["a line per batch", "one line"])
def test_sglang_batches(tmp_path, whole):
    """The answer to a list of prompts is a list of responses."""
    first, second, third = map(foreign.sglang_generate, (A, B, C))
    batches = [[first, second, third]] if whole else [[first, second], third, [], [first]]
    path = foreign.lines(tmp_path / "x.jsonl", batches)
    check(imported(path, k=K), A, B, C, *([] if whole else [A]))


def test_sglang_part_of_the_tokens(tmp_path):
    """With routed_experts_start_len fewer tokens than counted come; layers must then be given."""
    record = foreign.sglang_generate(A)
    record["meta_info"]["routed_experts"] = foreign.int32_base64(A[4:])
    path = foreign.lines(tmp_path / "x.jsonl", [record])
    check(imported(path, k=K, layers=LAYERS), A[4:])


def test_sglang_choices(tmp_path):
    choices = [{"routed_experts": foreign.int32_base64(ids)} for ids in (A, B)]
    path = foreign.lines(tmp_path / "x.jsonl", [{"choices": choices}])
    check(imported(path, k=K, layers=LAYERS), A, B)


# --- Megatron-Core


def megatron_folder(folder: Path) -> Path:
    """Two ranks; layer 5 of step 0 has two micro-batches on rank 1, step 2 is on rank 1 only."""
    record = foreign.megatron_record
    foreign.lines(
        folder / "router_trace_rank0.jsonl",
        [record(A[:, 0], 0, 3), record(A[:, 1], 0, 5), record(B[:, 0], 1, 3)],
    )
    foreign.lines(
        folder / "router_trace_rank10.jsonl",
        [
            record(B[:, 1], 0, 3, 10),
            record(B[:, 2], 0, 5, 10),
            record(C[:, 0], 0, 5, 10),
            record(C[:, 1], 0, 0, 10, block="mtp", mtp_idx=0),
            record(C[:, 2], 2, 3, 10),
        ],
    )
    (folder / "hidden_states_rank0.bin").write_bytes(b"x")
    return folder


def test_megatron_folder(tmp_path):
    (tmp_path / "t").mkdir()
    folder = megatron_folder(tmp_path / "t")
    out = tmp_path / "out"
    summary = import_trace(folder, out)
    assert summary.notes == ("skipped 1 records of blocks other than the decoder",)
    found = {(t.layer, t.step): t.experts.tolist() for t in read_routing_batches(out)}
    assert found == {
        (3, 0): [*A[:, 0].tolist(), *B[:, 1].tolist()],
        (5, 0): [*A[:, 1].tolist(), *B[:, 2].tolist(), *C[:, 0].tolist()],
        (3, 1): B[:, 0].tolist(),
        (3, 2): C[:, 2].tolist(),
    }
    assert (summary.routing.steps, len(summary.routing.layers)) == (3, 2)


def test_megatron_ranks_with_the_same_records(tmp_path):
    for rank, ids in ((0, A), (1, A), (2, B), (3, B), (10, C)):
        foreign.lines(
            tmp_path / f"router_trace_rank{rank}.jsonl",
            [foreign.megatron_record(ids[:, 0], step, 1, rank) for step in range(2)],
        )
    summary = import_trace(tmp_path, tmp_path / "out")
    assert summary.rows == 4 * len(A) + 4 * len(B) + 2 * len(C)
    assert summary.notes == (
        "some ranks have the same records (0, 1; 2, 3), as the ranks of a tensor-parallel group "
        "do: "
        "their tokens are counted several times; read one of each with --rank 0 --rank 2 --rank 10",
    )
    summary = import_trace(tmp_path, tmp_path / "out", ranks=[10, 2, 0])
    assert (summary.rows, summary.notes) == (2 * (len(A) + len(B) + len(C)), ())
    assert read_routing(tmp_path / "out", step=1).experts.tolist() == [
        *A[:, 0].tolist(), *B[:, 0].tolist(), *C[:, 0].tolist()
    ]  # fmt: skip
    assert summarize_routing(tmp_path, ranks=[1]).rows == 2 * len(A)


@pytest.mark.parametrize("other", [{"step": 1}, {"layer": 2}, {"top_indices": B[:, 1].tolist()}])
def test_megatron_ranks_that_differ_are_no_replicas(tmp_path, other):
    record = foreign.megatron_record(B[:, 0], 0, 1)
    foreign.lines(tmp_path / "router_trace_rank0.jsonl", [record])
    foreign.lines(tmp_path / "router_trace_rank1.jsonl", [record | {"rank": 1} | other])
    assert import_trace(tmp_path, tmp_path / "out").notes == ()


def test_megatron_ranks_that_are_not_there(tmp_path):
    path = foreign.lines(
        tmp_path / "router_trace_rank3.jsonl", [foreign.megatron_record(A[:, 0], 0, 1, 3)]
    )
    with pytest.raises(TraceError) as caught:
        import_trace(tmp_path, tmp_path / "out", ranks=[4])
    assert str(caught.value) == (
        f"{tmp_path}: has no file of rank 4 (found ranks 3); choose others with --rank"
    )
    with pytest.raises(ArgError, match=r"but this is not one; leave --rank \(ranks=\) out"):
        import_trace(path, tmp_path / "out", ranks=[3])


def test_megatron_file_without_block(tmp_path):
    record = foreign.megatron_record(A[:, 0], 4, 1)
    del record["block"], record["stage"]
    path = foreign.lines(tmp_path / "x.jsonl", [record])
    assert imported(path)[1, 4].tolist() == A[:, 0].tolist()


# --- llama.cpp


@pytest.mark.parametrize("header", [True, False])
def test_llamacpp(tmp_path, header):
    path = tmp_path / "x.csv"
    path.write_text(foreign.llamacpp_text([A, C, B], header))
    check(imported(path, k=K), A, C, B)
    # A pass with a single token shows k.
    check(imported(path), A, C, B)
    note = f"k = {K}, from the lengths of the runs of a layer; --k overrides it"
    found = import_trace(path, tmp_path / "o").notes
    assert found[0] == note
    assert [text.split(" are")[0] for text in found[1:]] == (
        [] if header else ["the file has no header, so its two columns"]
    )


@pytest.mark.parametrize("header", ["layer, expert", " layer ,expert ", '"layer","expert"'])
def test_llamacpp_header_as_csv_has_it(tmp_path, header):
    path = tmp_path / "x.csv"
    path.write_text(foreign.llamacpp_text([A, C, B]).replace("layer,expert", header))
    check(imported(path), A, C, B)


def test_llamacpp_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("stepsim.trace_io.sources.text._BLOCK_BYTES", 30)
    path = tmp_path / "x.csv"
    path.write_text(foreign.llamacpp_text([A, C, B]))
    check(imported(path), A, C, B)


def test_llamacpp_last_layer_of_a_prompt_may_have_fewer_tokens(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(
        foreign.llamacpp_text([A[:, :2]])
        + "".join(f"2,{expert}\n" for expert in A[-1, 2])
        + foreign.llamacpp_text([C], header=False)
    )
    found = imported(path)
    assert found[1, 0].tolist() == A[:, 1].tolist()
    assert found[2, 0].tolist() == A[-1:, 2].tolist()
    assert found[2, 1].tolist() == C[:, 2].tolist()


# --- Parquet


@pytest.mark.parametrize("name", ["experts", "selected_experts", "anything"])
def test_parquet_of_tokens(tmp_path, name):
    path = tmp_path / "x.parquet"
    table = pa.table({"text": ["x"] * len(A), name: A[:, 0].tolist()})
    pq.write_table(table, path)
    check(imported(path), A[:, :1])


def test_parquet_of_token_layers_and_of_sequences(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"experts": A.tolist()}), path)
    check(imported(path), A)
    fixed = pa.array(A.tolist(), pa.list_(pa.list_(pa.int32(), K), LAYERS))
    pq.write_table(pa.table({"experts": fixed}), path)
    check(imported(path), A)
    pq.write_table(pa.table({"id": ["a", "b"], "experts": [A.tolist(), B.tolist()]}), path)
    check(imported(path), A, B)


def test_parquet_column_is_chosen(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": A[:, 0].tolist(), "b": A[:, 1].tolist()}), path)
    check(imported(path, column="b"), A[:, 1:2])


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_our_own_files_in_pieces(tmp_path, monkeypatch, batch):
    tables = [
        synthetic_routing(9, 16, 4, seed=0, layer=layer, step=step, model="m")
        for step in range(3)
        for layer in range(2)
    ]
    write_routing(tables, tmp_path / "x.parquet")
    rows = {1: batch, 2: batch, 3: 1}
    monkeypatch.setattr("stepsim.trace_io.formats.parquet._BATCH_ROWS", rows)
    import_trace(tmp_path / "x.parquet", tmp_path / "out")
    assert set(read_routing_batches(tmp_path / "out")) == set(tables)


@pytest.mark.parametrize("stream", [True, False])
def test_arrow_files(tmp_path, stream):
    tables = [synthetic_routing(9, 16, 4, seed=0, layer=layer) for layer in range(2)]
    table = pa.concat_tables([t.to_arrow() for t in tables])
    path = tmp_path / "x.arrow"
    opener = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as out, opener(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=4)
    import_trace(path, tmp_path / "out")
    assert set(read_routing_batches(tmp_path / "out")) == set(tables)


# --- summaries and progress


def test_the_summary_of_known_loads(tmp_path):
    ids = np.array([[[0, 1], [3, 2]], [[0, 2], [3, 0]], [[0, 1], [3, 1]]])
    np.save(tmp_path / "x.npy", ids)
    summary = import_trace(tmp_path / "x.npy", tmp_path / "out", experts=4).routing
    first, second = summary.layers
    assert (first.counts.tolist(), second.counts.tolist()) == ([3, 2, 1, 0], [1, 1, 1, 3])
    assert (first.idle, first.max, first.mean, first.imbalance) == (1, 3, 1.5, 2.0)
    assert first.cv == pytest.approx(np.std([3, 2, 1, 0]) / 1.5)
    assert (summary.tokens, summary.rows, summary.steps, summary.k) == (3, 6, 1, 2)
    assert (summary.experts, summary.idle, summary.worst.layer) == (4, 1, 0)
    assert summary.mean_imbalance == 2.0
    unknown = summarize_routing(tmp_path / "x.npy", layer=0)
    assert (unknown.experts, len(unknown.layers)) == (4, 1)


def test_progress_reaches_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(numpy_format, "CHUNK_BYTES", 60)
    np.save(tmp_path / "x.npy", A)
    seen = []
    import_trace(tmp_path / "x.npy", tmp_path / "out", progress=seen.append)
    done = [state.bytes_done for state in seen]
    assert done == sorted(done)
    assert len(done) > 2
    assert A.nbytes <= done[-1] <= seen[-1].bytes_total == (tmp_path / "x.npy").stat().st_size
    assert seen[-1].rows == A.shape[0] * LAYERS
