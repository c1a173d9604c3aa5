"""Arrays [tokens, layers, k], the routing of one sequence, as tables of one layer each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from stepsim.errors import TraceError
from stepsim.trace_io.formats.job import ImportJob
from stepsim.trace_io.routing.table import RoutingTable
from stepsim.trace_io.routing.validate import Place, check_integer_dtype


def nested_ids(value: object, source: str, field: str) -> npt.NDArray[Any]:
    """A nested list of expert ids as an array.

    Raises:
        TraceError: the lists are of different lengths, or hold values other than integers.
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
    """Refuse any shape but [tokens, layers, k]; without tokens any shape is accepted.

    Raises:
        TraceError: the number of dims differs, or there are no layers, or no experts per token.
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


class Sequence:
    """Consecutive tokens of a sequence, ids [tokens, layers, k].

    With ``job.drop_missing``, tokens whose ids are all negative are left out and those after them
    move up.

    Args:
        job: what is known about the ids.
        ids, weights: the values; without tokens they may have any shape.
        source, field: where the values are, for messages.
        first_row: the row of the source that the first token comes from.

    Attributes:
        tokens: number of tokens to read.

    Raises:
        TraceError: the number of dims or layers differs from the expected one or from earlier
            sequences, or a token marked -1 that is not left out.
    """

    def __init__(
        self,
        job: ImportJob,
        ids: npt.NDArray[Any],
        source: str,
        field: str,
        *,
        first_row: int = 0,
        weights: npt.NDArray[Any] | None = None,
    ) -> None:
        check_shape(ids.shape, source, field)
        self._rows: npt.NDArray[np.int64] | None = None
        if len(ids):
            job.check_layers(ids.shape[1], ids.shape, source, field)
            if job.drop_missing:
                kept = (ids >= 0).any(axis=(1, 2))
                ids, self._rows = ids[kept], np.flatnonzero(kept)
                weights = None if weights is None else weights[kept]
            else:
                _check_marks(ids, source, field, first_row)
        self._job, self._ids, self._weights = job, ids, weights
        self._source, self._first_row = source, first_row
        self.tokens = len(ids)

    def tables(self, step: int, first_token: int = 0) -> Iterator[RoutingTable]:
        """A table per layer; no tables if there are no tokens.

        Raises:
            TraceError: an invalid value.
        """
        for layer in range(self._ids.shape[1] if self.tokens else 0):
            place = Place(
                self._source,
                layer,
                step,
                first_token,
                rows=self._rows,
                first_row=self._first_row,
            )
            weights = None if self._weights is None else self._weights[:, layer]
            yield self._job.table(self._ids[:, layer], place, weights)


def _check_marks(ids: npt.NDArray[Any], source: str, field: str, first_row: int) -> None:
    marked = (ids == -1).all(axis=(1, 2))
    if marked.any():
        raise TraceError(
            f"{source}: token {first_row + int(np.argmax(marked))} of `{field}` is marked -1, its "
            "experts were not recorded (prefix cache); record without prefix caching, or use "
            "--drop-missing"
        )
