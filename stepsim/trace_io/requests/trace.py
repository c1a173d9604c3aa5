"""`RequestTrace`: the requests a serving system received, with their lengths in tokens."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stepsim.arguments import shown
from stepsim.arrow import pa
from stepsim.data import locate
from stepsim.errors import ArgError, TraceError
from stepsim.trace_io.columns import Lists, count_column, list_column
from stepsim.trace_io.files import detect_format
from stepsim.trace_io.routing.validate import array_of
from stepsim.trace_io.schema import REQUESTS_SCHEMA_VERSION, check_version, requests_schema
from stepsim.trace_io.sources.arrow import (
    ARROW_KINDS,
    Pieces,
    arrow_table,
    check_single,
    open_pieces,
    table_pieces,
)
from stepsim.trace_io.writer import ParquetStream
from stepsim.typed import typed

OWN_REQUESTS = "requests"
"""Name of the format of our own schema."""

_COLUMNS = ("context_tokens", "generated_tokens", "arrival_seconds", "prefix_hashes")


@dataclass(frozen=True, eq=False)
class RequestTrace:
    """Requests in order of arrival; checked, immutable, hashable by content.

    Attributes:
        context_tokens: int64 [requests], tokens of each prompt, read-only.
        generated_tokens: int64 [requests], or None when not recorded.
        arrival_seconds: float64 [requests], seconds after the first request of the trace, never
            decreasing; None when not recorded; only the order is known then.
        prefix_hashes: ids of the blocks of each prompt, one int64 array per request, or None.
        source: where the trace comes from, for messages; not part of its content.

    Raises:
        TraceError: no requests, arrays of different lengths, a negative length, a time that is
            negative, not finite or before its predecessor, or an id that does not fit int64; the
            message has the row (from 0).
    """

    context_tokens: npt.NDArray[np.int64]
    generated_tokens: npt.NDArray[np.int64] | None = None
    arrival_seconds: npt.NDArray[np.float64] | None = None
    prefix_hashes: tuple[npt.NDArray[np.int64], ...] | None = None
    source: str = "array"

    def __post_init__(self) -> None:
        for name in ("context_tokens", "generated_tokens"):
            values = getattr(self, name)
            if values is not None:
                object.__setattr__(
                    self, name, self._lengths(name, array_of(name, values, self.source))
                )
        if self.arrival_seconds is not None:
            object.__setattr__(self, "arrival_seconds", self._times(self.arrival_seconds))
        if self.prefix_hashes is not None:
            given: object = self.prefix_hashes
            if not isinstance(given, Sequence) or isinstance(given, str):
                raise TraceError(
                    f"{self.source}: prefix_hashes are {shown(self.prefix_hashes)}, expected an "
                    "array of ids for each request"
                )
            self._check_count("prefix_hashes", len(self.prefix_hashes))
            hashes = tuple(self._ids(*numbered) for numbered in enumerate(self.prefix_hashes))
            object.__setattr__(self, "prefix_hashes", hashes)

    def __len__(self) -> int:
        return int(self.context_tokens.shape[0])

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self)

    @typed
    def window(self, first: int, last: int) -> RequestTrace:
        """The requests ``first`` to ``last``, both included and counted from 1.

        Arrival times are not shifted: they still count from the start of the full trace.

        Raises:
            ArgError: not 1 <= first <= last <= requests.
        """
        if not 1 <= first <= last <= len(self):
            raise ArgError(
                f"window: {first}..{last} is not within the {len(self)} requests of {self.source}; "
                f"requests count from 1 to {len(self)}, both ends are included"
            )
        rows = slice(first - 1, last)
        return RequestTrace(
            self.context_tokens[rows],
            None if self.generated_tokens is None else self.generated_tokens[rows],
            None if self.arrival_seconds is None else self.arrival_seconds[rows],
            None if self.prefix_hashes is None else self.prefix_hashes[rows],
            self.source,
        )

    @typed
    def identity(self) -> str:
        """SHA-256 (hex) of the content, but not the source; the same on every machine."""
        digest = hashlib.sha256()
        digest.update(repr(("requests", REQUESTS_SCHEMA_VERSION, len(self))).encode())
        digest.update(self.context_tokens.astype("<i8").tobytes())
        if self.generated_tokens is not None:
            digest.update(b"generated" + self.generated_tokens.astype("<i8").tobytes())
        if self.arrival_seconds is not None:
            digest.update(b"arrival" + self.arrival_seconds.astype("<f8").tobytes())
        if self.prefix_hashes is not None:
            digest.update(b"prefixes")
            for ids in self.prefix_hashes:
                digest.update(len(ids).to_bytes(8, "little") + ids.astype("<i8").tobytes())
        return digest.hexdigest()

    @typed
    def to_arrow(self, first: int = 0) -> pa.Table:
        """The trace in the schema of :func:`stepsim.trace_io.requests_schema`.

        Requests are numbered from ``first``.
        """
        schema = requests_schema(
            arrival=self.arrival_seconds is not None,
            generated=self.generated_tokens is not None,
            prefix_hashes=self.prefix_hashes is not None,
        )
        columns = [pa.array(np.arange(first, first + len(self), dtype=np.int64))]
        if self.arrival_seconds is not None:
            columns.append(pa.array(self.arrival_seconds))
        columns.append(pa.array(self.context_tokens))
        if self.generated_tokens is not None:
            columns.append(pa.array(self.generated_tokens))
        if self.prefix_hashes is not None:
            offsets = np.cumsum([0, *map(len, self.prefix_hashes)], dtype=np.int32)
            values = pa.array(np.concatenate(self.prefix_hashes), pa.int64())
            kind = schema.field("prefix_hashes").type
            columns.append(pa.ListArray.from_arrays(pa.array(offsets), values, type=kind))
        return pa.Table.from_arrays(columns, schema=schema)

    @typed
    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to one Parquet file, completely or not at all.

        Raises:
            OutputError: the file cannot be written; an existing file is then left as it was.
        """
        with ParquetStream(path) as file:
            file.write(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """Export to any consumer of the Arrow PyCapsule interface."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RequestTrace):
            return NotImplemented
        return self.identity() == other.identity()

    def __hash__(self) -> int:
        return hash(self.identity())

    def __repr__(self) -> str:
        return f"RequestTrace(requests={len(self)}, source={self.source!r})"

    def _lengths(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise TraceError(
                f"{self.source}: {name} are {values.dtype} of shape {values.shape}, expected "
                "integers (requests,); convert them with .astype(np.int64)"
            )
        if name == "context_tokens" and not values.size:
            raise TraceError(
                f"{self.source}: the trace is empty, it has 0 requests, expected at least 1; "
                "record it again"
            )
        self._check_count(name, len(values))
        bad = (values < 0) | (values > np.iinfo(np.int64).max)
        if bad.any():
            row = int(np.argmax(bad))
            raise TraceError(
                f"{self.source}: row {row}: {name} is {int(values[row])}, expected at least 0 "
                "tokens; drop the request or record it again"
            )
        return _frozen(values.astype(np.int64, copy=False))

    def _times(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        given = array_of("arrival_seconds", values, self.source)
        if given.ndim != 1 or given.dtype.kind not in "iuf":
            raise TraceError(
                f"{self.source}: arrival_seconds are {given.dtype} of shape {given.shape}, "
                "expected numbers (requests,); convert them with .astype(np.float64)"
            )
        times = given.astype(np.float64)
        self._check_count("arrival_seconds", len(times))
        bad = ~np.isfinite(times) | (times < 0)
        if bad.any():
            row = int(np.argmax(bad))
            raise TraceError(
                f"{self.source}: row {row}: arrival_seconds is {times[row]}, expected seconds "
                "after the first request, at least 0; drop the request or record it again"
            )
        back = np.flatnonzero(np.diff(times) < 0)
        if back.size:
            row = int(back[0]) + 1
            raise TraceError(
                f"{self.source}: row {row}: arrival_seconds is {times[row]}, before the "
                f"{times[row - 1]} of row {row - 1}, expected the order of arrival; sort the trace"
            )
        return _frozen(times)

    def _ids(self, row: int, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        ids = array_of("prefix_hashes", values, self.source)
        if ids.dtype == np.int64 and ids.ndim == 1:
            return _frozen(ids)
        whole = ids.ndim == 1 and (ids.dtype.kind in "iu" or not ids.size)
        if not whole or (ids > np.iinfo(np.int64).max).any():
            found = f"{ids.dtype} of shape {ids.shape}"
            if whole:
                found = f"an id of {int(ids.max())}"
            raise TraceError(
                f"{self.source}: row {row}: prefix_hashes holds {found}, expected a list of int64; "
                "number the blocks with smaller ids"
            )
        return _frozen(ids.astype(np.int64, copy=False))

    def _check_count(self, name: str, count: int) -> None:
        if count != len(self.context_tokens):
            raise TraceError(
                f"{self.source}: {count} {name}, but {len(self.context_tokens)} "
                "context_tokens; each request needs one of each"
            )


@typed
def read_requests(source: object, *, columns: Sequence[str] = _COLUMNS) -> RequestTrace:
    """Read a request trace in our schema: a Parquet or Arrow IPC file, or an Arrow object.

    Other formats are read by :func:`stepsim.trace_io.import_trace`, which writes such a file.
    ``columns`` are the ones to read if present; ``context_tokens`` must be one of them.

    Raises:
        TraceError: the source is unreadable, of another schema, or holds an invalid value.
        ArgError: ``columns`` names one that is not in the schema, or lacks ``context_tokens``.
    """
    if "context_tokens" not in columns or not set(columns) <= set(_COLUMNS):
        raise ArgError(
            f"read_requests: columns are {', '.join(columns) or 'none'}, expected context_tokens "
            f"and any of {', '.join(_COLUMNS)}"
        )
    if isinstance(source, str | os.PathLike):
        path = locate(source)
        name, kind = str(path), detect_format(path)
        if kind is None or kind not in ARROW_KINDS:
            raise TraceError(
                f"{path}: is not an Arrow file ({kind or 'unknown first bytes'}), expected Parquet "
                "or Arrow IPC in the request schema; convert it with: stepsim trace import"
            )
        return _from_pieces(open_pieces(path, kind), name, columns)
    name = type(source).__name__
    return _from_pieces(
        table_pieces(arrow_table(source, name, "context_tokens"), name), name, columns
    )


def join_requests(parts: Sequence[RequestTrace], source: str) -> RequestTrace:
    """One trace from the pieces in which it was read, at least one.

    Raises:
        TraceError: as `RequestTrace`.
    """
    generated = [part.generated_tokens for part in parts if part.generated_tokens is not None]
    arrival = [part.arrival_seconds for part in parts if part.arrival_seconds is not None]
    hashes = [part.prefix_hashes for part in parts if part.prefix_hashes is not None]
    return RequestTrace(
        np.concatenate([part.context_tokens for part in parts]),
        np.concatenate(generated) if generated else None,
        np.concatenate(arrival) if arrival else None,
        tuple(ids for part in hashes for ids in part) if hashes else None,
        source,
    )


def _from_pieces(source: Pieces, name: str, columns: Sequence[str]) -> RequestTrace:
    schema = source.schema
    check_version(schema, name, newest=REQUESTS_SCHEMA_VERSION, what="request")
    if "context_tokens" not in schema.names:
        listed = ", ".join(f"`{column}`" for column in schema.names) or "none"
        raise TraceError(
            f"{name}: has no column `context_tokens` (found {listed}), expected a request trace; "
            "import it first with: stepsim trace import"
        )
    check_single(schema, _COLUMNS, name)
    if source.rows == 0:
        raise TraceError(
            f"{name}: the trace is empty, it has 0 requests, expected at least 1; record it again"
        )
    present = [column for column in columns if column in schema.names]
    table = pa.concat_tables([piece.read(present) for piece in source.pieces])
    times = hashes = None
    if "arrival_seconds" in present:
        column = table.column("arrival_seconds")
        if not pa.types.is_floating(column.type) or column.null_count:
            raise TraceError(
                f"{name}: column `arrival_seconds` is {column.type} with {column.null_count} "
                "nulls, expected floats without nulls; cast it before reading"
            )
        times = column.to_numpy()
    if "prefix_hashes" in present:
        hashes = _prefix_hashes(
            list_column(table, "prefix_hashes", name, what="ids of blocks"), name
        )
    generated = (
        count_column(table, "generated_tokens", name) if ("generated_tokens" in present) else None
    )
    return RequestTrace(count_column(table, "context_tokens", name), generated, times, hashes, name)


def _prefix_hashes(lists: Lists, name: str) -> tuple[npt.NDArray[Any], ...]:
    bad = ~lists.present
    bad[np.searchsorted(lists.starts, np.flatnonzero(lists.nulls), side="right") - 1] = True
    if bad.any():
        raise TraceError(
            f"{name}: row {int(np.argmax(bad))}: `prefix_hashes` is null or holds null, expected "
            "the id of every block; fill it in or leave the column out"
        )
    return tuple(np.split(lists.values, lists.starts[1:]))


def _frozen(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A private, read-only copy; the array itself if it is one."""
    flags = values.flags
    if flags.owndata and flags.c_contiguous and not flags.writeable:
        return values
    own = np.array(values, order="C", copy=True)
    own.flags.writeable = False
    return own
