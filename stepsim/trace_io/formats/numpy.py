"""NumPy files: integers [tokens, k] or [tokens, layers, k], in a .npy or .npz file.

An archive holds one array, or one called ``experts`` or ``data``, and may hold ``weights`` of the
same shape. It is read in pieces of bounded size, in either memory order.
"""

from __future__ import annotations

from collections.abc import Iterator

from stepsim.errors import TraceError
from stepsim.trace_io.files import detect_format
from stepsim.trace_io.formats.format import Format
from stepsim.trace_io.formats.job import CHUNK_BYTES, ImportJob
from stepsim.trace_io.formats.sequences import Sequence
from stepsim.trace_io.routing.table import RoutingTable
from stepsim.trace_io.sources.numpy import open_routing


def _read(job: ImportJob) -> Iterator[RoutingTable]:
    """The whole file as step 0."""
    kind = detect_format(job.path)
    if kind not in ("npy", "npz"):
        raise TraceError(
            f"{job.path}: is not a NumPy file ({kind or 'unknown first bytes'}), expected .npy or "
            ".npz; check --format"
        )
    name = str(job.path)
    ids, weights = open_routing(job.path, kind)
    ids.check_integers("expert ids")
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
    row = token = 0
    for block in ids.blocks(CHUNK_BYTES):
        gates = None if weights is None else weights.read(row, len(block))
        if block.ndim == 2:  # of one layer
            block, gates = block[:, None], None if gates is None else gates[:, None]
        part = Sequence(job, block, name, "experts", first_row=row, weights=gates)
        yield from part.tables(0, token)
        token += part.tokens
        row += len(block)
        job.done(row * ids.row_bytes)


FORMAT = Format(
    "numpy",
    "routing",
    _read,
    recognizes=lambda content: content.dims in (2, 3),
    options=("layers", "drop_missing"),
    last=True,
)
