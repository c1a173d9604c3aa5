"""Writing Parquet piece by piece, in constant memory, whole or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from stepsim.errors import OutputError

__all__ = ["ROW_GROUP_ROWS", "ParquetStream"]

ROW_GROUP_ROWS = 1 << 20
"""Rows that are collected before they are written; about 50 MB of routing rows with k = 8."""


class ParquetStream:
    """A Parquet file under construction, used as a context manager.

    Rows go to a temporary name in the same folder. It replaces ``path`` in one move when the block
    ends well; when the block raises, it is removed and an existing ``path`` stays as it was.

    Args:
        path: the file to write.
        row_group_rows: rows of a row group, and the most that are held in memory.

    Raises:
        OutputError: the file cannot be written.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, row_group_rows: int = ROW_GROUP_ROWS
    ) -> None:
        self.rows = 0
        self._path = Path(path)
        self._temporary = self._path.with_name(f".{self._path.name}.{secrets.token_hex(6)}.tmp")
        self._row_group_rows = row_group_rows
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0

    def __enter__(self) -> ParquetStream:
        return self

    def write(self, table: pa.Table) -> None:
        """Append rows; all tables of a file have one schema."""
        self.rows += table.num_rows
        while table.num_rows:
            head = table.slice(0, self._row_group_rows - self._waiting_rows)
            self._waiting.append(head)
            self._waiting_rows += head.num_rows
            table = table.slice(head.num_rows)
            if self._waiting_rows == self._row_group_rows:
                self._write_waiting()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._write_waiting()
                self._close()
                self._replace()
        finally:
            with suppress(OSError, pa.ArrowException):
                if self._writer is not None:
                    self._writer.close()
            with suppress(OSError):
                self._temporary.unlink(missing_ok=True)

    def _write_waiting(self) -> None:
        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting)
        self._waiting, self._waiting_rows = [], 0
        try:
            if self._writer is None:
                self._writer = pq.ParquetWriter(
                    self._temporary, table.schema, write_page_checksum=True
                )
            self._writer.write_table(table, row_group_size=self._row_group_rows)
        except (OSError, pa.ArrowException) as error:
            raise self._refused(error) from error

    def _close(self) -> None:
        if self._writer is None:
            return
        try:
            self._writer.close()
        except (OSError, pa.ArrowException) as error:
            raise self._refused(error) from error
        self._writer = None

    def _replace(self) -> None:
        try:
            self._temporary.replace(self._path)
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: Exception) -> OutputError:
        return OutputError(
            f"{self._path}: cannot be written ({error}); check that the folder exists, is "
            "writeable and has space"
        )
