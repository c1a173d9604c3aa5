"""Reading the decode steps that a replay wrote: a batch of KV-cache lengths per row."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stepsim.arrow import pa
from stepsim.errors import TraceError
from stepsim.trace_io.columns import Lists, index_column, list_column
from stepsim.trace_io.routing.parts import Span
from stepsim.trace_io.schema import check_version, schema_name
from stepsim.trace_io.sources.arrow import Piece, Pieces, check_single

DECODE_STEPS = "decode-steps"
"""Name of the schema, in the metadata of a file."""

_COLUMNS = ("step", "kv_lengths")


def refuse_decode_steps(schema: pa.Schema, path: Path) -> None:
    """Refuse a file of decode steps where a trace is expected; its lists are not expert ids.

    Raises:
        TraceError: the schema is that of decode steps.
    """
    if schema_name(schema) == DECODE_STEPS or {*_COLUMNS, "requests"} <= set(schema.names):
        raise TraceError(
            f"{path}: holds the steps of a replay, expected a trace of expert routing or of "
            f"requests; use it with --kv-lengths {path},step=N, or in a sweep as cache lengths"
        )


class DecodeStepFile:
    """The steps of a file in the schema of :func:`stepsim.trace_io.replay_schema`.

    Opening reads it once, piece by piece, and keeps 16 bytes per step. The lengths of the piece
    read last are kept, since steps are mostly read in order.

    Attributes:
        steps: int64 [steps], their numbers.
        sizes: int64 [steps], requests of each.

    Raises:
        TraceError: a column occurs twice, there are no steps, a value is missing, or a step
            has no requests.
    """

    def __init__(self, source: Pieces, name: str) -> None:
        check_version(source.schema, name, what=DECODE_STEPS)
        check_single(source.schema, _COLUMNS, name)
        self._pieces = [piece for piece in source.pieces if piece.rows]
        self._name = name
        self._lock = threading.Lock()
        self._last: tuple[int, Lists] | None = None
        if not self._pieces:
            raise TraceError(f"{name}: holds no steps, expected at least 1; replay it again")
        steps, sizes = [], []
        for piece in self._pieces:
            table = piece.read(_COLUMNS)
            steps.append(index_column(table, "step", name, piece.first_row))
            sizes.append(list_column(table, "kv_lengths", name, what="KV lengths").lengths)
        self.steps = np.concatenate(steps)
        self.sizes = np.concatenate(sizes)
        if not self.sizes.all():
            row = int(np.argmin(self.sizes))
            raise TraceError(
                f"{name}: row {row}: step {int(self.steps[row])} has no requests, expected at "
                "least 1; drop the row"
            )
        self._first_rows = [piece.first_row for piece in self._pieces]

    def read(self, row: int, span: Span) -> npt.NDArray[np.int64]:
        """Lengths of the requests ``span`` of a step, given by its row.

        Raises:
            TraceError: a length is missing, or the file is damaged.
        """
        number = int(np.searchsorted(self._first_rows, row, side="right")) - 1
        column = self._column(number, self._pieces[number])
        local = row - self._first_rows[number]
        first = int(column.starts[local]) + span.first
        rows = slice(first, first + span.size)
        nulls = column.nulls[rows]
        if nulls.any():
            request = span.first + int(np.argmax(nulls))
            raise TraceError(
                f"{self._name}: step {int(self.steps[row])}, request {request}: the KV length is "
                "null, expected one for every request; replay the trace again"
            )
        return np.asarray(column.values[rows])

    def _column(self, number: int, piece: Piece) -> Lists:
        with self._lock:
            if self._last is None or self._last[0] != number:
                table = piece.read(["kv_lengths"])
                column = list_column(table, "kv_lengths", self._name, what="KV lengths")
                self._last = number, column
            return self._last[1]
