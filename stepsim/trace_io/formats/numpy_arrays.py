"""NumPy files: integers [tokens, k] or [tokens, layers, k], in a .npy or .npz file.

An archive holds one array, or one called ``experts`` or ``data``, and may hold ``weights`` of the
same shape. It is read in pieces of bounded size, whatever its order; an archived array in Fortran
order is unpacked to a temporary file for that.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepsim.errors import TraceError
from stepsim.trace_io.array_files import open_routing
from stepsim.trace_io.files import detect_format
from stepsim.trace_io.formats.job import CHUNK_BYTES, ImportJob, RoutingChunk
from stepsim.trace_io.formats.sequences import sequence_chunks
from stepsim.trace_io.validate import check_integer_dtype

__all__ = ["read"]


def read(job: ImportJob) -> Iterator[RoutingChunk]:
    """Read a routing table, all as step 0.

    Raises:
        TraceError: the file is unreadable or holds an invalid value.
    """
    kind = detect_format(job.path)
    if kind not in ("npy", "npz"):
        raise TraceError(
            f"{job.path}: is no NumPy file ({kind or 'no known first bytes'}), expected .npy or "
            ".npz; check --format"
        )
    name = str(job.path)
    ids, weights = open_routing(job.path, kind)
    check_integer_dtype(np.empty(0, ids.dtype), name, "expert ids")
    if len(ids.shape) not in (2, 3):
        raise TraceError(
            f"{name}: expert ids have {len(ids.shape)} dims, shape {ids.shape}, expected "
            "[tokens, k] or [tokens, layers, k]; reshape them"
        )
    if ids.shape[0] == 0:
        raise TraceError(
            f"{name}: the trace is empty, it has 0 tokens (shape {ids.shape}), expected at "
            "least 1; record it again"
        )
    rows = max(1, CHUNK_BYTES // ids.row_bytes)
    gates = iter(()) if weights is None else weights.blocks(rows)
    first = token = 0
    for block in ids.blocks(rows):
        gate = next(gates, None)
        if block.ndim == 2:
            yield job.chunk(
                block,
                source=name,
                layer=0,
                step=0,
                first_token=first,
                first_row=first,
                weights=gate,
            )
        else:
            kept = 0
            for chunk in sequence_chunks(
                job,
                block,
                source=name,
                field="experts",
                step=0,
                first_token=token,
                first_row=first,
                weights=gate,
            ):
                kept = len(chunk.experts)
                yield chunk
            token += kept
        first += len(block)
        job.done(first * ids.row_bytes)
