"""Plain arrays of lengths: one prompt length per request, without times.

A .npy or .npz file with one dim, or text with one length per line or a column to choose; read in
pieces of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator

from stepsim.errors import TraceError
from stepsim.trace_io.files import detect_format
from stepsim.trace_io.formats.job import CHUNK_BYTES, ImportJob, RequestChunk
from stepsim.trace_io.length_files import (
    check_lengths,
    no_columns,
    open_lengths,
    text_lengths,
)

__all__ = ["read"]


def read(job: ImportJob) -> Iterator[RequestChunk]:
    """Read lengths.

    Raises:
        TraceError: the file is unreadable, or a length is invalid.
    """
    name, kind = str(job.path), detect_format(job.path)
    if kind in ("npy", "npz"):
        if job.column is not None:
            raise no_columns(name, job.column)
        array = open_lengths(job.path, kind)
        row = 0
        for block in array.blocks(CHUNK_BYTES // array.row_bytes):
            yield RequestChunk(check_lengths(block, name, first_row=row))
            row += len(block)
            job.done(row * array.row_bytes)
    elif kind is None:
        for values, lines in text_lengths(job.path, job.column, job.done):
            yield RequestChunk(check_lengths(values, name, lines=lines))
    else:
        raise TraceError(
            f"{job.path}: is a {kind.removesuffix(' file')} file, expected .npy, .npz or text with "
            "one length per line; choose another --format, or convert it"
        )
