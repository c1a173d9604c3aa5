"""Arrow data in pieces that are read one by one: row groups of Parquet, batches of Arrow IPC.

What comes from outside is checked here, before anything looks at its values: a piece is valid Arrow
data and has as many rows as announced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from stepsim.errors import TraceError
from stepsim.trace_io.files import damaged

__all__ = [
    "Piece",
    "Pieces",
    "check_data",
    "check_rows",
    "check_single",
    "empty_table",
    "open_pieces",
    "table_pieces",
]

Bounds = tuple[Any, Any]
"""Least and highest value of a column without nulls; (None, None) for nulls only."""


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of a source.

    Attributes:
        source: its name, for messages.
        first_row, rows: which rows of the source they are.
        bounds: of columns, as far as the file tells them.
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
        check_data(table, self.source)
        check_rows(table.num_rows, self.rows, self.first_row, self.source)
        return table


@dataclass(frozen=True)
class Pieces:
    """A source in pieces, with its schema."""

    schema: pa.Schema
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Load columns of all pieces, of which there is at least one; see `Piece.read`."""
        return pa.concat_tables([piece.read(columns) for piece in self.pieces])


def table_pieces(table: pa.Table, source: str) -> Pieces:
    """A table in memory as a single piece; ``source`` is its name for messages."""
    return Pieces(table.schema, (Piece(source, 0, table.num_rows, table.select),))


def check_data(table: pa.Table, source: str) -> None:
    """Refuse offsets and dictionary indices that lead outside of the data.

    Raises:
        TraceError: there are such ones.
    """
    try:
        table.validate(full=True)
    except pa.ArrowException as error:
        raise _invalid(source, error) from error


def empty_table(schema: pa.Schema, source: str) -> pa.Table:
    """A table of no rows, to look at its types.

    Raises:
        TraceError: a type is impossible, as lists of a negative length.
        pa.ArrowNotImplementedError: Arrow makes no arrays of a type.
    """
    try:
        return schema.empty_table()
    except pa.ArrowInvalid as error:
        raise _invalid(source, error) from error


def _invalid(source: str, error: pa.ArrowException) -> TraceError:
    return TraceError(f"{source}: the Arrow data is invalid ({error}); write it again")


def check_rows(found: int, announced: int, first_row: int, source: str) -> None:
    """Refuse another number of rows than a file announced.

    Raises:
        TraceError: it is another one.
    """
    if found != announced:
        raise TraceError(
            f"{source}: the file is damaged, {announced} rows from row {first_row} are announced, "
            f"found {found}; write or copy it again"
        )


def check_single(schema: pa.Schema, columns: Iterable[str], source: str) -> None:
    """Refuse columns that are there more than once.

    Raises:
        TraceError: one of ``columns`` is.
    """
    for column in columns:
        count = schema.names.count(column)
        if count > 1:
            raise TraceError(
                f"{source}: {count} columns are called `{column}`, expected one; rename the others"
            )


def open_pieces(path: Path, kind: str, labels: Mapping[str, type] | None = None) -> Pieces:
    """The pieces of a file; of Parquet only the footer is read. A stream is read as a whole.

    ``labels`` are the columns whose bounds are wanted, as values of these types.

    Raises:
        TraceError: the file is truncated or damaged.
    """
    try:
        if kind == "parquet":
            return _row_groups(path, labels or {})
        if kind == "ipc file":
            return _batches(path)
        with pa.OSFile(str(path)) as file:
            table = pa.ipc.open_stream(file).read_all()
        _ = table.column_names  # decodes the names, which Arrow does not check
        return table_pieces(table, str(path))
    except (OSError, EOFError, ValueError, pa.ArrowException) as error:
        raise damaged(path, kind, error) from error


class _Leaf(NamedTuple):
    """A column of a Parquet file as its schema has it."""

    number: int
    physical_type: str


def _row_groups(path: Path, labels: Mapping[str, type]) -> Pieces:
    with pq.ParquetFile(path, pre_buffer=True) as file:
        metadata, schema = file.metadata, file.schema_arrow
        known = [name for name in schema.names if name in labels]
        if known:
            # Before the first batch Arrow looks through these columns of all row groups. What is
            # wrong with them is an error there; where bounds are looked at, it ends the process.
            next(file.iter_batches(1, columns=known), None)

    def reader(group: int) -> Callable[[Sequence[str]], pa.Table]:
        def read(columns: Sequence[str]) -> pa.Table:
            try:
                with pq.ParquetFile(
                    path, metadata=metadata, page_checksum_verification=True
                ) as file:
                    return file.read_row_group(group, columns=list(columns))
            except (OSError, EOFError, ValueError, pa.ArrowException) as error:
                raise damaged(path, "parquet", error) from error

        return read

    # Looked up once: a long trace has many row groups.
    leaves: dict[str, _Leaf] = {}
    for index in range(metadata.num_columns):
        column = metadata.schema.column(index)
        if column.path in labels:
            leaves[column.path] = _Leaf(index, column.physical_type)

    def pieces() -> Iterator[Piece]:
        first = 0
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            bounds = _bounds(group, leaves, labels)
            yield Piece(str(path), first, group.num_rows, reader(index), bounds)
            first += group.num_rows

    return Pieces(schema, tuple(pieces()))


def _bounds(
    group: pq.RowGroupMetaData, leaves: Mapping[str, _Leaf], labels: Mapping[str, type]
) -> dict[str, Bounds]:
    found: dict[str, Bounds] = {}
    for name, leaf in leaves.items():
        column = group.column(leaf.number)
        # In a damaged file; the statistics of such a column would end the process.
        if column.physical_type != leaf.physical_type:
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


def _batches(path: Path) -> Pieces:
    def reader(index: int) -> Callable[[Sequence[str]], pa.Table]:
        def read(columns: Sequence[str]) -> pa.Table:
            try:
                with pa.OSFile(str(path)) as file:
                    batch = pa.ipc.open_file(file).get_batch(index)
                    return pa.Table.from_batches([batch]).select(columns)
            except (OSError, EOFError, ValueError, pa.ArrowException) as error:
                raise damaged(path, "ipc file", error) from error

        return read

    with pa.OSFile(str(path)) as file:
        opened = pa.ipc.open_file(file)
        _ = opened.schema.names
        sizes = [opened.get_batch(i).num_rows for i in range(opened.num_record_batches)]
    ends = accumulate(sizes)
    return Pieces(
        opened.schema,
        tuple(
            Piece(str(path), end - rows, rows, reader(i))
            for i, (end, rows) in enumerate(zip(ends, sizes, strict=True))
        ),
    )
