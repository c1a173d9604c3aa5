"""Importing foreign traces: streaming, in constant memory, all or nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stepsim.data import locate
from stepsim.errors import ArgError, OutputError, StepSimError, TraceError
from stepsim.paths import exists
from stepsim.trace_io.detection import detect_trace_format
from stepsim.trace_io.files import detect_format
from stepsim.trace_io.formats import Format, ImportJob, format_names, trace_formats
from stepsim.trace_io.options import check_options
from stepsim.trace_io.requests.trace import (
    OWN_REQUESTS,
    RequestTrace,
    join_requests,
    read_requests,
)
from stepsim.trace_io.routing.summary import RoutingCounter, RoutingSummary, none_of
from stepsim.trace_io.routing.table import RoutingTable
from stepsim.trace_io.writer import ParquetStream
from stepsim.typed import typed


@dataclass(frozen=True)
class ImportProgress:
    """Progress of an import: bytes of input read, total bytes, and rows found so far."""

    bytes_done: int
    bytes_total: int
    rows: int


@dataclass(frozen=True)
class ImportSummary:
    """The outcome of an import.

    Attributes:
        format: name of the format that was read.
        rows: rows written: tokens of all layers and steps, or requests.
        routing: the load of the experts; None for requests.
        notes: what the user should know, such as skipped records.
    """

    format: str
    rows: int
    routing: RoutingSummary | None
    notes: tuple[str, ...]


@typed
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
        out: the Parquet file to write; it is written completely or not at all.
        format: a key of `trace_formats`; None: auto-detected, see `detect_trace_format`.
        experts, k: as in `read_routing`.
        layers: layers of the model, to check them, or to shape the flat ids of SGLang.
        model: label for rows without one.
        column: the column to read, for Parquet and for lengths in a CSV.
        drop_missing: leave out tokens without recorded experts instead of refusing them.
        ranks: which files of a Megatron folder to read; None: all.
        progress: is called from time to time.

    Raises:
        TraceError: the source is unreadable or holds an invalid value; the message has the file,
            the line or row, and the value.
        ArgError: an argument is out of range or does not apply to the format, or ``out`` is the
            source.
        OutputError: the file cannot be written (an existing one is left as it was), or memory
            runs out.
    """
    try:
        path, target = locate(source), Path(out)
        if exists(target, OutputError) and path.exists() and target.samefile(path):
            raise ArgError(
                f"import_trace: {target} is the source itself; name another file to write"
            )
        found = _format(path, format)
        if found.name == OWN_REQUESTS:
            raise TraceError(
                f"{path}: is in the request schema already, expected a foreign trace; use it as it "
                "is"
            )
        given = format is not None
        job = ImportJob(path, experts, k, layers, model, column, drop_missing, ranks, given)
        counter = RoutingCounter(experts) if found.holds == "routing" else None
        origin = {"format": found.name} | ({} if experts is None else {"experts": experts})
        with ParquetStream(target, origin=origin) as file:
            for piece in _read(found, job, progress):
                if isinstance(piece, RoutingTable):
                    if counter is not None:
                        counter.add(piece)
                    file.write(piece.to_arrow(), label=(piece.model, piece.layer, piece.step))
                else:
                    file.write(piece.to_arrow(file.rows))
        routing = None if counter is None else counter.summary()
        return ImportSummary(found.name, file.rows, routing, tuple(job.notes))
    except MemoryError as error:
        raise OutputError(
            f"{out}: not enough memory to import {source}; an existing file was not changed: end "
            "other programs, and import it again"
        ) from error


@typed
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
    """The load of the experts over a routing trace of any format, including ours.

    The trace is checked on the way and never in memory as a whole. ``layer`` and ``step`` restrict
    what is counted, and must occur in the trace; the other arguments are those of
    :func:`import_trace`.

    Raises:
        TraceError: as `import_trace`, or nothing is left to count.
        ArgError: an argument is out of range or does not apply to the format.
    """
    path = locate(source)
    found = _format(path, format)
    if found.holds != "routing":
        raise TraceError(
            f"{path}: is a request trace ({found.name}), expected one of expert routing; see "
            "load_requests"
        )
    given = format is not None
    job = ImportJob(path, experts, k, layers, None, column, drop_missing, ranks, given)
    counter = RoutingCounter(experts)
    seen: set[tuple[int, int]] = set()
    for table in _read(found, job, progress):
        if not isinstance(table, RoutingTable):
            continue
        if layer in (None, table.layer) and step in (None, table.step):
            counter.add(table)
            continue
        counter.see(table)
        if not counter.rows:
            seen.add((table.layer, table.step))
    if not counter.rows:
        raise none_of(path, layer, step, seen)
    return replace(counter.summary(), notes=tuple(job.notes))


@typed
def load_requests(
    source: str | os.PathLike[str], *, format: str | None = None, column: str | None = None
) -> RequestTrace:
    """Read a request trace of any format, including ours, into memory.

    Raises:
        TraceError: the source is unreadable, holds no requests, or holds an invalid value.
        ArgError: ``column`` does not apply to the format.
    """
    path = locate(source)
    return join_requests(list(_requests(path, format, column)), str(path))


def load_context_tokens(
    source: str | os.PathLike[str], *, format: str | None = None, column: str | None = None
) -> npt.NDArray[np.int64]:
    """The lengths of the prompts of a request trace of any format, int64 [requests].

    Only these are kept in memory, 8 bytes per request.

    Raises:
        TraceError, ArgError: as `load_requests`.
    """
    path = locate(source)
    found = _format(path, format)
    if found.name == OWN_REQUESTS:
        check_options(found, path, {"column": column})
        return read_requests(path, columns=["context_tokens"]).context_tokens
    return np.concatenate([piece.context_tokens for piece in _requests(path, found.name, column)])


def _requests(path: Path, name: str | None, column: str | None) -> Iterator[RequestTrace]:
    """The requests of a trace of any format, at least one piece."""
    found = _format(path, name)
    if found.holds != "requests":
        raise TraceError(
            f"{path}: is a trace of expert routing ({found.name}), expected one of requests; see "
            "summarize_routing and read_routing"
        )
    for piece in _read(found, ImportJob(path, column=column)):
        if isinstance(piece, RequestTrace):
            yield piece


def _format(path: Path, name: str | None) -> Format:
    if name is None:
        name = detect_trace_format(path)
    elif not path.is_dir():
        detect_format(path)  # refuses files that no format can use
    formats = trace_formats()
    if name not in formats:
        raise ArgError(f"format {name!r} is not known, expected one of {format_names()}")
    return formats[name]


def _read(
    found: Format, job: ImportJob, progress: Callable[[ImportProgress], None] | None = None
) -> Iterator[RoutingTable | RequestTrace]:
    """The pieces of a trace, at least one, of the type that the format holds and of one shape."""
    check_options(found, job.path, vars(job))
    rows = 0
    if progress is not None:

        def done(read: int) -> None:
            total = job.bytes_total or job.path.stat().st_size
            progress(ImportProgress(min(read, total), total, rows))

        job.done = done
    expected = RoutingTable if found.holds == "routing" else RequestTrace
    shape: tuple[object, ...] | None = None
    try:
        for piece in found.read(job):
            if not isinstance(piece, expected):
                raise TypeError(f"yields {type(piece).__name__}, expected {expected.__name__}")
            if isinstance(piece, RoutingTable):
                rows += piece.tokens
                shape = _same_shape(job.path, shape, piece)
            else:
                rows += len(piece)
            yield piece
    except (StepSimError, MemoryError):
        raise
    except Exception as error:
        if found.package is None:
            raise
        raise found.failed(job.path, error) from error
    if not rows:
        raise TraceError(
            f"{job.path}: the trace is empty, it has 0 rows, expected at least 1; record it again"
        )


def _same_shape(
    path: Path, shape: tuple[object, ...] | None, table: RoutingTable
) -> tuple[object, ...]:
    here = (table.k, table.weights is not None)
    if shape is not None and here != shape:
        raise TraceError(
            f"{path}: k is {here[0]} and weights are {'there' if here[1] else 'missing'} in layer "
            f"{table.layer}, step {table.step}, but k is {shape[0]} and weights are "
            f"{'there' if shape[1] else 'missing'} before; one trace has one k, and weights for "
            "all tokens or for none"
        )
    return here
