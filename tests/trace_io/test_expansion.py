"""Files of a few bytes that say or hold much more: refused before memory or a disk is full."""

from __future__ import annotations

import io
import math
import random
import resource
import struct
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.errors import TraceError
from stepsim.trace_io import (
    detect_trace_format,
    import_trace,
    load_requests,
    read_kv_lengths,
    read_origin,
    read_routing,
    read_routing_batches,
    summarize_routing,
)
from stepsim.trace_io.sources import numpy as numpy_source
from stepsim.trace_io.sources.numpy import open_array

MIB = 1 << 20
OUT_OF_PROPORTION = r"unpacks to 134217[0-9]+ bytes from [0-9]+, expected at most 200 times"


def header(shape: tuple[int, ...], descr: str = "<i8") -> bytes:
    buffer = io.BytesIO()
    values = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, values)
    return buffer.getvalue()


@cache
def archived(*shape: int) -> bytes:
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("data.npy", "w") as member,
    ):
        member.write(header(shape))
        for _ in range(math.prod(shape) * 8 // MIB):
            member.write(bytes(MIB))
    return buffer.getvalue()


def bomb(path: Path, *shape: int) -> Path:
    """An archive of 128 KiB with an array of zeros."""
    path.write_bytes(archived(*shape))
    return path


@contextmanager
def little_memory(most: int = 24 * MIB) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@pytest.fixture(autouse=True)
def no_unpacking(monkeypatch: pytest.MonkeyPatch) -> None:
    def unpack() -> None:
        raise AssertionError("an archive is unpacked to the disk")

    monkeypatch.setattr(numpy_source.tempfile, "TemporaryFile", unpack)


@pytest.mark.slow
@pytest.mark.parametrize(
    "read",
    [
        read_routing,
        lambda path: read_routing(path, tokens=64, window=3),
        lambda path: import_trace(path, path.with_suffix(".parquet")),
        summarize_routing,
        detect_trace_format,
    ],
)
def test_an_archive_of_experts(tmp_path: Path, read: Callable[[Path], object]) -> None:
    path = bomb(tmp_path / "x.npz", 1 << 17, 1, 128)
    assert path.stat().st_size < MIB // 4
    with little_memory(), pytest.raises(TraceError, match=OUT_OF_PROPORTION):
        read(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "read",
    [
        read_kv_lengths,
        lambda path: read_kv_lengths(path, requests=64, window=3),
        load_requests,
    ],
)
def test_an_archive_of_lengths(tmp_path: Path, read: Callable[[Path], object]) -> None:
    with little_memory(), pytest.raises(TraceError, match=OUT_OF_PROPORTION):
        read(bomb(tmp_path / "x.npz", 1 << 24))


@pytest.mark.slow
def test_the_batch_that_is_asked_for_is_compared_before_anything_is_unpacked(
    tmp_path: Path,
) -> None:
    # Below 64 MiB, which may be packed as well as it likes.
    path = bomb(tmp_path / "x.npz", 1 << 20, 1, 7)
    with little_memory(), pytest.raises(TraceError, match=r"1048576 tokens .*, expected 64"):
        read_routing(path, tokens=64)
    path = bomb(tmp_path / "y.npz", 7 << 20)
    with little_memory(), pytest.raises(TraceError, match=r"7340032 lengths, expected 64"):
        read_kv_lengths(path, requests=64)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "argument"), [("data", "tokens"), ("lengths", "requests")])
def test_the_batch_that_is_expected_may_be_packed_as_well_as_it_likes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, argument: str
) -> None:
    path = tmp_path / "x.npz"
    rows = 9 << 20
    values = np.full(rows, 5) if name == "lengths" else np.zeros((rows, 1), np.int64)
    np.savez_compressed(path, **{name: values})
    read = read_kv_lengths if name == "lengths" else read_routing
    # No error of its size, which is not what is wrong with it.
    with pytest.raises(TraceError, match=f"{rows} [a-z]+ .*expected 64|{rows} .*expected 64"):
        read(path, **{argument: 64})  # type: ignore[operator]
    with pytest.raises(TraceError, match="expected at most 200 times"):
        read(path)  # type: ignore[operator]
    monkeypatch.undo()
    found = read(path, **{argument: rows})  # type: ignore[operator]
    assert len(found if name == "lengths" else found.experts) == rows


@pytest.mark.slow
def test_a_member_is_not_larger_than_its_place_in_the_archive(tmp_path: Path) -> None:
    path = bomb(tmp_path / "x.npz", 1 << 17, 1, 128)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other.npy", random.Random(0).randbytes(MIB))
    data = bytearray(path.read_bytes())
    directory = data.index(b"PK\x01\x02")
    struct.pack_into("<I", data, directory + 20, MIB)
    path.write_bytes(data)
    with little_memory(), pytest.raises(TraceError, match=OUT_OF_PROPORTION):
        open_array(path, "npz", "data")


def claiming(path: Path, size: int, content: bytes) -> Path:
    """An archive whose headers say that the array has ``size`` bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("data.npy", content)
    data = bytearray(path.read_bytes())
    directory = data.index(b"PK\x01\x02")
    struct.pack_into("<I", data, 22, size)
    struct.pack_into("<I", data, directory + 24, size)
    path.write_bytes(data)
    return path


def test_an_archive_that_claims_more_than_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    shape = (1 << 19, 2, 12)  # 96 MiB
    content = header(shape) + random.Random(0).randbytes(MIB)
    path = claiming(tmp_path / "x.npz", math.prod(shape) * 8 + 128, content)
    with pytest.raises(TraceError, match=r"the npz file is damaged .*bytes are missing"):
        read_routing(path, tokens=64, window=0, layer=0)
    small = claiming(tmp_path / "y.npz", 64 * 8 * 8 + 128, header((64, 8)) + bytes(64))
    with pytest.raises(TraceError, match="the npz file is damaged"):
        read_routing(small)


@pytest.mark.parametrize(
    ("shape", "descr"),
    [
        ((1 << 40, 8), "<i8"),
        ((1 << 62, 1 << 62), "<i8"),
        ((1 << 40, 0), "<i8"),
        ((0, 1 << 62), "<i8"),
        ((8, 8), "|V2000000000"),
        ((1 << 40, 8), "|V0"),
        ((8, 8), "|O"),
    ],
)
@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_headers_that_say_anything(
    tmp_path: Path, shape: tuple[int, ...], descr: str, kind: str
) -> None:
    path = tmp_path / f"x.{kind}"
    content = header(shape, descr) + bytes(512)
    if kind == "npy":
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("data.npy", content)
    for read in (read_routing, read_kv_lengths, summarize_routing):
        with little_memory(), pytest.raises(TraceError):
            read(path)


def test_rows_that_memory_does_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    np.save(tmp_path / "x.npy", np.arange(16).reshape(2, 8))
    monkeypatch.setattr(numpy_source.np, "empty", full)
    array = numpy_source.open_array(tmp_path / "x.npy", "npy")
    with pytest.raises(
        TraceError, match="2 rows need 128 bytes of memory, which are not available"
    ):
        array.read()


def test_a_row_group_of_equal_values(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    experts = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(3 << 22, np.int32)), 8)
    pq.write_table(pa.table({"experts": experts}), path, row_group_size=1 << 22)
    assert path.stat().st_size < MIB // 4
    for read in (read_routing, summarize_routing):
        with pytest.raises(TraceError, match="a row group unpacks to 100663296 bytes from"):
            read(path)


@contextmanager
def address_space(room: int) -> Iterator[None]:
    """Bytes that may be taken on top of what the process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is that of Linux")
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_long_label_of_many_rows_is_in_memory_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"x.{kind}"
    rows, label = 1 << 14, "m" * 200_000
    models = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([label]))
    experts = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2 * rows) % 8), 2)
    table = pa.table({"experts": experts, "model": models})
    if kind == "parquet":  # as text, which takes 3 GB
        pq.write_table(table, path, store_schema=False)
    else:
        write_ipc(path, table, "file", "zstd")
    with address_space(1 << 30):
        assert read_routing(path).model == label
        assert str(summarize_routing(path))


def test_names_are_those_of_the_rows_however_they_are_stored(tmp_path: Path) -> None:
    experts = pa.FixedSizeListArray.from_arrays(pa.array([0, 1] * 6), 2)
    indices = pa.array([2, None, 0, 2, 3, 0])
    names = pa.DictionaryArray.from_arrays(indices, pa.array(["b", "unused", "a", None]))
    expected = [(None, 2), ("a", 2), ("b", 2)]
    table = pa.table({"experts": experts, "model": names})
    sources: list[object] = [table, pa.concat_tables([table.slice(0, 2), table.slice(2)])]
    text = table.set_column(1, "model", names.cast(pa.string()))
    for number, options in enumerate(
        (
            {"use_dictionary": True},
            {"use_dictionary": False},
            {"use_dictionary": False, "column_encoding": {"model": "DELTA_BYTE_ARRAY"}},
        )
    ):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(text, path, row_group_size=4, **options)
        sources.append(path)
    for source in sources:
        assert [(part.model, part.tokens) for part in read_routing_batches(source)] == expected


def test_memory_that_ends_is_not_called_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError("realloc of size 4294967296 failed")

    path = tmp_path / "x.parquet"
    pq.write_table(constant_ids(8), path)
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", full)
    with pytest.raises(
        TraceError, match=r"needs more memory than is available \(realloc of size 4"
    ):
        read_routing(path)


def write_ipc(
    path: Path, table: pa.Table, kind: str, codec: str | None, rows: int = 1 << 22
) -> None:
    options = pa.ipc.IpcWriteOptions(compression=codec)
    make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with pa.OSFile(str(path), "wb") as file, make(file, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)


def constant_ids(tokens: int) -> pa.Table:
    return pa.table(
        {"experts": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(8 * tokens, np.int32)), 8)}
    )


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize(("kind", "what"), [("file", "a record"), ("stream", "the stream of")])
def test_compressed_batches_of_equal_values(
    tmp_path: Path, kind: str, what: str, codec: str
) -> None:
    path = tmp_path / "x.arrow"
    # Of a stream the batches together, which are read at once.
    tokens, rows = (1 << 22, 1 << 22) if kind == "file" else (3 << 20, 1 << 20)
    table = constant_ids(1 << 20)
    write_ipc(path, pa.concat_tables([table] * (tokens >> 20)).combine_chunks(), kind, codec, rows)
    size = path.stat().st_size
    assert size < MIB
    allocated = pa.total_allocated_bytes()
    # A summary takes the batches of a stream one by one.
    for read in (read_routing, summarize_routing)[: 2 if kind == "file" else 1]:
        with pytest.raises(TraceError, match=f"{what} .*unpacks to {32 * tokens}[0-9]* bytes"):
            read(path)
    assert pa.total_allocated_bytes() - allocated < MIB


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("codec", ["zstd", "lz4", None])
def test_recorded_batches_are_read(tmp_path: Path, kind: str, codec: str | None) -> None:
    path = tmp_path / "x.arrow"
    tokens = 1 << 12
    ids = np.argsort(np.random.default_rng(0).random((tokens, 16)), axis=1)[:, :8].astype(np.int32)
    experts = pa.FixedSizeListArray.from_arrays(pa.array(ids.ravel()), 8)
    model = pa.array(["m"] * tokens).dictionary_encode()
    write_ipc(path, pa.table({"experts": experts, "model": model}), kind, codec)
    assert (read_routing(path).experts == ids).all()
    content = bytearray(path.read_bytes())
    for cut in range(0, len(content), 997):  # what is cut is left to Arrow
        path.write_bytes(content[:cut])
        with pytest.raises(TraceError):
            read_routing(path)


def test_a_dictionary_of_equal_values(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    names = pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["m" * (96 * MIB)]))
    experts = pa.array([[0, 1]], pa.list_(pa.int32()))
    write_ipc(path, pa.table({"experts": experts, "model": names}), "file", "zstd")
    with pytest.raises(TraceError, match=r"a record batch unpacks to 100663[0-9]{3} bytes"):
        read_routing(path)


def test_buffers_that_say_anything(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    write_ipc(path, constant_ids(1 << 10), "file", "zstd")
    content = path.read_bytes()
    true = struct.pack("<q", 32 << 10)
    assert content.count(true + b"\x28\xb5\x2f\xfd") == 1
    path.write_bytes(content.replace(true + b"\x28\xb5", struct.pack("<q", 1 << 40) + b"\x28\xb5"))
    with pytest.raises(TraceError, match="a record batch unpacks to 1099511627776 bytes from"):
        read_routing(path)


def test_a_deep_note_of_the_origin_is_none(tmp_path: Path) -> None:
    schema = pa.schema([("experts", pa.int32())], metadata={"origin": "[" * 100_000})
    pq.write_table(schema.empty_table(), tmp_path / "x.parquet")
    assert read_origin(tmp_path / "x.parquet") == {}


def test_many_arrays_are_not_all_listed(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(5000):
            archive.writestr(f"array{number}.npy", b"")
    with pytest.raises(TraceError, match="holds 5000 arrays") as caught:
        read_routing(path)
    assert len(str(caught.value)) < 1000
