"""Megatron-Core router traces: JSONL with one record per step and layer, one file per rank.

A record has ``step, layer, rank, num_tokens, topk, top_indices`` and, in later versions, ``block``
(``decoder`` or ``mtp``); it may have no tokens. The source is one file, or a folder of
``router_trace_rank*.jsonl``: the tokens of a layer and step are then those of rank 0, rank 1 and so
on. Records of one layer and step in a file (micro-batches) follow each other. Records of the block
``mtp``, whose layer numbers collide with those of the decoder, are skipped. Steps must not decrease
within a file.

Sources: megatron/core/transformer/moe/router_trace.py of NVIDIA/Megatron-LM,
https://github.com/NVIDIA/Megatron-LM/pull/5220 and
https://github.com/NVIDIA/Megatron-LM/pull/5428.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from stepsim.errors import ArgError, TraceError
from stepsim.trace_io.files import unreadable
from stepsim.trace_io.formats.format import Content, Format
from stepsim.trace_io.formats.job import ImportJob
from stepsim.trace_io.formats.sequences import nested_ids
from stepsim.trace_io.routing.table import RoutingTable
from stepsim.trace_io.routing.validate import Place
from stepsim.trace_io.sources.json_lines import integer, json_records

_NAME = re.compile(r"router_trace_rank(\d+)\.jsonl")
_DECODER = "decoder"

_Record = tuple[Path, int, dict[str, Any], int]


def _trace_files(folder: Path, ranks: Collection[int] | None = None) -> dict[int, Path]:
    """The trace files of a folder, by rank; those of ``ranks`` if given.

    Raises:
        TraceError: a rank is missing, or the folder is unreadable.
    """
    try:
        paths = list(folder.iterdir())
    except OSError as error:
        raise unreadable(folder, error) from error
    found = {
        int(name.group(1)): path
        for path in paths
        if (name := _NAME.fullmatch(path.name)) is not None
    }
    for rank in ranks or ():
        if rank not in found:
            listed = ", ".join(map(str, sorted(found))) or "none"
            raise TraceError(
                f"{folder}: has no file of rank {rank} (found ranks {listed}); choose others with "
                "--rank"
            )
    return {rank: found[rank] for rank in sorted(found) if ranks is None or rank in ranks}


def _read(job: ImportJob) -> Iterator[RoutingTable]:
    folder = job.path.is_dir()
    if job.ranks is not None and not folder:
        raise ArgError(
            f"{job.path}: ranks are chosen among the files of a Megatron folder, but this is not "
            "one; leave --rank (ranks=) out"
        )
    ranks = (
        {path: rank for rank, path in _trace_files(job.path, job.ranks).items()} if folder else {}
    )
    files = list(ranks) if folder else [job.path]
    if not files:
        raise TraceError(
            f"{job.path}: the folder has no files router_trace_rank*.jsonl; name the folder that "
            "--moe-routing-trace-path was set to"
        )
    job.bytes_total = sum(path.stat().st_size for path in files)
    recorded = {rank: _Recorded() for rank in ranks.values()}
    read_bytes = dict.fromkeys(files, 0)
    skipped = 0
    for step, records in _by_step([_records(path) for path in files]):
        tokens: Counter[int] = Counter()
        for path, line, record, size in records:
            read_bytes[path] = size
            if record.get("block", _DECODER) != _DECODER:
                skipped += 1
                continue
            table = _table(job, path, line, record, step, tokens)
            if table is not None:
                tokens[table.layer] += table.tokens
                if folder:
                    recorded[ranks[path]].add(table)
                yield table
        job.done(sum(read_bytes.values()))
    if skipped:
        job.notes.append(f"skipped {skipped} records of blocks other than the decoder")
    job.notes.extend(_replicas(recorded))


class _Recorded:
    """What a rank recorded, as a digest."""

    def __init__(self) -> None:
        self.tokens = 0
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, table: RoutingTable) -> None:
        self.tokens += table.tokens
        self._digest.update(f"{table.step} {table.layer} {table.experts.shape} ".encode())
        self._digest.update(table.experts.tobytes())

    def identity(self) -> bytes:
        return self._digest.digest()


def _replicas(recorded: dict[int, _Recorded]) -> Iterator[str]:
    """A note if some ranks have the same records."""
    groups: dict[bytes, list[int]] = {}
    for rank, found in recorded.items():
        if found.tokens:
            groups.setdefault(found.identity(), []).append(rank)
    same = [ranks for ranks in groups.values() if len(ranks) > 1]
    if same:
        listed = "; ".join(", ".join(map(str, ranks)) for ranks in same)
        choice = " ".join(f"--rank {ranks[0]}" for ranks in groups.values())
        yield (
            f"some ranks have the same records ({listed}), as the ranks of a tensor-parallel group "
            f"do: their tokens are counted several times; read one of each with {choice}"
        )


def _records(path: Path) -> Iterator[tuple[int, _Record]]:
    last = 0
    for line, record, size in json_records(path):
        step = integer(record, "step", path, line)
        if step < last:
            raise TraceError(
                f"{path}: line {line}: `step` is {step}, expected at least {last}, the step of an "
                "earlier line; sort the file by step"
            )
        last = step
        yield step, (path, line, record, size)


def _by_step(
    files: list[Iterator[tuple[int, _Record]]],
) -> Iterator[tuple[int, Iterator[_Record]]]:
    """Records of all files, ordered by step and within a step by file."""
    heads = [next(file, None) for file in files]

    def of_step(step: int) -> Iterator[_Record]:
        for index, file in enumerate(files):
            head = heads[index]
            while head is not None and head[0] == step:
                yield head[1]
                head = heads[index] = next(file, None)

    while any(head is not None for head in heads):
        step = min(head[0] for head in heads if head is not None)
        yield step, of_step(step)


def _table(
    job: ImportJob,
    path: Path,
    line: int,
    record: dict[str, Any],
    step: int,
    tokens: Counter[int],
) -> RoutingTable | None:
    """The tokens of a record; None if it has none."""
    where = f"{path}: line {line}"
    layer = integer(record, "layer", path, line)
    integer(record, "rank", path, line)
    shape = (
        integer(record, "num_tokens", path, line),
        integer(record, "topk", path, line, minimum=1),
    )
    if "top_indices" not in record:
        raise TraceError(
            f"{where}: has no field `top_indices`, expected the experts of each token; check the "
            "format, or drop the line"
        )
    ids = nested_ids(record["top_indices"], where, "top_indices")
    if not ids.size and not shape[0]:
        return None
    if ids.shape != shape:
        raise TraceError(
            f"{where}: `top_indices` has shape {ids.shape}, expected {shape} by `num_tokens` and "
            "`topk`; the record is damaged, drop the line"
        )
    return job.table(ids, Place(where, layer, step, tokens[layer]))


def _recognizes(content: Content) -> bool:
    if content.path.is_dir():
        return bool(_trace_files(content.path))
    return any("top_indices" in record for record in content.records)


FORMAT = Format("megatron", "routing", _read, _recognizes, options=("ranks",))
