"""Bad input: what the message says."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from stepsim.errors import ArgError, TraceError
from stepsim.trace_io import (
    is_routing_table,
    load_requests,
    read_kv_lengths,
    read_routing,
    read_routing_batches,
    routing_parts,
    summarize_routing,
    synthetic_routing,
)
from tests.property_profile import profile

TABLE = synthetic_routing(40, 128, 8, seed=0, layer=3, model="qwen")


def message(source, **options) -> str:
    with pytest.raises(TraceError) as caught:
        read_routing(source, **options)
    return str(caught.value)


def changed(row: int, slot: int, value: int) -> pa.Table:
    """TABLE with one expert id changed, rows reversed so that row and token differ."""
    ids = TABLE.experts.copy()
    ids[row, slot] = value
    arrow = (
        TABLE.to_arrow().drop_columns("experts").append_column("experts", pa.array(ids.tolist()))
    )
    return arrow.take(pa.array(range(39, -1, -1)))


# --- values


def test_id_out_of_range(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(changed(17, 2, 130), path)
    assert message(path, experts=128, owner="mixtral") == (
        f"{path}: row 22 (layer 3, step 0, token 17): expert id 130 is out of range; model "
        "'mixtral' has 128 experts (ids 0..127); check that the trace belongs to this model"
    )
    assert read_routing(path, experts=131).experts[17, 2] == 130


OUT = "is out of range"
IDS = TABLE.experts.astype(np.int64)


@pytest.mark.parametrize(
    ("ids", "options", "says"),
    [
        (
            [[0, 1], [2, 0], [1, 3], [4, 5]],
            {"experts": 2},
            f"row 1 (layer 0, step 0, token 1): expert id 2 {OUT} (and in 2 more rows); the "
            "model has 2 experts (ids 0..1); check that the trace belongs to this model",
        ),
        ([[0, 1], [3, 1]], {"experts": 3}, f"row 1 (layer 0, step 0, token 1): expert id 3 {OUT};"),
        (
            [[1, 2], [3, 2**31]],
            {},
            f"row 1 (layer 0, step 0, token 1): expert id {2**31} {OUT}; id",
        ),
        ([[1, 2], [3, 2**32 + 1]], {}, f"row 1 (layer 0, step 0, token 1): expert id {2**32 + 1}"),
        (
            np.array([[2**64 - 1]], np.uint64),
            {},
            f"row 0 (layer 0, step 0, token 0): expert id {2**64 - 1}",
        ),
        (IDS, {"experts": 4}, "8 experts per token, but the model has only 4 experts; check that"),
        (
            IDS,
            {"k": 4},
            "8 experts per token (layer 0, step 0), but the model chooses k = 4; check",
        ),
        (IDS, {"tokens": 64}, "40 tokens (layer 0, step 0), expected 64; the recorder may have"),
        (
            np.zeros((3, 0), dtype=int),
            {},
            "tokens have 0 experts (shape (3, 0)), expected at least",
        ),
        (
            np.int32(0),
            {},
            "expert ids have 0 dims, shape (), expected [tokens, k]; choose one layer",
        ),
        (
            [0, 1],
            {},
            "expert ids have 1 dims, shape (2,), expected [tokens, k]; for one expert per",
        ),
        ([[[[0]]]], {}, "expert ids have 4 dims, shape (1, 1, 1, 1), expected [tokens, k]; choose"),
        (
            np.zeros((2, 0, 1), int),
            {},
            "has no layer 0, its shape (2, 0, 1) is read as [tokens, la",
        ),
        (np.ones((2, 2)), {}, "expert ids are float64, expected integers; drop missing values, th"),
        (
            [[1.0], [np.nan]],
            {},
            "expert ids are float64, expected integers (row 1 holds nan); drop",
        ),
        (np.ones((2, 2), np.float16), {}, "expert ids are float16, expected integers"),
        (
            [[True]],
            {},
            "expert ids are bool, expected integers; a mask is not a table of ids, conv",
        ),
        ([[1, None]], {}, "expert ids are object, expected integers; rows of different lengths or"),
        ([["1", "2"]], {}, "expert ids are <U1, expected integers; convert them"),
        (np.ones((2, 2, 2)), {}, "expert ids are float64, expected integers"),
        (np.zeros(2, "datetime64[s]"), {}, "expert ids are datetime64[s], expected integers"),
        (np.ma.masked_equal(IDS, IDS[0, 0]), {}, "expert ids are masked at "),
    ],
)
def test_arrays(ids, options, says):
    assert message(np.asanyarray(ids), **options).startswith(f"array: {says}")


def test_a_mask_that_hides_nothing():
    assert read_routing(np.ma.array(IDS)).experts.tolist() == IDS.tolist()


LISTS = [[1], [2]]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (
            {"experts": [[1, 2], [3, 4], [5]]},
            "row 2 (layer 0, step 0, token 2): `experts` has 1 val",
        ),
        (
            {"experts": [[1], [-1]]},
            "row 1 (layer 0, step 0, token 1): expert id -1 is out of range",
        ),
        (
            {"experts": pa.array([[1], [2**40]])},
            f"row 1 (layer 0, step 0, token 1): expert id {2**40}",
        ),
        (
            {"experts": pa.array([[None]] * 2, pa.list_(pa.null()))},
            "row 0 (layer 0, step 0, token 0): `experts` has a null in slot 0",
        ),
        (
            {"experts": pa.array([[None]] * 2, pa.large_list(pa.null()))},
            "row 0 (layer 0, step 0, token 0): `experts` has a null in slot 0",
        ),
        (
            {"experts": LISTS, "weights": LISTS},
            "column `weights` is list<item: int64>, expected a list of floats (gate weights)",
        ),
        ({"experts": LISTS, "model": [1, 2]}, "column `model` is int64, expected text; cast it"),
        (
            {"token": pa.chunked_array([[0], [None]], pa.int64()), "experts": LISTS},
            "row 1: `token` is null, expected an index",
        ),
        (
            {"token": [0], "expert": [1]},
            "has no column `experts` (found `token`, `expert`), expected one with the list",
        ),
    ],
)
def test_tables(columns, says):
    assert message(pa.table(columns)).startswith(f"pyarrow.lib.Table: {says}")


def test_negative_ids_mark_padding():
    text = message(changed(0, 7, -1), experts=128)
    assert "row 39 (layer 3, step 0, token 0): expert id -1 is out of range; " in text
    assert text.endswith("negative ids often mark padding, drop these tokens")


def test_duplicate_expert(tmp_path):
    path = tmp_path / "x.parquet"
    taken = int(TABLE.experts[5, 0])
    pq.write_table(changed(5, 7, taken), path)
    listed = [*TABLE.experts[5, :7].tolist(), taken]
    assert message(path, experts=128) == (
        f"{path}: row 34 (layer 3, step 0, token 5): expert id {taken} occurs more than once in "
        f"{listed}; a token chooses each expert at most once, record the trace again or drop the "
        "token"
    )


@profile(40)
@given(st.data())
def test_one_bad_value_anywhere_is_found(data):
    ids = TABLE.experts.astype(np.int64)
    row, slot = data.draw(st.integers(0, 39)), data.draw(st.integers(0, 7))
    other = data.draw(st.integers(0, 7).filter(lambda i: i != slot))
    bad = data.draw(st.sampled_from([-5, 128, 2**40, int(ids[row, other])]))
    ids[row, slot] = bad
    text = message(ids, experts=128)
    assert text.startswith(f"array: row {row} (layer 0, step 0, token {row}): expert id {bad} ")


@pytest.mark.parametrize(("value", "shown"), [(np.nan, "nan"), (np.inf, "inf"), (1e39, "1e+39")])
def test_weight_not_finite(tmp_path, value, shown):
    weights = np.ones((40, 8))
    weights[4, 1] = value
    np.savez(tmp_path / "x.npz", experts=TABLE.experts, weights=weights)
    text = message(tmp_path / "x.npz")
    assert f"row 4 (layer 0, step 0, token 4): weight {shown} in slot 1 is not a finite" in text


def test_weights_that_do_not_fit(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, experts=TABLE.experts, weights=np.ones((40, 7)))
    assert "weights have shape (40, 7), the expert ids (40, 8)" in message(path)
    np.savez(path, experts=TABLE.experts, weights=np.ones((40, 8), dtype=np.int32))
    assert "weights are int32, expected floating point" in message(path)


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.npy", "x.npz"])
def test_empty_trace(tmp_path, name):
    path = tmp_path / name
    empty = TABLE.to_arrow().slice(0, 0)
    if name == "x.parquet":
        pq.write_table(empty, path)
    elif name == "x.arrow":
        with pa.OSFile(str(path), "wb") as out, pa.ipc.new_stream(out, empty.schema):
            pass
    else:
        ids = np.zeros((0, 8), dtype=np.int64)
        np.save(path, ids) if name == "x.npy" else np.savez(path, data=ids)
    assert f"{path}: the trace is empty, it has 0 " in message(path)
    path.write_bytes(b"")
    assert message(path) == f"{path}: the file is empty (0 bytes); write or copy it again"


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (pa.array([1, 2]), "int64"),
        (pa.array([[1.0], [2.0]]), "list<item: double>"),
        (pa.array([[True], [False]]), "list<item: bool>"),
        (pa.array([["1"], ["2"]]), "list<item: string>"),
        (pa.array([[[1]], [[2]]]), "list<item: list<item: int64>>"),
        (pa.array([b"1", b"2"]), "binary"),
        (pa.nulls(2), "null"),
    ],
)
def test_wrong_experts_column(column, found):
    text = message(pa.table({"experts": column}))
    assert text == (
        f"pyarrow.lib.Table: column `experts` is {found}, expected a list of integers (expert "
        "ids); cast it before reading"
    )


def test_an_encoding_that_pyarrow_cannot_decode():
    views = pa.array(["a", "b"], pa.string_view())
    model = pa.RunEndEncodedArray.from_arrays([1, 2], views)
    try:
        pc.run_end_decode(model)
    except pa.ArrowNotImplementedError:
        text = message(pa.table({"experts": [[1], [2]], "model": model}))
        assert "pyarrow.lib.Table: column `model` holds " in text
        assert "which this version of pyarrow cannot decode; cast it" in text
    else:
        pytest.skip("this version of pyarrow decodes every encoding known here")


@pytest.mark.parametrize("name", ["layer", "step", "token"])
@pytest.mark.parametrize(
    ("values", "says"),
    [
        (pa.array([0, None]), "row 1: `{}` is null"),
        (pa.array([0, -2]), "row 1: `{}` is -2, expected an index 0..2147483647"),
        (pa.array([2**31, 0]), "row 0: `{}` is 2147483648, expected"),
        (pa.array([0, 2**64 - 1], pa.uint64()), "row 1: `{}` is 18446744073709551615, expected"),
        (pa.array([0.0, 1.0]), "column `{}` is double, expected integers"),
        (pa.array(["0", "1"]), "column `{}` is string, expected integers"),
    ],
)
def test_wrong_index_column(name, values, says):
    table = pa.table({"experts": [[1], [2]], name: values})
    assert f"pyarrow.lib.Table: {says.format(name)}" in message(table)


def test_rows_without_a_model_among_others():
    table = pa.table({"experts": [[1], [2]], "model": ["a", None]})
    assert message(table).endswith(
        "expected one; choose with model=; rows without a model cannot be chosen, name theirs in "
        "the column `model`"
    )
    assert read_routing(table, model="a").experts.tolist() == [[1]]


@pytest.mark.parametrize("twice", ["experts", "layer", "step", "token", "model", "weights"])
def test_a_routing_column_twice(tmp_path, twice):
    table = TABLE.to_arrow().append_column("weights", pa.array([[0.5] * 8] * 40))
    table = table.append_column(twice, table.column(twice))
    path = tmp_path / "x.arrow"
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    assert is_routing_table(path)
    for reader in (read_routing, summarize_routing):
        with pytest.raises(TraceError) as caught:
            reader(path)
        assert str(caught.value) == (
            f"{path}: 2 columns are called `{twice}`, expected one; rename the others"
        )


@pytest.mark.parametrize(
    ("names", "reader"),
    [
        (["step", "step", "kv_lengths"], read_kv_lengths),
        (["step", "kv_lengths", "kv_lengths"], read_kv_lengths),
        (["context_tokens", "context_tokens"], read_kv_lengths),
        (["context_tokens", "context_tokens"], load_requests),
        (["context_tokens", "generated_tokens", "generated_tokens"], load_requests),
    ],
)
def test_a_column_twice(tmp_path, names, reader):
    values = {"kv_lengths": [[1], [2]]}
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table([pa.array(values.get(name, [1, 2])) for name in names], names), path)
    with pytest.raises(TraceError, match=r"2 columns are called `\w+`, expected one; rename the"):
        reader(path)


# --- tokens


def test_tokens_that_are_missing_or_there_twice():
    table = TABLE.to_arrow()
    assert (
        "rows 9 and 10 (model 'qwen' layer 3 step 0) hold tokens 9 and 13, expected consecutive "
        "tokens, 3 are missing; the recorder may have dropped them"
    ) in message(pa.concat_tables([table.slice(0, 10), table.slice(13)]))
    assert (
        "rows 7 and 40 (model 'qwen' layer 3 step 0) both hold token 7, expected each token once; "
        "distinguish forward passes by a column `step`"
    ) in message(pa.concat_tables([table, table.slice(7, 1)]))


# --- files


FILES = {
    "x.parquet": TABLE.to_parquet,
    "x.npy": lambda path: np.save(path, TABLE.experts),
    "x.npz": lambda path: np.savez_compressed(path, data=TABLE.experts),
}


def write_file(path):
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, TABLE.to_arrow().schema) as writer:
        writer.write_table(TABLE.to_arrow())


def write_stream(path):
    with (
        pa.OSFile(str(path), "wb") as out,
        pa.ipc.new_stream(out, TABLE.to_arrow().schema) as writer,
    ):
        writer.write_table(TABLE.to_arrow())


FILES |= {"x.arrow": write_file, "stream.arrow": write_stream}


def test_truncated_parquet(tmp_path):
    path = tmp_path / "x.parquet"
    TABLE.to_parquet(path)
    path.write_bytes(path.read_bytes()[:1000])
    assert message(path) == (
        f"{path}: the parquet file is truncated, its 1000 bytes lack the closing 'PAR1'; "
        "write or copy it again"
    )


@pytest.mark.parametrize(("magic", "kind"), [(b"PAR1", "parquet file"), (b"ARROW1", "ipc file")])
def test_only_the_first_bytes_are_left(tmp_path, magic, kind):
    path = tmp_path / "x"
    path.write_bytes(magic)
    assert message(path).startswith(f"{path}: the {kind} is truncated, its {len(magic)} bytes")


@pytest.mark.parametrize("name", FILES)
def test_truncation_at_any_length(tmp_path, name):
    path = tmp_path / name
    FILES[name](path)
    whole = path.read_bytes()
    # The end mark of a stream (8 bytes) may be missing by the format; nothing is lost with it.
    end = len(whole) - 8 if name.startswith("stream") else len(whole)
    for size in {8, 9, 12, *range(13, end, 37), end - 1}:
        path.write_bytes(whole[:size])
        text = message(path)
        assert text.startswith(f"{path}: the ")
        assert "truncated" in text
        assert text.endswith("write or copy it again")
    path.write_bytes(whole)
    assert read_routing(path).experts.tolist() == TABLE.experts.tolist()


def test_damaged_parquet(tmp_path):
    path = tmp_path / "x.parquet"
    TABLE.to_parquet(path)
    data = bytearray(path.read_bytes())
    footer = int.from_bytes(data[-8:-4], "little")
    data[-8 - footer : -8] = bytes(footer)
    path.write_bytes(data)
    assert message(path).startswith(f"{path}: the parquet file is damaged (")


@pytest.mark.parametrize("at", [40, 200, 500])
def test_our_parquet_files_carry_checksums(tmp_path, at):
    path = tmp_path / "x.parquet"
    synthetic_routing(5000, 128, 8, seed=0).to_parquet(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2 + at] ^= 1
    path.write_bytes(data)
    assert message(path).startswith(f"{path}: the parquet file is damaged (")


def test_damaged_npz(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, data=TABLE.experts)
    data = bytearray(path.read_bytes())
    data[400:420] = bytes(20)
    path.write_bytes(data)
    assert message(path).startswith(f"{path}: the npz file is damaged (Bad CRC-32")


def test_a_column_name_that_is_not_text(tmp_path):
    path = tmp_path / "stream.arrow"
    write_stream(path)
    path.write_bytes(path.read_bytes().replace(b"token\0", b"\xf4oken\0"))
    assert "the ipc stream file cannot be read to its end" in message(path)


def test_a_column_of_another_type_than_its_schema(tmp_path):
    """Arrow's own way to say so, when statistics of such a column are read, ends the process."""
    path = tmp_path / "x.parquet"
    TABLE.to_parquet(path)
    int32_column, int96_column = b"\x15\x02\x19", b"\x15\x06\x19"  # Thrift: type, encodings
    data = path.read_bytes()
    assert int32_column in data
    path.write_bytes(data.replace(int32_column, int96_column))
    assert message(path).startswith(f"{path}: the parquet file is damaged (")


def test_a_column_that_is_not_optional_as_its_values_are(tmp_path):
    """Arrow's own way to say so, when metadata of such a column is looked at, ends the process."""
    path = tmp_path / "x.parquet"
    TABLE.to_parquet(path)
    data = path.read_bytes()
    optional, required = (b"\x25" + n + b"\x18\x05model" for n in (b"\x02", b"\x00"))
    assert optional in data
    path.write_bytes(data.replace(optional, required))
    assert message(path).startswith(f"{path}: the parquet file is damaged (")


@pytest.mark.parametrize("name", ["x.arrow", "stream.arrow"])
def test_lists_of_negative_length(tmp_path, name):
    path = tmp_path / name
    FILES[name](path)
    data = path.read_bytes()
    eight, minus_eight = (n.to_bytes(4, "little", signed=True) for n in (8, -8))
    found = []
    for at in range(len(data)):
        if data.startswith(eight, at):
            path.write_bytes(data[:at] + minus_eight + data[at + 4 :])
            try:
                read_routing(path, experts=128)
            except TraceError as error:
                found.append(str(error))
    assert any(
        text.startswith(f"{path}: the Arrow data is invalid (") and "negative list size" in text
        for text in found
    )


@profile(75)
@given(st.sampled_from(sorted(FILES)), st.data())
def test_random_damage_never_escapes(tmp_path_factory, name, data):
    """Flipped bytes give a TraceError or a table that passes every check."""
    path = tmp_path_factory.mktemp("damage") / name
    FILES[name](path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with suppress(TraceError):
        read = read_routing(path, experts=128)
        assert read.experts.max() < 128
        assert (np.diff(np.sort(read.experts, axis=1), axis=1) > 0).all()


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_python_objects_are_not_loaded(tmp_path, kind):
    path = tmp_path / f"x.{kind}"
    ids = np.array([[1, None]], dtype=object)
    np.save(path, ids) if kind == "npy" else np.savez(path, data=ids)
    assert "holds Python objects (object array), expected integers" in message(path)


@pytest.mark.parametrize(
    ("names", "listed"),
    [
        (["a", "b"], "2 arrays (`a`, `b`)"),
        (["data", "experts"], "2 arrays (`data`, `experts`)"),
        (["weights"], "1 arrays (`weights`)"),
        ([], "0 arrays (none)"),
    ],
)
def test_which_array_is_not_clear(tmp_path, names, listed):
    path = tmp_path / "x.npz"
    np.savez(path, **dict.fromkeys(names, TABLE.experts))
    assert f"{path}: holds {listed}, expected a single one or exactly one named " in message(path)


def test_other_files(tmp_path):
    assert "x.npy: cannot be read (No such file or directory)" in message(tmp_path / "x.npy")
    assert f"{tmp_path}: is a folder, expected a file" in message(tmp_path)
    path = tmp_path / "x.parquet"
    path.write_text("token,experts\n")
    assert f"{path}: the format is not known, its first bytes" in message(path)


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_a_file_that_is_gone_when_it_is_read(tmp_path, name):
    path = tmp_path / name
    FILES[name](path)
    (part,) = routing_parts(path)
    path.unlink()
    with pytest.raises(TraceError) as caught:
        part.read()
    assert str(caught.value) == (
        f"{path}: cannot be read (No such file or directory); check the path and its permissions"
    )


@pytest.mark.parametrize(("source", "kind"), [([[1, 2]], "list"), (None, "NoneType")])
def test_other_objects(source, kind):
    assert f"{kind}: cannot be read as a routing table, expected a path" in message(source)


def test_an_arrow_array_is_no_table():
    assert "ChunkedArray: is not an Arrow table (" in message(pa.chunked_array([[1, 2]]))


def test_invalid_arrow_data():
    """Only full validation sees an index outside of its dictionary."""
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 7]), pa.array(["m"]), safe=False)
    table = pa.table({"experts": [[1], [2]], "model": codes})
    assert "pyarrow.lib.Table: the Arrow data is invalid (" in message(table)


@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream])
@pytest.mark.parametrize(
    ("label", "name", "readers"),
    [
        ("step", "kv_lengths", [read_kv_lengths]),
        ("context_tokens", "prefix_hashes", [load_requests]),
        ("layer", "experts", [read_routing, summarize_routing]),
    ],
)
def test_offsets_that_lead_outside(tmp_path, label, name, readers, new):
    """Nothing but a full validation sees the offsets of a list: the values would be others'."""
    lists = pa.array([list(range(1237)), list(range(1000))], pa.list_(pa.int32()))
    table = pa.table({label: [3, 3], name: lists})
    path = tmp_path / "x.arrow"
    with pa.OSFile(str(path), "wb") as out, new(out, table.schema) as writer:
        writer.write_table(table)
    offsets = np.array([0, 1237, 2237], dtype=np.int32).tobytes()
    content = path.read_bytes()
    assert content.count(offsets) == 1
    wrong = np.array([0, 1237, 500_000_000], dtype=np.int32).tobytes()
    path.write_bytes(content.replace(offsets, wrong))
    for reader in readers:
        with pytest.raises(TraceError) as caught:
            reader(path)
        assert str(caught.value).startswith(f"{path}: the Arrow data is invalid (")


@pytest.mark.parametrize("name", ["experts", "k", "tokens"])
@pytest.mark.parametrize("reader", [read_routing, read_routing_batches])
def test_wrong_arguments(name, reader):
    with pytest.raises(ArgError, match=f"{name} is 0, expected at least 1 or None"):
        reader(TABLE, **{name: 0})


def test_batches_open_the_source_at_once(tmp_path):
    with pytest.raises(TraceError, match="cannot be read"):
        read_routing_batches(tmp_path / "x.npy")
