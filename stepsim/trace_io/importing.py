"""Importing foreign traces: streaming, in constant memory, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stepsim.data import locate
from stepsim.errors import ArgError, TraceError
from stepsim.trace_io.detection import OWN_REQUESTS, detect_trace_format
from stepsim.trace_io.files import detect_format
from stepsim.trace_io.formats import FORMATS, Format
from stepsim.trace_io.formats.job import ImportJob, RequestChunk, RoutingChunk
from stepsim.trace_io.formats.megatron import trace_files
from stepsim.trace_io.requests import (
    RequestTrace,
    read_context_tokens,
    read_requests,
    request_rows,
)
from stepsim.trace_io.summary import RoutingCounter, RoutingSummary, none_of
from stepsim.trace_io.table import routing_rows
from stepsim.trace_io.writer import ParquetStream

__all__ = [
    "ImportProgress",
    "ImportSummary",
    "import_trace",
    "load_context_tokens",
    "load_requests",
    "summarize_routing",
]


@dataclass(frozen=True)
class ImportProgress:
    """How far an import is: bytes of input read, of all, and rows found so far."""

    bytes_done: int
    bytes_total: int
    rows: int


@dataclass(frozen=True)
class ImportSummary:
    """What an import did.

    Attributes:
        format: name of the format that was read.
        rows: rows written: tokens of all layers and steps, or requests.
        routing: the load of the experts; None for requests.
        notes: remarks for the user, as skipped records.
    """

    format: str
    rows: int
    routing: RoutingSummary | None
    notes: tuple[str, ...]


def import_trace(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    format: str | None = None,
    experts: int | None = None,
    k: int | None = None,
    layers: int | None = None,
    model: str | None = None,
    column: str | None = None,
    drop_missing: bool = False,
    ranks: Collection[int] | None = None,
    progress: Callable[[ImportProgress], None] | None = None,
) -> ImportSummary:
    """Convert a foreign trace into a Parquet file of our routing or request schema.

    Args:
        source: a file, a folder of Megatron traces, or the name of a data set.
        out: the Parquet file to write; it appears complete or not at all.
        format: a key of `FORMATS`; None: told by the content, see `detect_trace_format`.
        experts, k: as in `read_routing`.
        layers: layers of the model, for SGLang.
        model: label for the rows that have none.
        column: the column to read, for Parquet and for lengths in a CSV.
        drop_missing: leave out tokens without recorded experts instead of refusing them.
        ranks: which files of a Megatron folder to read; None: all.
        progress: is called now and then.

    Raises:
        TraceError: the source is unreadable or holds an invalid value; the message has the file,
            the line or row, and the value.
        ArgError: an argument is out of range, or ``out`` is the source.
        OutputError: the file cannot be written; an existing one is then left as it was.
    """
    path, target = locate(source), Path(out)
    if target.exists() and path.exists() and target.samefile(path):
        raise ArgError(f"import_trace: {target} is the source itself; name another file to write")
    found = _format(path, format)
    job = _job(path, experts, k, layers, model, column, drop_missing, ranks, format)
    counter = RoutingCounter(experts) if found.holds == "routing" else None
    origin = {"format": found.name} | ({} if experts is None else {"experts": experts})
    with ParquetStream(target, origin=origin) as file:
        _report(job, progress, lambda: file.rows)
        shape: tuple[object, ...] | None = None
        for chunk in found.read(job):
            if isinstance(chunk, RoutingChunk):
                shape = _same_shape(path, shape, chunk)
                if counter is not None:
                    counter.add(chunk)
                file.write(
                    routing_rows(
                        chunk.experts,
                        chunk.weights,
                        chunk.layer,
                        chunk.step,
                        chunk.first_token,
                        chunk.model,
                    ),
                    label=(chunk.model, chunk.layer, chunk.step),
                )
            else:
                file.write(
                    request_rows(
                        file.rows,
                        chunk.context_tokens,
                        chunk.generated_tokens,
                        chunk.arrival_seconds,
                        chunk.prefix_hashes,
                    )
                )
        if not file.rows:
            raise _empty(path)
        rows = file.rows
    routing = None if counter is None else counter.summary()
    return ImportSummary(found.name, rows, routing, tuple(job.notes))


def summarize_routing(
    source: str | os.PathLike[str],
    *,
    format: str | None = None,
    experts: int | None = None,
    k: int | None = None,
    layers: int | None = None,
    column: str | None = None,
    drop_missing: bool = False,
    ranks: Collection[int] | None = None,
    layer: int | None = None,
    step: int | None = None,
    progress: Callable[[ImportProgress], None] | None = None,
) -> RoutingSummary:
    """The load of the experts over a routing trace of any format, ours included.

    The trace is checked on the way and never in memory as a whole. ``layer`` and ``step`` narrow
    what is counted, and must be there; the other arguments are those of :func:`import_trace`.

    Raises:
        TraceError: as `import_trace`, or nothing is left to count.
    """
    path = locate(source)
    found = _format(path, format)
    if found.holds != "routing":
        raise TraceError(
            f"{path}: is a request trace ({found.name}), expected one of expert routing; see "
            "load_requests"
        )
    job = _job(path, experts, k, layers, None, column, drop_missing, ranks, format)
    counter, rows = RoutingCounter(experts), 0
    seen: set[tuple[int, int]] = set()
    _report(job, progress, lambda: rows)
    for chunk in found.read(job):
        if not isinstance(chunk, RoutingChunk):
            continue
        rows += len(chunk.experts)
        if layer in (None, chunk.layer) and step in (None, chunk.step):
            counter.add(chunk)
        elif not counter.rows:
            seen.add((chunk.layer, chunk.step))
    if not rows:
        raise _empty(path)
    if not counter.rows:
        raise none_of(path, layer, step, seen)
    return replace(counter.summary(), notes=tuple(job.notes))


def load_requests(
    source: str | os.PathLike[str], *, format: str | None = None, column: str | None = None
) -> RequestTrace:
    """Read a request trace of any format, ours included, into memory.

    Raises:
        TraceError: the source is unreadable, holds no requests, or an invalid value.
    """
    path = locate(source)
    name = detect_trace_format(path) if format is None else format
    if name == OWN_REQUESTS:
        return read_requests(path)
    chunks = list(_request_chunks(path, name, column))
    generated = [part.generated_tokens for part in chunks if part.generated_tokens is not None]
    arrival = [part.arrival_seconds for part in chunks if part.arrival_seconds is not None]
    hashes = [part.prefix_hashes for part in chunks if part.prefix_hashes is not None]
    return RequestTrace(
        np.concatenate([part.context_tokens for part in chunks]),
        np.concatenate(generated) if generated else None,
        np.concatenate(arrival) if arrival else None,
        tuple(ids for part in hashes for ids in part) if hashes else None,
        str(path),
    )


def load_context_tokens(source: str | os.PathLike[str]) -> npt.NDArray[np.int64]:
    """The lengths of the prompts of a request trace of any format, int64 [requests].

    They are all that is kept of it, 8 bytes per request.

    Raises:
        TraceError: as `load_requests`.
    """
    path = locate(source)
    name = detect_trace_format(path)
    if name == OWN_REQUESTS:
        return read_context_tokens(path)
    return np.concatenate([chunk.context_tokens for chunk in _request_chunks(path, name)])


def _request_chunks(path: Path, name: str, column: str | None = None) -> Iterator[RequestChunk]:
    """The requests of a foreign trace in the format ``name``, at least one chunk."""
    found = _format(path, name)
    if found.holds != "requests":
        raise TraceError(
            f"{path}: is a trace of expert routing ({found.name}), expected one of requests; see "
            "summarize_routing and read_routing"
        )
    empty = True
    for chunk in found.read(_job(path, None, None, None, None, column, False, None)):
        if isinstance(chunk, RequestChunk):
            empty = False
            yield chunk
    if empty:
        raise _empty(path)


def _format(path: Path, name: str | None) -> Format:
    if name is None:
        name = detect_trace_format(path)
    elif not path.is_dir():
        detect_format(path)  # refuses what no format can be in
    if name == OWN_REQUESTS:
        raise TraceError(
            f"{path}: is in the request schema already, expected a foreign trace; use it as it is"
        )
    if name not in FORMATS:
        raise ArgError(f"format {name!r} is not known, expected one of {', '.join(FORMATS)}")
    return FORMATS[name]


def _job(
    path: Path,
    experts: int | None,
    k: int | None,
    layers: int | None,
    model: str | None,
    column: str | None,
    drop_missing: bool,
    ranks: Collection[int] | None,
    format: str | None = None,
) -> ImportJob:
    for name, value in (("experts", experts), ("k", k), ("layers", layers)):
        if value is not None and value < 1:
            raise ArgError(f"import_trace: {name} is {value}, expected at least 1 or None")
    if ranks is not None and not path.is_dir():
        raise ArgError(
            f"{path}: ranks are chosen among the files of a Megatron folder, but this is none; "
            "leave --rank out"
        )
    return ImportJob(
        path, experts, k, layers, model, column, drop_missing, ranks, format is not None
    )


def _report(
    job: ImportJob, progress: Callable[[ImportProgress], None] | None, rows: Callable[[], int]
) -> None:
    if progress is None:
        return
    paths = trace_files(job.path, job.ranks).values() if job.path.is_dir() else [job.path]
    total = sum(path.stat().st_size for path in paths)
    job.done = lambda done: progress(ImportProgress(min(done, total), total, rows()))


def _same_shape(
    path: Path, shape: tuple[object, ...] | None, chunk: RoutingChunk
) -> tuple[object, ...]:
    here = (chunk.experts.shape[1], chunk.weights is not None)
    if shape is not None and here != shape:
        raise TraceError(
            f"{path}: k is {here[0]} and weights are {'there' if here[1] else 'missing'} in layer "
            f"{chunk.layer}, step {chunk.step}, but k is {shape[0]} and weights are "
            f"{'there' if shape[1] else 'missing'} before; one trace has one k, and weights for "
            "all tokens or for none"
        )
    return here


def _empty(path: Path) -> TraceError:
    return TraceError(
        f"{path}: the trace is empty, it has 0 rows, expected at least 1; record it again"
    )
