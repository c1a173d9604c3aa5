"""Damaged traces of every format."""

from __future__ import annotations

import functools
import io
import json
import random
import tempfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stepsim.trace_io import (
    detect_trace_format,
    import_trace,
    is_routing_table,
    load_requests,
    read_kv_lengths,
    read_origin,
    read_requests,
    read_routing_batches,
    replay,
    replay_rows,
    summarize_routing,
    synthetic_routing,
    trace_formats,
    write_routing,
)
from tests.fuzz.mutation import damaged_bytes, damaged_data, damaged_text
from tests.fuzz.reading import new_path, outcome
from tests.trace_io import foreign

__all__ = ["one"]

_TEXTS = {
    "azure.csv": foreign.AZURE,
    "lengths.csv": "length\n12\n900\n7\n",
    "columns.csv": "a,length\n1,12\n2,900\n",
    "llamacpp.csv": foreign.llamacpp_text([foreign.routing(6)]),
}
_RECORDS: dict[str, list[Any]] = {
    "mooncake.jsonl": foreign.MOONCAKE,
    "vllm.jsonl": [foreign.vllm_response(foreign.routing(4), foreign.routing(3, 1))],
    "vllm64.jsonl": [foreign.vllm_base64_response(foreign.routing(5))],
    "sglang.jsonl": [foreign.sglang_generate(foreign.routing(8))],
    "openai.jsonl": [foreign.sglang_openai(foreign.routing(8))],
    "megatron.jsonl": [
        foreign.megatron_record(foreign.routing(3)[:, layer], step, layer)
        for step in range(2)
        for layer in range(2)
    ],
}
_CHECKED = ("plain.npz", "zipped.npz", "own.parquet", "groups.parquet")
"""Files with checksums of all values."""


@functools.cache
def _valid() -> dict[str, bytes]:
    """Small valid files of all formats by name."""
    ids = foreign.routing(9)
    tables = [
        synthetic_routing(5, 16, 4, seed=1, layer=layer, step=step, model="small")
        for step in range(2)
        for layer in range(2)
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_routing(tables, folder / "own.parquet")
        table = pq.read_table(folder / "own.parquet")
        pq.write_table(table, folder / "groups.parquet", row_group_size=7, write_page_checksum=True)
        pq.write_table(pa.table({"topk_ids": ids.tolist()}), folder / "nested.parquet")
        np.save(folder / "ids.npy", ids)
        np.save(folder / "fortran.npy", np.asfortranarray(ids[:, 0]))
        np.save(folder / "lengths.npy", np.arange(20))
        np.savez(folder / "plain.npz", experts=ids, weights=np.full(ids.shape, 0.25))
        np.savez_compressed(folder / "zipped.npz", data=ids)
        with pa.ipc.new_file(folder / "t.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=7)
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(folder / "t.ipc", table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=7)
        foreign.lines(folder / "mooncake.jsonl", foreign.MOONCAKE)
        import_trace(folder / "mooncake.jsonl", folder / "requests.parquet")
        requests = read_requests(folder / "requests.parquet")
        steps = list(islice(replay(requests, batch=2), 5))
        pq.write_table(replay_rows(steps), folder / "steps.parquet")
        (folder / "mooncake.jsonl").unlink()
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def _formats(rng: random.Random) -> str | None:
    return rng.choice((None, None, *trace_formats()))


def _import(path: Path, rng: random.Random) -> None:
    out = path.with_suffix(".out")
    experts = rng.choice((None, 16))
    try:
        found = import_trace(path, out, format=_formats(rng), k=_k(path, rng), experts=experts)
        if found.routing is None:
            assert len(read_requests(out)) == found.rows
        else:
            assert sum(len(table.experts) for table in read_routing_batches(out)) == found.rows
    finally:
        out.unlink(missing_ok=True)


def _k(path: Path, rng: random.Random) -> int | None:
    needed = any(kind in path.name for kind in ("sglang", "openai", "llama"))
    return 4 if needed else rng.choice((None, 4))


def _summary(path: Path, rng: random.Random) -> None:
    summarize_routing(path, format=_formats(rng), k=_k(path, rng), experts=rng.choice((None, 16)))


def _routing(path: Path, rng: random.Random) -> list[Any]:
    tables = list(read_routing_batches(path))
    for table in tables:
        assert table.experts.min() >= 0
        assert table.experts.dtype == np.int32
    return [(t.layer, t.step, t.model, t.experts.tolist()) for t in tables]


def _requests(path: Path, rng: random.Random) -> None:
    found = load_requests(path, format=_formats(rng), column=rng.choice((None, None, "length")))
    assert found.context_tokens.min() >= 0


def _lengths(path: Path, rng: random.Random) -> list[Any]:
    step = rng.choice((None, 0, 1, 2))
    column = rng.choice((None, None, "length"))
    found = read_kv_lengths(path, step=step, column=column)
    assert found.min() >= 0
    return found.tolist()


def _look(path: Path, rng: random.Random) -> None:
    read_origin(path)
    is_routing_table(path)
    assert detect_trace_format(path) in trace_formats()


_READERS: tuple[Callable[[Path, random.Random], object], ...] = (
    _import, _summary, _routing, _requests, _lengths, _look,
)  # fmt: skip


def _damaged(rng: random.Random, name: str) -> bytes:
    if name in _TEXTS:
        text = _TEXTS[name]
        other = rng.choice(list(_TEXTS.values()))
        if rng.random() < 0.3:
            return damaged_bytes(rng, text.encode(), other.encode())
        return damaged_text(rng, text).encode(errors="surrogatepass")
    if name in _RECORDS:
        records = _RECORDS[name]
        text = "".join(json.dumps(record) + "\n" for record in records)
        kind = rng.randrange(4)
        if kind == 0:
            return damaged_bytes(rng, text.encode(), text.encode())
        if kind == 1:
            return damaged_text(rng, text).encode(errors="surrogatepass")
        changed = damaged_data(rng, records)
        lines = changed if isinstance(changed, list) else [changed]
        if rng.random() < 0.2:
            return json.dumps(changed, indent=1).encode()
        return "".join(json.dumps(line) + "\n" for line in lines).encode()
    other = rng.choice(list(_valid().values()))
    return damaged_bytes(rng, _valid()[name], other)


def one(rng: random.Random) -> str:
    """Damage one trace and read it; what has checksums is read as it was or not at all."""
    name = rng.choice((*_TEXTS, *_RECORDS, *_valid()))
    content = _damaged(rng, name)
    reader = rng.choice(_READERS)
    seed = rng.getrandbits(64)
    with new_path(name, content) as path:
        what = f"{reader.__name__} {name} seed {seed}"
        return outcome(lambda: _read(reader, path, name, seed, content), what, content)


def _read(
    reader: Callable[[Path, random.Random], object],
    path: Path,
    name: str,
    seed: int,
    content: bytes,
) -> None:
    found = reader(path, random.Random(seed))
    if found is None:
        return
    if path.suffix == ".npy" and reader is _routing:
        ids = np.load(io.BytesIO(content))
        ids = ids[:, None] if ids.ndim == 2 else ids
        assert [table[3] for table in found] == [ids[:, i].tolist() for i in range(ids.shape[1])]
    original = _valid().get(name, b"")
    if name in _CHECKED and _same_description(name, original, content):
        with new_path(name, original) as other:
            assert found == reader(other, random.Random(seed)), "other values than were written"


def _same_description(name: str, original: bytes, content: bytes) -> bool:
    """Names and types are as they were; they have no checksum."""
    if name.endswith(".npz"):
        before, after = np.load(io.BytesIO(original)), np.load(io.BytesIO(content))
        return before.files == after.files
    schemas = [pq.read_schema(io.BytesIO(data)) for data in (original, content)]
    return schemas[0].equals(schemas[1], check_metadata=True)
