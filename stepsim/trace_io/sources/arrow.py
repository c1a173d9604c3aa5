"""Arrow data in pieces that are read one by one: row groups of Parquet, batches of Arrow IPC.

Outside data is checked here, before anything looks at its values: a piece is valid Arrow
data and has as many rows as announced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from stepsim.arrow import pa, pq
from stepsim.errors import TraceError
from stepsim.paths import local_path
from stepsim.trace_io.files import check_expansion, damaged
from stepsim.trace_io.sources.ipc_sizes import check_ipc_sizes

ARROW_KINDS = ("parquet", "ipc file", "ipc stream")
"""The kinds of files that are read here, as `detect_format` calls them."""

_VALUE_BYTES = 8

Bounds = tuple[Any, Any]
"""Least and highest value of a column without nulls; (None, None) for nulls only."""


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of a source.

    Attributes:
        source: its name, for messages.
        first_row, rows: which rows of the source they are.
        bounds: bounds of columns, where the file has them.
    """

    source: str
    first_row: int
    rows: int
    _load: Callable[[Sequence[str]], pa.Table]
    bounds: Mapping[str, Bounds] = field(default_factory=dict)

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Load columns of the piece.

        Raises:
            TraceError: the data is damaged or invalid.
        """
        table = self._load(columns)
        _check_data(table, self.source)
        _check_rows(table.num_rows, self.rows, self.first_row, self.source)
        return table


@dataclass(frozen=True)
class Pieces:
    """A source in pieces, with its schema."""

    schema: pa.Schema
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)


def table_pieces(table: pa.Table, source: str) -> Pieces:
    """A table in memory as a single piece; ``source`` is its name for messages."""
    return Pieces(table.schema, (Piece(source, 0, table.num_rows, table.select),))


def arrow_table(source: object, name: str, column: str) -> pa.Table:
    """The table of any object that exports one; ``column`` is the column it should have.

    Raises:
        TraceError: it does not export a table.
    """
    try:
        if _is_too_deep(source):  # Arrow follows lists in lists by recursion, until it crashes
            raise TypeError("its lists are nested too deep")
        return pa.table(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise TraceError(
            f"{name}: is not an Arrow table ({error}); pass a path or a table with a column "
            f"`{column}`"
        ) from error


def _is_too_deep(source: object) -> bool:
    """Whether there are lists in the lists of the columns of a mapping."""
    columns = list(source.values()) if isinstance(source, Mapping) else [source]
    return any(
        isinstance(inner, list | tuple | dict)
        for column in columns
        if isinstance(column, list | tuple)
        for one in column
        if isinstance(one, list | tuple | dict)
        for inner in one
    )


def open_pieces(path: Path, kind: str, labels: Mapping[str, type] | None = None) -> Pieces:
    """The pieces of a file; of Parquet only the footer is read. A stream is read as a whole.

    ``labels`` are the columns whose bounds are wanted, as values of these types.

    Raises:
        TraceError: the file is truncated or damaged.
    """
    with _reading(path, kind):
        if kind == "parquet":
            return _row_groups(path, labels or {})
        check_ipc_sizes(path, kind, together=kind == "ipc stream")
        with pa.OSFile(str(path)) as file:
            if kind == "ipc stream":
                table = pa.ipc.open_stream(file).read_all()
                _ = table.column_names  # decodes the names, which Arrow does not check
                return table_pieces(table, str(path))
            opened = pa.ipc.open_file(file)
            _ = opened.schema.names
            sizes = [opened.get_batch(i).num_rows for i in range(opened.num_record_batches)]
        pieces = (
            Piece(str(path), end - rows, rows, partial(_read_batch, path, index))
            for index, (end, rows) in enumerate(zip(accumulate(sizes), sizes, strict=True))
        )
        return Pieces(opened.schema, tuple(pieces))


def read_schema(path: Path, kind: str) -> pa.Schema:
    """The schema of a file.

    Raises:
        TraceError: the file is truncated or damaged.
    """
    with _reading(path, kind):
        if kind == "parquet":
            schema = pq.read_schema(local_path(path))
        else:
            with pa.OSFile(str(path)) as file:
                opened = pa.ipc.open_file(file) if kind == "ipc file" else pa.ipc.open_stream(file)
                schema = opened.schema
        _ = schema.names
        return schema


def read_batches(
    path: Path, kind: str, columns: Sequence[str], rows: int
) -> Iterator[tuple[int, pa.Table, int]]:
    """Columns of a file from front to back: (first row, table, bytes of the file read so far).

    A table of a Parquet file has at most ``rows`` rows, one of an Arrow file those of its batch.

    Raises:
        TraceError: the file is truncated or damaged.
    """
    first = 0
    with _reading(path, kind):
        size = path.stat().st_size
        for batch, share in _batches(path, kind, list(columns), rows):
            table = pa.Table.from_batches([batch]).select(columns)
            _check_data(table, str(path))
            yield first, table, int(share * size)
            first += table.num_rows


def check_single(schema: pa.Schema, columns: Iterable[str], source: str) -> None:
    """Refuse columns that are there more than once.

    Raises:
        TraceError: one of ``columns`` occurs more than once.
    """
    for column in columns:
        count = schema.names.count(column)
        if count > 1:
            raise TraceError(
                f"{source}: {count} columns are called `{column}`, expected one; rename the others"
            )


def empty_table(schema: pa.Schema, source: str) -> pa.Table:
    """A table of no rows, to look at its types.

    Raises:
        TraceError: a type is impossible, such as lists of a negative length.
        pa.ArrowNotImplementedError: Arrow cannot make arrays of a type.
    """
    try:
        return schema.empty_table()
    except pa.ArrowInvalid as error:
        raise _invalid(source, error) from error


def _check_data(table: pa.Table, source: str) -> None:
    """Refuse offsets and dictionary indices that point outside the data."""
    try:
        table.validate(full=True)
    except pa.ArrowException as error:
        raise _invalid(source, error) from error


def _check_rows(found: int, announced: int, first_row: int, source: str) -> None:
    if found != announced:
        raise TraceError(
            f"{source}: the file is damaged, {announced} rows from row {first_row} are declared, "
            f"found {found}; write or copy it again"
        )


def _invalid(source: str, error: pa.ArrowException) -> TraceError:
    return TraceError(f"{source}: the Arrow data is invalid ({error}); write it again")


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Turns failures to read a file into our errors."""
    try:
        yield
    except TraceError:
        raise
    except MemoryError as error:  # Arrow's own out-of-memory error is a subclass
        raise TraceError(
            f"{path}: reading it needs more memory than is available ({error}); end other "
            "programs, or write it in smaller row groups or batches"
        ) from error
    except (OSError, EOFError, ValueError, pa.ArrowException) as error:
        raise damaged(path, kind, error) from error


def _batches(
    path: Path, kind: str, columns: list[str], rows: int
) -> Iterator[tuple[pa.RecordBatch, float]]:
    """Batches, and the share of the file that was read with each."""
    if kind != "parquet":
        size = max(1, path.stat().st_size)
        check_ipc_sizes(path, kind, together=False)
        with pa.OSFile(str(path)) as file:
            if kind == "ipc stream":
                for batch in pa.ipc.open_stream(file):
                    yield batch, file.tell() / size
                return
            opened = pa.ipc.open_file(file)
            for index in range(opened.num_record_batches):
                yield opened.get_batch(index), file.tell() / size
        return
    metadata = pq.read_metadata(local_path(path))
    total, done = max(1, metadata.num_rows), 0
    for group in range(metadata.num_row_groups):
        # One by one, since pyarrow keeps what it has read when it reads several row groups.
        first = done
        with _opened_group(path, metadata, group, columns, columns) as file:
            for batch in file.iter_batches(rows, row_groups=[group], columns=columns):
                done += batch.num_rows
                yield batch, done / total
        _check_rows(done - first, metadata.row_group(group).num_rows, first, str(path))


def _read_batch(path: Path, index: int, columns: Sequence[str]) -> pa.Table:
    with _reading(path, "ipc file"), pa.OSFile(str(path)) as file:
        batch = pa.ipc.open_file(file).get_batch(index)
        return pa.Table.from_batches([batch]).select(columns)


def _read_group(
    path: Path,
    metadata: pq.FileMetaData,
    group: int,
    texts: Sequence[str],
    columns: Sequence[str],
) -> pa.Table:
    with (
        _reading(path, "parquet"),
        _opened_group(path, metadata, group, columns, texts) as file,
    ):
        return file.read_row_group(group, columns=list(columns))


def _opened_group(
    path: Path,
    metadata: pq.FileMetaData,
    number: int,
    columns: Sequence[str],
    texts: Sequence[str],
) -> pq.ParquetFile:
    """A file to read columns of one row group from, unless its sizes are out of proportion.

    Many equal values take only a few bytes in the file. The columns ``texts`` are read as
    dictionaries, where each value takes an index. The compressed size includes the columns that
    are not read: labels alone may well take a few bytes for millions of rows, but their ids may
    not.

    Raises:
        TraceError: as `check_expansion`.
    """
    group = metadata.row_group(number)
    packed = unpacked = 0
    shared = []
    for leaf in map(group.column, range(group.num_columns)):
        packed += max(0, leaf.total_compressed_size)
        if leaf.path_in_schema.partition(".")[0] in columns:
            unpacked += _VALUE_BYTES * max(0, leaf.num_values)
            if leaf.physical_type == "BYTE_ARRAY":
                unpacked += max(0, leaf.total_uncompressed_size)
                # Values encoded as differences from their predecessors cannot be read into a
                # dictionary.
                if leaf.path_in_schema in texts and "DELTA_BYTE_ARRAY" not in leaf.encodings:
                    shared.append(leaf.path_in_schema)
    cure = "check that it is the recorded data, and write it in smaller row groups"
    check_expansion(path, "a row group", packed, unpacked, cure)
    return pq.ParquetFile(
        local_path(path),
        metadata=metadata,
        read_dictionary=shared,
        page_checksum_verification=True,
    )


def _row_groups(path: Path, labels: Mapping[str, type]) -> Pieces:
    with pq.ParquetFile(local_path(path), pre_buffer=True) as file:
        metadata, schema = file.metadata, file.schema_arrow
        known = [name for name in schema.names if name in labels]
        if known:
            # Before the first batch Arrow scans these columns of all row groups. Damage in them
            # raises an error there; reading their bounds first would crash the process.
            next(file.iter_batches(1, columns=known), None)
    # Looked up only once, by number and physical type, since a long trace has many row groups.
    leaves: dict[str, tuple[int, str]] = {}
    for index in range(metadata.num_columns):
        column = metadata.schema.column(index)
        if column.path in labels:
            leaves[column.path] = index, column.physical_type
    texts = [name for name, kind in labels.items() if kind is str]
    pieces, first = [], 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        load = partial(_read_group, path, metadata, index, texts)
        bounds = _bounds(group, leaves, labels)
        pieces.append(Piece(str(path), first, group.num_rows, load, bounds))
        first += group.num_rows
    return Pieces(schema, tuple(pieces))


def _bounds(
    group: pq.RowGroupMetaData,
    leaves: Mapping[str, tuple[int, str]],
    labels: Mapping[str, type],
) -> dict[str, Bounds]:
    found: dict[str, Bounds] = {}
    for name, (number, physical_type) in leaves.items():
        column = group.column(number)
        # In a damaged file; reading the statistics of such a column would crash the process.
        if column.physical_type != physical_type:
            continue
        statistics = column.statistics
        if statistics is None:
            continue
        if statistics.null_count == 0 and statistics.has_min_max:
            least = statistics.min
            # Columns of another type are refused when they are read.
            if type(least) is labels[name]:
                found[name] = (least, statistics.max)
        elif statistics.null_count == group.num_rows:
            found[name] = (None, None)
    return found
