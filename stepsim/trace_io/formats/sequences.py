"""Arrays [tokens, layers, k], the routing of one sequence, as chunks of one layer each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from stepsim.errors import TraceError
from stepsim.trace_io.formats.job import ImportJob, RoutingChunk, Sequence
from stepsim.trace_io.validate import check_integer_dtype

__all__ = ["check_shape", "nested_ids", "sequence_chunks"]


def nested_ids(value: object, source: str, field: str) -> npt.NDArray[Any]:
    """A nested list of expert ids as an array.

    Raises:
        TraceError: the lists are of different lengths, or hold something else than integers.
    """
    try:
        ids = np.array(value)
    except ValueError as error:
        raise TraceError(
            f"{source}: `{field}` has lists of different lengths, expected a regular nesting of "
            "[tokens, layers, k]; record it again"
        ) from error
    if not ids.size:  # an empty list has no type
        return ids.astype(np.int64)
    check_integer_dtype(ids, source, f"`{field}`")
    return ids


def check_shape(shape: tuple[int, ...], source: str, field: str) -> None:
    """Refuse another shape than [tokens, layers, k]; one without tokens may have any.

    Raises:
        TraceError: another number of dims, no layers, or no experts per token.
    """
    if shape[:1] == (0,):
        return
    if len(shape) != 3:
        raise TraceError(
            f"{source}: `{field}` has {len(shape)} dims, shape {shape}, expected "
            "[tokens, layers, k]; record it again"
        )
    for count, what in zip(shape[1:], ("layers", "experts per token"), strict=True):
        if count == 0:
            raise TraceError(
                f"{source}: `{field}` has 0 {what} (shape {shape}), expected at least 1; "
                "record it again"
            )


def sequence_chunks(
    job: ImportJob,
    ids: npt.NDArray[Any],
    *,
    source: str,
    field: str,
    step: int,
    first_token: int,
    first_row: int = 0,
    weights: npt.NDArray[Any] | None = None,
) -> Iterator[RoutingChunk]:
    """Split ids [tokens, layers, k] by layer; no tokens make no chunks.

    With ``job.drop_missing``, tokens whose ids are all negative are left out and those after them
    move up. ``first_row`` is the row of the source that the first token comes from.

    Raises:
        TraceError: another number of dims or layers than expected or than in the sequences before,
            a token marked -1 that is not left out, or an invalid id.
    """
    check_shape(ids.shape, source, field)
    if not len(ids):
        return
    if job.layers is not None and ids.shape[1] != job.layers:
        raise TraceError(
            f"{source}: `{field}` has {ids.shape[1]} layers (shape {ids.shape}), expected "
            f"{job.layers}; check that the trace belongs to this model"
        )
    _check_layers(job, ids.shape, source, field)
    rows = None
    if job.drop_missing:
        kept = (ids >= 0).any(axis=(1, 2))
        ids, rows = ids[kept], np.flatnonzero(kept)
        weights = None if weights is None else weights[kept]
        if not len(ids):
            return
    else:
        _check_marks(ids, source, field, first_row)
    for layer in range(ids.shape[1]):
        yield job.chunk(
            ids[:, layer],
            source=source,
            layer=layer,
            step=step,
            first_token=first_token,
            rows=rows,
            first_row=first_row,
            weights=None if weights is None else weights[:, layer],
        )


def _check_marks(ids: npt.NDArray[Any], source: str, field: str, first_row: int) -> None:
    marked = (ids == -1).all(axis=(1, 2))
    if marked.any():
        raise TraceError(
            f"{source}: token {first_row + int(np.argmax(marked))} of `{field}` is marked -1, its "
            "experts were not recorded (prefix cache); record without prefix caching, or use "
            "--drop-missing"
        )


def _check_layers(job: ImportJob, shape: tuple[int, ...], source: str, field: str) -> None:
    first = job.first_sequence
    if first is None:
        job.first_sequence = Sequence(shape[1], source, field)
    elif first.layers != shape[1]:
        raise TraceError(
            f"{source}: `{field}` has {shape[1]} layers (shape {shape}), expected {first.layers} "
            f"as {first} has; all sequences of a trace are of one model, read others from a file "
            "of their own"
        )
