"""Comma-separated text, read by pyarrow: columns of fields, and the line of each."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stepsim.arrow import pa, pc
from stepsim.errors import TraceError
from stepsim.trace_io.files import unreadable

_BLOCK_BYTES = 1 << 18
"""Bytes of text read at a time, which is also the longest possible line."""

# A handler of invalid rows would be called with their text, which may not be UTF-8.
_ROW = re.compile(
    r"Row #(?P<line>\d+): Expected \d+ columns, got (?P<fields>\d+): (?P<text>.*)", re.S
)
_FIRST_BYTES = 1 << 16


@dataclass(frozen=True)
class Lines:
    """Consecutive lines of a file, split into fields without blanks and quotes around them.

    Attributes:
        path: the file.
        numbers: int64 [lines], the number of each line, from 1.
        columns: the fields of each column that was asked for.
        bytes_read: how much of the file was read with them.
    """

    path: Path
    numbers: npt.NDArray[np.int64]
    columns: tuple[pa.StringArray, ...]
    bytes_read: int

    def __len__(self) -> int:
        return len(self.numbers)

    def filled(self) -> npt.NDArray[np.bool_]:
        """Whether each line has a value in any of these columns."""
        blank = np.ones(len(self), dtype=bool)
        for column in self.columns:
            blank &= np.asarray(pc.equal(column, ""))
        return ~blank

    def take(self, kept: npt.NDArray[np.bool_]) -> Lines:
        """The lines that are ``kept``."""
        if kept.all():
            return self
        columns = tuple(column.filter(pa.array(kept)) for column in self.columns)
        return Lines(self.path, self.numbers[kept], columns, self.bytes_read)

    def matches(self, column: int, pattern: str) -> npt.NDArray[np.bool_]:
        """Which fields of a column match the regular expression ``pattern``."""
        return np.asarray(pc.match_substring_regex(self.columns[column], f"^(?:{pattern})$"))

    def integers(
        self, column: int, name: str, expected: str, *, pattern: str = "[0-9]{1,18}"
    ) -> npt.NDArray[np.int64]:
        """A column of integers; ``name`` and ``expected`` are for messages.

        Raises:
            TraceError: a field does not match ``pattern``.
        """
        good = self.matches(column, pattern)
        if not good.all():
            raise self.wrong(column, int(np.argmin(good)), name, expected)
        return np.asarray(self.columns[column].cast(pa.int64()))

    def wrong(self, column: int, index: int, name: str, expected: str) -> TraceError:
        """The error for a field."""
        found = self.columns[column][index].as_py()
        return TraceError(
            f"{self.path}: line {self.numbers[index]}: {name} is {found!r}, expected {expected}; "
            "correct or drop the line"
        )


def first_fields(path: Path) -> list[str]:
    """The fields of the first line, which may be the names of the columns.

    Raises:
        TraceError: the file is unreadable.
    """
    try:
        with path.open("rb") as file:
            line = file.readline(_FIRST_BYTES)
    except OSError as error:
        raise unreadable(path, error) from error
    text = line.decode("utf-8-sig", errors="replace").strip()
    try:
        fields = next(csv.reader([text], skipinitialspace=True)) or [""]
    except csv.Error:  # such as a field of more than 131,072 characters
        return [text]
    return [field.strip() for field in fields]


def read_lines(
    path: Path, width: int, columns: Sequence[int], format: str, *, header: bool = False
) -> Iterator[Lines]:
    """The lines of a file in pieces of bounded size.

    Args:
        path: the file.
        width: fields of a line; blank lines may have fewer.
        columns: the fields to read.
        format: name of the format of the file, for messages.
        header: leave out the first line.

    Raises:
        TraceError: the file is unreadable or not UTF-8, or a line has another number of fields.
    """
    names = [str(index) for index in range(width)]
    wanted = [names[index] for index in columns]
    try:
        with pa.OSFile(str(path)) as file:
            reader = pa.csv.open_csv(
                file,
                pa.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, column_names=names),
                pa.csv.ParseOptions(ignore_empty_lines=False),
                pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted
                ),
            )
            line = 1
            for batch in reader:
                fields = tuple(pc.utf8_trim(column, ' \t\r"') for column in batch.columns)
                numbers = np.arange(line, line + batch.num_rows)
                lines = Lines(path, numbers, fields, file.tell())
                yield lines.take(numbers > 1) if header and line == 1 else lines
                line += batch.num_rows
    except OSError as error:
        raise unreadable(path, error) from error
    except pa.ArrowException as error:
        row = _ROW.search(str(error))
        if row is not None:
            raise TraceError(
                f"{path}: line {row['line']}: {row['fields']} fields {row['text']!r}, "
                f"expected {width} in format `{format}`; the file may be cut off, "
                "correct or drop the line; or choose another --format"
            ) from None
        raise TraceError(
            f"{path}: is not readable as UTF-8 text of {width} comma-separated columns ({error}); "
            "convert it, or choose another --format"
        ) from error
