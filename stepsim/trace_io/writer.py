"""Writing Parquet piece by piece, in constant memory, all or nothing."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from stepsim.arrow import pa, pq
from stepsim.atomic import replacing
from stepsim.paths import local_path
from stepsim.trace_io.routing.origin import with_origin

ROW_GROUP_ROWS = 1 << 16
"""Most rows of a row group; about 3 MB of routing rows with k = 8. Row groups are small because a
reader that wants one layer reads the row groups that hold it."""

_LEAST_SHARE = 8
_MAX_BYTES = 16 << 20


class RowGroups:
    """Divides rows into row groups, so that a reader of few labels reads few groups.

    A group has at most ``rows`` rows. It ends where the label changes, once it has an eighth of
    them: a label with many rows gets its own groups, and labels with few rows share one.
    """

    def __init__(self, rows: int = ROW_GROUP_ROWS) -> None:
        self._most = rows
        self._least = max(1, rows // _LEAST_SHARE)
        self._label: Hashable = None
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._bytes = 0

    def add(self, table: pa.Table, label: Hashable = None) -> Iterator[pa.Table]:
        """Take rows of one label; yields the groups that are complete with them."""
        if label != self._label and self._rows >= self._least:
            yield from self.rest()
        self._label = label
        while table.num_rows:
            head = table.slice(0, self._most - self._rows)
            self._waiting.append(head)
            self._rows += head.num_rows
            self._bytes += head.nbytes
            table = table.slice(head.num_rows)
            if self._rows == self._most or self._bytes >= _MAX_BYTES:
                yield from self.rest()

    def rest(self) -> Iterator[pa.Table]:
        """The last group, if rows are left."""
        if self._waiting:
            table = pa.concat_tables(self._waiting)
            self._waiting, self._rows, self._bytes = [], 0, 0
            yield table


class ParquetStream:
    """A Parquet file under construction, used as a context manager.

    Rows are written to a temporary file in the same folder. It replaces ``path`` atomically when
    the block succeeds; when the block raises, it is removed and an existing ``path`` is unchanged.

    Args:
        path: the file to write.
        row_group_rows: rows of a row group, and the most rows held in memory.
        origin: is stored in the file, see :func:`read_origin`.

    Raises:
        OutputError: the file cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        row_group_rows: int = ROW_GROUP_ROWS,
        origin: dict[str, Any] | None = None,
    ) -> None:
        self.rows = 0
        self._path = Path(path)
        self._origin = origin
        self._groups = RowGroups(row_group_rows)
        self._writer: pq.ParquetWriter | None = None
        self._context = self._opened()

    def __enter__(self) -> ParquetStream:
        return self._context.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._context.__exit__(kind, error, trace)

    def write(self, table: pa.Table, label: Hashable = None) -> None:
        """Append rows; all tables of a file have one schema. ``label`` is that of `RowGroups`."""
        self.rows += table.num_rows
        for group in self._groups.add(table, label):
            self._write(group)

    @contextmanager
    def _opened(self) -> Iterator[ParquetStream]:
        with replacing(self._path) as (self._temporary,):
            try:
                yield self
                for group in self._groups.rest():
                    self._write(group)
            except BaseException:
                with suppress(OSError):  # the first error is more informative
                    self._close()
                raise
            self._close()

    def _write(self, group: pa.Table) -> None:
        if self._writer is None:
            schema = with_origin(group.schema, self._origin)
            self._writer = pq.ParquetWriter(
                local_path(self._temporary), schema, write_page_checksum=True
            )
        self._writer.write_table(group)

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
