"""NumPy files: integers [tokens, k] or [tokens, layers, k], in a .npy or .npz file.

An archive holds one array, or one called ``experts`` or ``data``, and may hold ``weights`` of the
same shape. The file is read from front to back; an array in Fortran order is read at once.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from stepsim.errors import TraceError
from stepsim.trace_io.files import choose_array, damaged, detect_format
from stepsim.trace_io.formats.job import CHUNK_BYTES, ImportJob, RoutingChunk
from stepsim.trace_io.formats.sequences import sequence_chunks
from stepsim.trace_io.validate import check_integer_dtype

__all__ = ["ArrayStream", "archive_names", "array_shape", "open_array", "read"]


@dataclass(frozen=True)
class ArrayStream:
    """An array in a file, read by rows; ``offset`` is the length of its header."""

    path: Path
    kind: str
    file: IO[bytes]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool

    @property
    def row_bytes(self) -> int:
        """Bytes of one element of the first dim."""
        return max(1, math.prod(self.shape[1:]) * self.dtype.itemsize)

    def blocks(self, rows: int) -> Iterator[npt.NDArray[Any]]:
        """The array in pieces of at most ``rows`` rows; one empty piece if it has none.

        Raises:
            TraceError: the file is truncated or damaged.
        """
        left = self.shape[0]
        if self.fortran or left == 0:
            yield self._values(math.prod(self.shape)).reshape(
                self.shape, order="F" if self.fortran else "C"
            )
            return
        while left:
            count = min(rows, left)
            yield self._values(count * math.prod(self.shape[1:])).reshape(count, *self.shape[1:])
            left -= count

    def _values(self, count: int) -> npt.NDArray[Any]:
        wanted = count * self.dtype.itemsize
        try:
            data = self.file.read(wanted)
        except Exception as error:  # zipfile and zlib raise nearly anything
            raise damaged(self.path, self.kind, error) from error
        if len(data) != wanted:
            raise damaged(self.path, self.kind, EOFError(f"{len(data)} of {wanted} bytes are left"))
        return np.frombuffer(data, dtype=self.dtype)


def open_array(stack: ExitStack, path: Path, kind: str, name: str | None = None) -> ArrayStream:
    """Open the array of a .npy file, or the one called ``name`` in a .npz file.

    Raises:
        TraceError: the file is truncated or damaged, or holds Python objects.
    """
    try:
        file: IO[bytes]
        if kind == "npy":
            file = stack.enter_context(path.open("rb"))
        else:
            archive = stack.enter_context(zipfile.ZipFile(path))
            file = stack.enter_context(archive.open(f"{name}.npy"))
        version = np.lib.format.read_magic(file)
        header = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = header(file)
    except Exception as error:  # a damaged header makes NumPy and zipfile raise nearly anything
        raise damaged(path, kind, error) from error
    if dtype.hasobject:
        raise TraceError(
            f"{path}: holds Python objects (object array), expected integers; rows of "
            "different lengths or None make one, mend them and save again"
        )
    return ArrayStream(path, kind, file, dtype, shape, fortran)


def archive_names(path: Path) -> list[str]:
    """Names of the arrays in a .npz file.

    Raises:
        TraceError: the file is truncated or damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except (OSError, zipfile.BadZipFile) as error:
        raise damaged(path, "npz", error) from error


def array_shape(path: Path, kind: str, name: str | None = None) -> tuple[int, ...]:
    """The shape an array says it has."""
    with ExitStack() as stack:
        return open_array(stack, path, kind, name).shape


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
    with ExitStack() as stack:
        if kind == "npy":
            yield from _read_pair(job, open_array(stack, job.path, kind), None)
            return
        names = archive_names(job.path)
        chosen = choose_array(job.path, names, ("experts", "data"), ("weights",))
        weights = None
        if "weights" in names and chosen != "weights":
            weights = open_array(stack, job.path, kind, "weights")
        yield from _read_pair(job, open_array(stack, job.path, kind, chosen), weights)


def _read_pair(
    job: ImportJob, ids: ArrayStream, weights: ArrayStream | None
) -> Iterator[RoutingChunk]:
    name = str(job.path)
    check_integer_dtype(np.empty(0, ids.dtype), name, "expert ids")
    if len(ids.shape) not in (2, 3):
        raise TraceError(
            f"{name}: expert ids have {len(ids.shape)} dims, shape {ids.shape}, expected "
            "[tokens, k] or [tokens, layers, k]; reshape them"
        )
    if weights is not None and weights.shape != ids.shape:
        raise TraceError(
            f"{name}: weights have shape {weights.shape}, the expert ids {ids.shape}; "
            "each expert id needs one weight"
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
        job.done(min(first * ids.row_bytes, job.path.stat().st_size))
