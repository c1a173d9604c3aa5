"""Plain arrays of lengths: one prompt length per request, without times.

What :func:`stepsim.trace_io.read_kv_lengths` reads: .npy, .npz, or text with one length per line
or a column to choose. The lengths are read at once, 8 bytes each.
"""

from __future__ import annotations

from collections.abc import Iterator

from stepsim.trace_io.formats.job import ImportJob, RequestChunk
from stepsim.trace_io.kv import read_kv_lengths

__all__ = ["read"]


def read(job: ImportJob) -> Iterator[RequestChunk]:
    """Read lengths.

    Raises:
        TraceError: the file is unreadable, or a length is invalid.
    """
    yield RequestChunk(read_kv_lengths(job.path, column=job.column))
    job.done(job.path.stat().st_size)
