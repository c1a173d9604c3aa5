"""Malformed foreign traces: what the message says, and that nothing is written."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.errors import OutputError, TraceError
from stepsim.trace_io import import_trace, summarize_routing
from stepsim.trace_io.formats import numpy as numpy_format
from tests.trace_io import foreign
from tests.trace_io.foreign import K, routing

A = routing(6)


def message(source: Path, **options) -> str:
    """The error of an import, without the name of the file; an old output is left alone."""
    out = source.parent / "out.parquet"
    out.write_text("old")
    with pytest.raises(TraceError) as caught:
        import_trace(source, out, **options)
    assert out.read_text() == "old"
    assert [p.name for p in source.parent.iterdir() if p.name.endswith(".tmp")] == []
    return str(caught.value).replace(str(source), "FILE")


def written(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(lines))
    return path


def changed(ids: np.ndarray, where: tuple[int, ...], value: int) -> np.ndarray:
    other = ids.astype(np.int64)
    other[where] = value
    return other


# --- NumPy


def test_numpy_values(tmp_path, monkeypatch):
    monkeypatch.setattr(numpy_format, "CHUNK_BYTES", 200)
    path = tmp_path / "x.npy"
    np.save(path, changed(A, (5, 1, 2), 99))
    assert message(path, experts=16) == (
        "FILE: row 5 (layer 1, step 0, token 5): expert id 99 is out of range; the model has 16 "
        "experts (ids 0..15); check that the trace belongs to this model"
    )
    np.save(path, changed(A, (4, 2, 0), 1 << 20))
    assert message(path) == (
        "FILE: row 4 (layer 2, step 0, token 4): expert id 1048576 is out of range, expected "
        "0..65535 when the number of experts is not given; give --experts, or check that these "
        "are expert ids"
    )
    np.save(path, changed(A, (3, 0, 1), int(A[3, 0, 0])))
    assert message(path).startswith("FILE: row 3 (layer 0, step 0, token 3): expert id ")
    np.save(path, A)
    assert "but the model chooses k = 2; check" in message(path, k=2)
    assert "has 3 layers (shape" in message(path, layers=2)


@pytest.mark.parametrize("at", [60, 128, 150, 250])
@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_numpy_cut_off(tmp_path, name, at):
    path = tmp_path / name
    (np.save if name == "x.npy" else np.savez)(path, A)
    path.write_bytes(path.read_bytes()[:at])
    text = message(path)
    assert text.startswith("FILE: the np")
    assert "truncated" in text


def test_numpy_shapes_and_types(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, A * 1.0)
    assert "FILE: expert ids are float64, expected integers" in message(path)
    np.save(path, A[:0])
    assert "FILE: the trace is empty, it has 0 tokens (shape (0, 3, 4))" in message(path)
    np.save(path, np.array([[1, None]], dtype=object), allow_pickle=True)
    assert "FILE: holds Python objects (object array), expected integers" in message(path)
    np.savez(tmp_path / "x.npz", experts=A, weights=np.ones((6, 3, 2)))
    assert "weights have shape (6, 3, 2), the expert ids (6, 3, 4)" in message(tmp_path / "x.npz")
    path.write_text("x")
    assert "FILE: is not a NumPy file (unknown first bytes), expected" in message(
        path, format="numpy"
    )


# --- JSON lines


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (
            '{"timestamp": 1, "inp',
            "line 2: is not JSON (Unterminated string starting at column 18), expected one "
            "object per line; the file may be cut off, correct or drop the line",
        ),
        (
            "[1, 2]",
            "line 2: is [1, 2], expected a JSON object or a list of them; correct or drop the line",
        ),
        ("7", "line 2: is 7, expected a JSON object or a list of them; correct or drop the line"),
        (
            '{"timestamp": 1, "output_length": 1, "hash_ids": []}',
            "line 2: has no field `input_length` (found `timestamp`, `output_length`, `hash_ids`), "
            "expected a whole number; check the format, or drop the line",
        ),
        (
            '{"timestamp": 900, "input_length": -4, "output_length": 1, "hash_ids": []}',
            "line 2: `input_length` is -4, expected a whole number from 0; "
            "correct or drop the line",
        ),
        (
            '{"timestamp": 900, "input_length": 4, "output_length": 1.5, "hash_ids": []}',
            "line 2: `output_length` is 1.5, expected a whole number from 0; "
            "correct or drop the line",
        ),
        (
            '{"timestamp": "x", "input_length": 4, "output_length": 1, "hash_ids": []}',
            "line 2: `timestamp` is 'x', expected milliseconds since the start of the trace; "
            "correct or drop the line",
        ),
        (
            '{"timestamp": 250, "input_length": 4, "output_length": 1, "hash_ids": []}',
            "line 2: the request arrives 0.250000 s before that of the line before, expected the "
            "order of arrival; sort the file by time",
        ),
        (
            '{"timestamp": 900, "input_length": 4, "output_length": 1}',
            "line 2: `hash_ids` is missing, but the first line has one; expected it in all lines "
            "or in none",
        ),
        (
            '{"timestamp": 900, "input_length": 4, "output_length": 1, "hash_ids": [1, "a"]}',
            "line 2: `hash_ids` is [1, 'a'], expected a list of whole numbers; correct or drop the "
            "line",
        ),
        (
            '{"timestamp": 900, "input_length": 4, "output_length": 1, "hash_ids": "\\ud800"}',
            r"line 2: `hash_ids` is '\ud800', expected a list of whole numbers; correct or drop "
            "the line",
        ),
    ],
)
def test_mooncake(tmp_path, second, says):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(foreign.MOONCAKE[0]) + "\n" + second + "\n")
    assert message(path) == f"FILE: {says}"


def test_numbers_beyond_their_columns(tmp_path):
    path = tmp_path / "x.jsonl"
    record = foreign.megatron_record(A[:, 0], 0, 0)
    for field in ("step", "layer", "rank", "num_tokens", "topk"):
        foreign.lines(path, [record | {field: 10**12}])
        least = 1 if field == "topk" else 0
        assert message(path) == (
            f"FILE: line 1: `{field}` is 1000000000000, expected a whole number from {least} to "
            "2147483647; correct or drop the line"
        )
    foreign.lines(path, [foreign.MOONCAKE[0] | {"input_length": 10**12}])
    assert import_trace(path, tmp_path / "o").rows == 1
    foreign.lines(path, [foreign.MOONCAKE[0] | {"input_length": 2**63}])
    assert "is 9223372036854775808, expected a whole number from 0 to 92233720" in message(path)


@pytest.mark.parametrize(
    ("begin", "line"),
    [("", 1), (json.dumps(foreign.vllm_response(A, A)) + '\n{"choices": ', 2), ("[\n{},\n", 1)],
)
def test_lists_nested_too_deep(tmp_path, begin, line):
    path = tmp_path / "x.jsonl"
    path.write_text(begin + "[" * 100_000 + "\n")
    assert message(path, format="vllm") == (
        f"FILE: line {line}: is not JSON (lists or objects are nested too deep), expected one "
        "object per line; the file may be cut off, correct or drop the line"
    )
    assert message(path).startswith("FILE: ")


# --- Azure


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "2023-11-16 18:15:51,3",
            "2 fields '2023-11-16 18:15:51,3', expected 3 in format `azure`; the",
        ),
        ("2023-11-16 18:15:51,-3,1", "`ContextTokens` is '-3', expected a whole number of tokens"),
        ("2023-11-16 18:15:51,3,", "`GeneratedTokens` is '', expected a whole number of tokens"),
        (
            "16.11.2023,3,1",
            "`TIMESTAMP` is '16.11.2023', expected a date and time in UTC such as 2023-",
        ),
        (
            ",3,1",
            "`TIMESTAMP` is '', expected a date and time in UTC such as 2023-11-16 18:15:46.68",
        ),
        ("2023-11-16 18:15:50,3,1", "the request arrives 0.995169 s before that of the line befor"),
    ],
)
def test_azure(tmp_path, line, says):
    path = tmp_path / "x.csv"
    path.write_text(f"{foreign.AZURE}{line}\n")
    assert message(path).startswith(f"FILE: line 4: {says}")


@pytest.mark.parametrize(
    "time",
    [
        "now",
        "today",
        "NaT",
        "2023",
        "2023-02-30 00:00:00",
        "2023-11-16 18:15:46+02:00",
        "2023-11-16 18:15:46 UTC",
        "1600-01-01 00:00:00",
    ],
)
def test_azure_times(tmp_path, time):
    path = tmp_path / "x.csv"
    path.write_text(f"{foreign.AZURE}{time},3,1\n")
    assert message(path) == (
        f"FILE: line 4: `TIMESTAMP` is '{time}', expected a date and time in UTC such as "
        "2023-11-16 18:15:46.6805900; correct or drop the line"
    )


def test_azure_header(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("TIMESTAMP,ContextTokens\n")
    assert message(path, format="azure") == (
        "FILE: line 1: has 0 columns `GeneratedTokens` (found `TIMESTAMP`, `ContextTokens`), "
        "expected one each of `TIMESTAMP`, `ContextTokens`, `GeneratedTokens`; check --format"
    )
    path.write_text(foreign.AZURE.splitlines()[0])
    assert message(path) == (
        "FILE: the trace is empty, it has 0 rows, expected at least 1; record it again"
    )


# --- vLLM


def test_vllm(tmp_path):
    path = tmp_path / "x.jsonl"

    def found(response, **options) -> str:
        return message(foreign.lines(path, [response]), format="vllm", **options)

    assert found({"choices": None}) == (
        "FILE: line 1: `choices` is NoneType, expected the list of completions of a vLLM response; "
        "check the format, or drop the line"
    )
    response = foreign.vllm_response(None, A)
    response["choices"][0]["routed_experts"] = None
    assert found(response).startswith(
        "FILE: line 1: `choices[0].routed_experts` is missing, expected [tokens, layers, k]; serve"
    )
    response["choices"][0]["routed_experts"] = [[[1, 2]], [[1]]]
    assert found(response) == (
        "FILE: line 1: `choices[0].routed_experts` has lists of different lengths, expected a "
        "regular nesting of [tokens, layers, k]; record it again"
    )
    response["choices"][0]["routed_experts"] = [[1, 2]]
    assert "`choices[0].routed_experts` has 2 dims, shape (1, 2), expected [tok" in found(response)
    response["choices"][0]["routed_experts"] = foreign.int32_base64(A)
    assert "is text, but not a .npy file in base64" in found(response)
    marked = foreign.vllm_response(changed(A, (slice(2, 4),), -1), A)
    assert found(marked) == (
        "FILE: line 1: token 2 of `prompt_routed_experts` is marked -1, its experts were not "
        "recorded (prefix cache); record without prefix caching, or use --drop-missing"
    )
    bad = foreign.vllm_response(None, changed(A, (4, 1, 0), 77))
    assert found(bad, experts=16).startswith(
        "FILE: line 1: row 4 (layer 1, step 0, token 4): expert id 77 is out of range; the model"
    )


def test_marks_in_any_format(tmp_path):
    ids = changed(A, (slice(2, 4),), -1)
    array, table, rows = (tmp_path / name for name in ("x.npy", "x.parquet", "y.parquet"))
    np.save(array, ids)
    pq.write_table(pa.table({"experts": ids.tolist()}), table)
    pq.write_table(pa.table({"experts": [ids.tolist()]}), rows)
    for path, source in ((array, "FILE"), (table, "FILE"), (rows, "FILE: row 0")):
        assert message(path) == (
            f"{source}: token 2 of `experts` is marked -1, its experts were not recorded (prefix "
            "cache); record without prefix caching, or use --drop-missing"
        )
        assert import_trace(path, tmp_path / "o", drop_missing=True).rows == 4 * A.shape[1]
    np.save(array, ids[:, 0])
    assert "FILE: token 2 of `experts` is marked -1, its" in message(array)
    assert import_trace(array, tmp_path / "o", drop_missing=True).rows == 4


def test_vllm_shapes(tmp_path):
    path = tmp_path / "x.npy"
    for value, dims in ((np.int64(3), 0), (np.arange(3), 1)):
        np.save(path, value)
        says = f"FILE: `routed_experts` has {dims} dims, shape {value.shape}, expected [tokens, lay"
        assert message(path, format="vllm").startswith(says)
    lines = tmp_path / "x.jsonl"
    for shape, what in (((3, 0, 2), "layers"), ((3, 2, 0), "experts per token")):
        says = f"has 0 {what} (shape {shape}), expected at least 1; record it again"
        np.save(path, np.empty(shape, np.int16))
        foreign.lines(lines, [foreign.vllm_base64_response(np.empty(shape, np.int16))])
        for drop in (False, True):
            assert says in message(path, format="vllm", drop_missing=drop)
            assert f"`choices[0].routed_experts` {says}" in message(lines, drop_missing=drop)


def npy_header(shape: tuple[int, ...], kind: str = "<i2") -> bytes:
    buffer = io.BytesIO()
    description = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, description)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (npy_header((10**12, 10, 10)) + bytes(8), "Unable to allocate"),
        (npy_header((-1, 1, 1)) + bytes(8), "negative dimensions"),
        (npy_header((1, 1, 1), "|O") + bytes(8), "Object arrays cannot be"),
        (npy_header((2, 2, 2)).replace(b"}", b")"), ""),
        (b"PK\x03\x04" + bytes(30), "magic string is not correct"),
        (b"", ""),
    ],
)
def test_vllm_base64_of_something_else(tmp_path, data, reason):
    text = base64.b64encode(data).decode()
    path = foreign.lines(tmp_path / "x", [{"choices": [{"routed_experts": text}]}])
    found = message(path, format="vllm")
    assert "FILE: line 1: `choices[0].routed_experts` is text, but not a .npy file in ba" in found
    assert reason in found


@pytest.mark.parametrize("order", ["C", "F"])
def test_vllm_base64_in_any_order(tmp_path, order):
    response = foreign.vllm_base64_response(np.asarray(A, order=order))
    empty = {"routed_experts": foreign.npy_base64(A[:0])}
    path = foreign.lines(tmp_path / "x", [response, {"choices": [empty]}])
    plain = foreign.lines(tmp_path / "y", [foreign.vllm_response(None, A)])
    first, second = (tmp_path / f"{name}.parquet" for name in "xy")
    import_trace(path, first)
    import_trace(plain, second)
    assert pq.read_table(first).equals(pq.read_table(second))


# --- SGLang


def test_sglang(tmp_path):
    path = tmp_path / "x.jsonl"

    def found(record, **options) -> str:
        return message(foreign.lines(path, [record]), format="sglang", **options)

    good = foreign.sglang_generate(A)
    assert found(good) == (
        "FILE: SGLang does not record the shape of the ids; give --k (experts per token) or --model"
    )
    assert found({"meta_info": {}}, k=K).startswith(
        "FILE: line 1: has no `meta_info.routed_experts` or `choices[i].sgl_ext.routed_experts`, "
    )
    assert found(good, k=5) == (
        "FILE: line 1: `meta_info.routed_experts` has 72 ids, expected a multiple of 6 tokens x "
        "k = 5; check --k, and give --layers if only a part of the tokens was asked for"
    )
    assert found(good, k=K, layers=7) == (
        "FILE: line 1: `meta_info.routed_experts` has 72 ids, expected a multiple of 7 layers x "
        "k = 4; check --layers and --k"
    )
    assert "has 18 tokens of 1 layers x k = 4, expected at most 6" in found(good, k=K, layers=1)
    good["meta_info"]["routed_experts"] = base64.b64encode(b"12345").decode()
    assert "has 5 bytes, expected a multiple of 4 (int32)" in found(good, k=K)
    good["meta_info"]["routed_experts"] = "%%"
    assert "`meta_info.routed_experts` is not base64 (" in found(good, k=K)
    good["meta_info"]["routed_experts"] = [[[1]]]
    assert "is list, expected base64 of int32; nested lists come from vLLM" in found(good, k=K)
    nothing = {"choices": [{"routed_experts": foreign.int32_base64(A)}]}
    assert "the response does not report the number of its tokens" in found(nothing, k=K)


# --- Megatron-Core


def test_megatron(tmp_path):
    path = tmp_path / "x.jsonl"
    good = foreign.megatron_record(A[:, 0], 3, 1)

    def found(**more) -> str:
        record = {k: v for k, v in (good | more).items() if v != "gone"}
        return message(foreign.lines(path, [good, record]), format="megatron")

    assert found(step=2) == (
        "FILE: line 2: `step` is 2, expected at least 3, the step of an earlier line; sort the "
        "file by step"
    )
    assert found(layer=True) == (
        "FILE: line 2: `layer` is true, expected a whole number from 0; correct or drop the line"
    )
    assert found(num_tokens=5) == (
        "FILE: line 2: `top_indices` has shape (6, 4), expected (5, 4) by `num_tokens` and "
        "`topk`; the record is damaged, drop the line"
    )
    assert found(top_indices="gone").startswith("FILE: line 2: has no field `top_indices`, exp")
    assert found(rank="gone").startswith("FILE: line 2: has no field `rank` (found `step`, ")
    twice = changed(A[:, 0], (2, 1), int(A[2, 0, 0])).tolist()
    # The row is that of the record, the token that of the step: six came with line 1.
    assert found(top_indices=twice).startswith(
        f"FILE: line 2: row 2 (layer 1, step 3, token 8): expert id {A[2, 0, 0]} occurs more than"
    )
    narrow = foreign.megatron_record(A[:, 0, :2], 3, 2)
    assert message(foreign.lines(path, [good, narrow])) == (
        "FILE: k is 2 and weights are missing in layer 2, step 3, but k is 4 and weights are "
        "missing before; one trace has one k, and weights for all tokens or for none"
    )
    (tmp_path / "empty").mkdir()
    assert message(tmp_path / "empty", format="megatron").startswith(
        "FILE: the folder has no files router_trace_rank*.jsonl; name the folder"
    )


# --- llama.cpp


def test_llamacpp(tmp_path):
    path = tmp_path / "x.csv"
    for text, says in (
        (
            "layer,expert\n0,1\n0,x\n",
            "line 3: the expert is 'x', expected a whole number that fits int32; correct or",
        ),
        (
            "layer,expert\n0,1\n0,1,2\n",
            "line 3: 3 fields '0,1,2', expected 2 in format `llamacpp`; the file may be cut off",
        ),
        (
            "layer,expert\n0,1\n-1,2\n",
            "line 3: the layer is '-1', expected a whole number that fits int32; correct or",
        ),
        ("layer,expert\n", "the trace is empty, it has 0 rows; record it again"),
    ):
        path.write_text(text)
        assert message(path).startswith(f"FILE: {says}")
    path.write_text("layer,expert\n0,1\n0,2\n0,3\n1,4\n1,5\n")
    assert message(path, k=2) == (
        "FILE: line 4: layer 0 ends after 1 of the 2 experts of a token; check --k, or the file "
        "is cut off"
    )
    path.write_text("layer,expert\n0,1\n0,2\n0,1\n0,3\n")
    text = message(path)
    assert text.startswith("FILE: lines 2..5: row 0 (layer 0, step 0, token 0): expert id 1 occ")
    assert text.endswith("(k = 4 was inferred from the lengths of the runs; if the model chooses "
                         "a different number, give --k)")  # fmt: skip
    path.write_text("layer,expert\n0,1\n0,-2\n")
    assert "expert id -2 is out of range" in message(path, k=2)


def test_llamacpp_cut_off(tmp_path):
    path = tmp_path / "x.csv"
    whole = foreign.llamacpp_text([A, A[:1], A[:1]]).splitlines(keepends=True)
    assert summarize_routing(written(path, whole)).k == K
    # Without the last rows the greatest common divisor is 1 or 2.
    for missing, first, left in ((1, 94, 3), (2, 94, 2)):
        assert message(written(path, whole[:-missing])) == (
            f"FILE: line {first}: the last run of rows, of layer 2, has {left} rows, expected a "
            "multiple of 4 like those before it, so k is not known; if the file is cut off, drop "
            "the rows of this run, otherwise give --k"
        )
        assert "line 94: layer 2 ends after" in message(path, k=K)
    assert message(written(path, [*whole[:30], *whole[31:]])) == (
        "FILE: the lengths of the runs of a layer have no common divisor, expected multiples of "
        "k; rows may be missing, or give --k 1 (runs have 4 rows or more)"
    )


def test_llamacpp_with_one_expert_per_token(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(foreign.llamacpp_text([A[:, :, :1], A[:1, :, :1]]))
    assert summarize_routing(path).k == 1
    path.write_text(foreign.llamacpp_text([A[:, :, :1], A[:5, :, :1]]))
    assert "or give --k 1 (runs have 5 rows or more)" in message(path)
    assert summarize_routing(path, k=1).rows == 33


@pytest.mark.parametrize("line", [f"{2**31},1", f"1,{2**31}", f"1,{10**30}"])
def test_llamacpp_numbers_beyond_int32(tmp_path, line):
    path = tmp_path / "x.csv"
    path.write_text(f"layer,expert\n{line}\n")
    wrong = max(line.split(","), key=int)
    assert f" is '{wrong}', expected a whole number that fits int32" in message(path, k=1)


# --- Parquet


def test_parquet(tmp_path):
    path = tmp_path / "x.parquet"

    def found(columns, **options) -> str:
        pq.write_table(pa.table(columns), path)
        return message(path, format="parquet", **options)

    ids = A[:, 0].tolist()
    assert found({"a": ids, "b": ids, "c": [0] * 6}) == (
        "FILE: has 2 columns of lists of integers (`a`, `b`; all columns: `a`, `b`, `c`), expected "
        "one with the experts of each token; choose it with --column"
    )
    assert found({"a": ids, "c": [0] * 6}, column="c") == (
        "FILE: column `c` is int64, expected lists of integers, nested up to 3 deep; columns of "
        "lists are: `a`"
    )
    assert "column `d` is not there, expected" in found({"a": ids}, column="d")
    assert found({"experts": ids, "token": [0, 1, 2, 4, 5, 6]}) == (
        "FILE: row 3: token is 4, expected 3, the next of its layer and step; sort the file by "
        "(step, layer, token), or leave the column out to take the rows as they are"
    )
    assert "row 5 (layer 0, step 0, token 5): `experts` has 2 values, but row 0 has 4" in found(
        {"experts": [*ids[:5], [1, 2]]}
    )
    assert "`experts` has lists of 3 and 4 values in one column, expected equal" in found(
        {"experts": [[[1, 2, 3, 4]], [[1, 2, 3]]]}
    )
    assert "`experts` holds null, expected a list" in found({"experts": [[[1, 2]], [None]]})
    assert "`experts` holds null, expected expert ids" in found({"experts": [[[1, None]]]})


def test_parquet_rows_keep_their_number_over_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("stepsim.trace_io.formats.parquet._BATCH_ROWS", {1: 2, 2: 2, 3: 1})
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"experts": changed(A[:, 0], (5, 1), 99).tolist()}), path)
    assert message(path, experts=16).startswith("FILE: row 5 (layer 0, step 0, token 5): expert")
    pq.write_table(pa.table({"experts": changed(A, (5, 2, 1), 99).tolist()}), path)
    assert message(path, experts=16).startswith("FILE: row 5 (layer 2, step 0, token 5): expert")
    pq.write_table(pa.table({"experts": A[:, 0].tolist(), "step": [0, 0, 1, 1, 0, 0]}), path)
    assert message(path) == (
        "FILE: row 4: step 0 follows step 1 of the same layer, expected the order of step and "
        "token; sort the file by (step, layer, token)"
    )


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", A)

    def full(self, table, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(OutputError, match=r"cannot write .*: No space left"):
        import_trace(tmp_path / "x.npy", tmp_path / "out.parquet")
    assert [p.name for p in tmp_path.iterdir()] == ["x.npy"]


def test_half_a_surrogate_pair_is_shown_by_its_number(tmp_path):
    record = '{"timestamp": 0, "input_length": "\\ud800", "output_length": 1, "hash_ids": []}\n'
    text = message(written(tmp_path / "x.jsonl", [record]))
    assert '`input_length` is "\\ud800", expected a whole number from 0' in text
    record = '{"timestamp": 0, "\\ud800": 1, "output_length": 1}\n'
    text = message(written(tmp_path / "x.jsonl", [record]), format="mooncake")
    assert "(found `timestamp`, `\\ud800`, `output_length`)" in text


def test_many_fields_are_not_all_listed(tmp_path):
    record = {f"field{number}": 0 for number in range(5000)} | {"timestamp": 0}
    text = message(foreign.lines(tmp_path / "x.jsonl", [record]), format="megatron")
    assert "`field19` and 4981 more)" in text


def test_a_wrong_line_that_is_no_utf_8(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"layer,expert\n0,1\n0,\xff,2\n")
    # A warning of an exception that nobody sees would be an error here.
    assert message(path, k=1).startswith("FILE: line 3: 3 fields")


def test_a_single_value_that_is_no_number(tmp_path):
    record = '{"choices": [{"routed_experts": NaN}]}\n'
    text = message(written(tmp_path / "x.jsonl", [record]), format="vllm")
    assert "are float64, expected integers (row 0 holds nan)" in text
