"""Arrow columns as NumPy arrays, whatever their layout.

Slices, chunks, dictionaries, run-end encoding, extension types and all five list layouts give the
values that a reader of the table sees. Buffers are never touched directly: they do not know about
the offset of a slice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stepsim.errors import TraceError
from stepsim.trace_io.validate import Place

__all__ = [
    "ListColumn",
    "count_column",
    "index_column",
    "is_list",
    "list_column",
    "name_column",
    "plain",
]

_MAX_INDEX = int(np.iinfo(np.int32).max)
_MAX_COUNT = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class ListColumn:
    """A list column: ``values[starts[i] : starts[i] + lengths[i]]`` is row i.

    ``present`` [rows] is false where the row is null, ``value_nulls`` marks null values.
    """

    name: str
    present: npt.NDArray[np.bool_]
    lengths: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    values: npt.NDArray[Any]
    value_nulls: npt.NDArray[np.bool_]

    def gather(self, place: Place) -> npt.NDArray[Any]:
        """The rows ``place.rows`` as one array [rows, k].

        Raises:
            TraceError: a null, or rows of different lengths.
        """
        rows = np.arange(len(self.present)) if place.rows is None else place.rows
        absent = ~self.present[rows]
        if absent.any():
            raise TraceError(
                f"{place.row(int(np.argmax(absent)))}: `{self.name}` is null, expected a list; "
                "drop the row or record it again"
            )
        lengths = self.lengths[rows]
        uneven = lengths != lengths[0]
        if uneven.any():
            row = int(np.argmax(uneven))
            raise TraceError(
                f"{place.row(row)}: `{self.name}` has {lengths[row]} values, but row "
                f"{place.first_row + int(rows[0])} has {lengths[0]}; all tokens of a layer have "
                "the same k"
            )
        index = self.starts[rows][:, None] + np.arange(int(lengths[0]))
        nulls = self.value_nulls[index]
        if nulls.any():
            row, slot = (int(i) for i in np.argwhere(nulls)[0])
            raise TraceError(
                f"{place.row(row)}: `{self.name}` has a null in slot {slot}, expected a value; "
                "drop the row or record it again"
            )
        return np.asarray(self.values[index])


def list_column(
    table: pa.Table, name: str, source: str, *, what: str, floating: bool = False
) -> ListColumn:
    """The column ``name``, a list of integers or, if ``floating``, of floats.

    ``what`` they are, for messages.

    Raises:
        TraceError: the column is of another type.
    """
    column = table.column(name)
    wanted = f"a list of {'floats' if floating else 'integers'} ({what})"
    present, lengths, values, nulls = [], [], [], []
    for chunk in column.chunks:
        rows = plain(chunk, source, name)
        if not is_list(rows.type):
            raise _wrong_type(source, name, column.type, wanted)
        flat = plain(rows.flatten(), source, name)
        fits = pa.types.is_floating if floating else pa.types.is_integer
        if not fits(flat.type) and not pa.types.is_null(flat.type):
            raise _wrong_type(source, name, column.type, wanted)
        valid = np.asarray(rows.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
        present.append(valid)
        lengths.append(np.where(valid, _lengths(rows), 0))
        values.append(_values(flat, np.float64 if floating else np.int64))
        nulls.append(np.asarray(flat.is_null().to_numpy(zero_copy_only=False), dtype=bool))
    sizes = np.concatenate(lengths).astype(np.int64)
    return ListColumn(
        name=name,
        present=np.concatenate(present),
        lengths=sizes,
        starts=np.cumsum(sizes) - sizes,
        values=np.concatenate(values),
        value_nulls=np.concatenate(nulls),
    )


def index_column(
    table: pa.Table, name: str, source: str, first_row: int = 0
) -> npt.NDArray[np.int64]:
    """The column ``name`` (layer, step or token): indices 0..2^31-1, int64 [rows].

    ``first_row`` is the row of the source where the table begins.

    Raises:
        TraceError: the column is not of integers, or holds a null, negative or too large value.
    """
    return _whole_numbers(
        table, name, source, first_row, _MAX_INDEX, "an index", f"number the {name}s from 0"
    )


def count_column(
    table: pa.Table, name: str, source: str, first_row: int = 0
) -> npt.NDArray[np.int64]:
    """As `index_column`, of a column of numbers of tokens."""
    return _whole_numbers(
        table,
        name,
        source,
        first_row,
        _MAX_COUNT,
        "a number of tokens",
        "drop the request or record it again",
    )


def name_column(
    table: pa.Table, name: str, source: str
) -> tuple[list[str | None], npt.NDArray[np.int64]]:
    """The text column ``name`` as (distinct values, null first and then sorted; index [rows]).

    Raises:
        TraceError: the column does not hold text.
    """
    column = table.column(name)
    chunks = []
    for chunk in column.chunks:
        text_chunk = plain(chunk, source, name)
        if not _is_text(text_chunk.type):
            raise _wrong_type(source, name, column.type, "text")
        chunks.append(text_chunk.cast(pa.large_string()))
    text = pa.chunked_array(chunks, pa.large_string())
    found: list[str | None] = pc.unique(text).to_pylist()
    found.sort(key=lambda value: (value is not None, value or ""))
    codes = pc.index_in(text, value_set=pa.array(found, pa.large_string()))
    return found, np.asarray(codes.to_numpy(), dtype=np.int64)


def plain(array: pa.Array, source: str, name: str) -> pa.Array:
    """Undo dictionary and run-end encoding and extension types, also when nested."""
    try:
        while True:
            if isinstance(array, pa.ExtensionArray):
                array = array.storage
            elif pa.types.is_dictionary(array.type):
                array = array.dictionary.take(array.indices)
            elif pa.types.is_run_end_encoded(array.type):
                array = pc.run_end_decode(array)
            elif pa.types.is_string_view(array.type):
                array = array.cast(pa.large_string())
            else:
                return array
    except pa.ArrowNotImplementedError as error:
        raise TraceError(
            f"{source}: column `{name}` holds {array.type}, which this version of pyarrow cannot "
            "decode; cast it to a plain type before reading"
        ) from error


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is one of the five list layouts."""
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or _is_view(kind)
    )


def _whole_numbers(
    table: pa.Table, name: str, source: str, first_row: int, maximum: int, what: str, mend: str
) -> npt.NDArray[np.int64]:
    column = table.column(name)
    parts: list[npt.NDArray[np.int64]] = []
    for chunk in column.chunks:
        whole = plain(chunk, source, name)
        if not pa.types.is_integer(whole.type):
            raise _wrong_type(source, name, column.type, "integers without nulls")
        start = first_row + sum(len(part) for part in parts)
        if whole.null_count:
            row = start + int(np.argmax(whole.is_null().to_numpy(zero_copy_only=False)))
            raise TraceError(
                f"{source}: row {row}: `{name}` is null, expected {what} from 0; fill it in or "
                "leave the column out"
            )
        numbers = _values(whole, np.int64)
        bad = (numbers < 0) | (numbers > maximum)
        if bad.any():
            row = int(np.argmax(bad))
            raise TraceError(
                f"{source}: row {start + row}: `{name}` is {numbers[row]}, expected {what} "
                f"0..{maximum}; {mend}"
            )
        parts.append(numbers.astype(np.int64))
    return np.concatenate(parts)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)
    )


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def _lengths(rows: pa.Array) -> npt.NDArray[np.int64]:
    # Casting a sliced view to a list gives wrong rows in pyarrow; its sizes are right.
    sizes = rows.sizes if _is_view(rows.type) else pc.list_value_length(rows).fill_null(0)
    return np.asarray(sizes.to_numpy(zero_copy_only=False), dtype=np.int64)


def _values(array: pa.Array, empty: type[np.generic]) -> npt.NDArray[Any]:
    """The values, 0 or nan where null; ``empty`` is the dtype of an array of nulls only."""
    if pa.types.is_null(array.type):
        return np.zeros(len(array), dtype=empty)
    if array.null_count and pa.types.is_integer(array.type):
        array = array.fill_null(0)  # a null would turn the integers into floats
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _wrong_type(source: str, name: str, found: pa.DataType, wanted: str) -> TraceError:
    return TraceError(
        f"{source}: column `{name}` is {found}, expected {wanted}; cast it before reading"
    )
