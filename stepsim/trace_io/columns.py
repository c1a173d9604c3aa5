"""Arrow columns as NumPy arrays, whatever their layout.

Slices, chunks, dictionaries, run-end encoding, extension types and all five list layouts give the
values that a reader of the table sees. Buffers are never read directly, since they do not carry
the offset of a slice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from stepsim.arrow import pa, pc
from stepsim.errors import TraceError
from stepsim.trace_io.routing.validate import Place

_MAX_INDEX = int(np.iinfo(np.int32).max)
_MAX_COUNT = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class Lists:
    """The column ``name`` of lists: row i is the next ``lengths[i]`` of the ``values``.

    ``present`` is false where a row is null, ``nulls`` marks values that are null.
    """

    name: str
    present: npt.NDArray[np.bool_]
    lengths: npt.NDArray[np.int64]
    values: npt.NDArray[Any]
    nulls: npt.NDArray[np.bool_]

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where each row begins among the values."""
        return np.cumsum(self.lengths) - self.lengths

    def take(self, rows: npt.NDArray[np.int64]) -> Lists:
        """The rows with these numbers."""
        lengths, starts = self.lengths[rows], self.starts[rows]
        ends = np.cumsum(lengths)
        index = np.repeat(starts - ends + lengths, lengths)
        index += np.arange(len(index))
        return Lists(self.name, self.present[rows], lengths, self.values[index], self.nulls[index])

    @staticmethod
    def join(parts: Sequence[Lists]) -> Lists:
        """The rows of all parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        return Lists(
            parts[0].name,
            np.concatenate([part.present for part in parts]),
            np.concatenate([part.lengths for part in parts]),
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.nulls for part in parts]),
        )

    def matrix(self, place: Place) -> npt.NDArray[Any]:
        """All rows, at least one, as an array [rows, k].

        Raises:
            TraceError: a null, or rows of different lengths.
        """
        if not self.present.all():
            raise TraceError(
                f"{place.row(int(np.argmin(self.present)))}: `{self.name}` is null, expected a "
                "list; drop the row or record it again"
            )
        k = int(self.lengths[0])
        uneven = self.lengths != k
        if uneven.any():
            row = int(np.argmax(uneven))
            raise TraceError(
                f"{place.row(row)}: `{self.name}` has {self.lengths[row]} values, but row "
                f"{place.source_row(0)} has {k}; all tokens of a layer have the same k"
            )
        if self.nulls.any():
            row, slot = divmod(int(np.argmax(self.nulls)), k)
            raise TraceError(
                f"{place.row(row)}: `{self.name}` has a null in slot {slot}, expected a value; "
                "drop the row or record it again"
            )
        return self.values.reshape(len(self.lengths), k)


def list_column(
    table: pa.Table, name: str, source: str, *, what: str, floating: bool = False
) -> Lists:
    """The column ``name``, lists of integers or, if ``floating``, of floats.

    ``what`` names the values in messages.

    Raises:
        TraceError: the column is of another type.
    """
    wanted = f"a list of {'floats' if floating else 'integers'} ({what})"
    fits = pa.types.is_floating if floating else pa.types.is_integer
    parts = []
    for rows in _decoded(table, name, source, is_list, wanted).chunks:
        flat = plain(rows.flatten(), source, name)
        if not fits(flat.type) and not pa.types.is_null(flat.type):
            raise _wrong_type(source, name, table.column(name).type, wanted)
        present = _flags(rows.is_valid())
        lengths = np.where(present, _lengths(rows), 0)
        values = _values(flat, np.float64 if floating else np.int64)
        parts.append(Lists(name, present, lengths, values, _flags(flat.is_null())))
    return Lists.join(parts)


def index_column(
    table: pa.Table, name: str, source: str, first_row: int = 0
) -> npt.NDArray[np.int64]:
    """The column ``name`` (layer, step or token): indices 0..2^31-1, int64 [rows].

    ``first_row`` is the row of the source where the table begins.

    Raises:
        TraceError: the column is not of integers, or holds a null, negative or too large value.
    """
    advice = f"number the {name}s from 0"
    return _whole_numbers(table, name, source, first_row, _MAX_INDEX, "an index", advice)


def count_column(
    table: pa.Table, name: str, source: str, first_row: int = 0
) -> npt.NDArray[np.int64]:
    """Like `index_column`, for a column of token counts."""
    advice = "drop the request or record it again"
    return _whole_numbers(table, name, source, first_row, _MAX_COUNT, "a number of tokens", advice)


def name_column(
    table: pa.Table, name: str, source: str
) -> tuple[list[str | None], npt.NDArray[np.int64]]:
    """The text column ``name`` as (distinct values, null first and then sorted; index [rows]).

    Raises:
        TraceError: the column does not hold text.
    """
    numbers: dict[str | None, int] = {}
    parts = []
    for chunk in table.column(name).chunks:
        # A dictionary is kept: decoding a long name shared by many rows would fill the memory.
        indices = chunk.indices if pa.types.is_dictionary(chunk.type) else None
        text = plain(chunk if indices is None else chunk.dictionary, source, name)
        if not _is_text(text.type):
            raise _wrong_type(source, name, chunk.type, "text")
        text = text.cast(pa.large_string())
        distinct = pc.unique(text)
        places = pc.index_in(text, value_set=distinct)
        if indices is not None:
            places = places.take(indices).fill_null(len(distinct))
        own = [numbers.setdefault(one, len(numbers)) for one in [*distinct.to_pylist(), None]]
        parts.append(np.array(own)[places.to_numpy()])
    names = list(numbers)
    used, codes = np.unique(np.concatenate(parts), return_inverse=True)
    order = sorted(range(len(used)), key=lambda i: _in_order(names[used[i]]))
    return [names[used[i]] for i in order], np.argsort(order)[codes].astype(np.int64)


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


def _in_order(name: str | None) -> tuple[bool, str]:
    return name is not None, name or ""


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is one of the five list layouts."""
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or _is_view(kind)
    )


def _decoded(
    table: pa.Table, name: str, source: str, fits: Callable[[pa.DataType], bool], wanted: str
) -> pa.ChunkedArray:
    """A column in plain layout, and of a type that ``fits``."""
    column = table.column(name)
    found = pa.chunked_array([plain(chunk, source, name) for chunk in column.chunks])
    if not fits(found.type):
        raise _wrong_type(source, name, column.type, wanted)
    return found


def _whole_numbers(
    table: pa.Table, name: str, source: str, first_row: int, maximum: int, what: str, advice: str
) -> npt.NDArray[np.int64]:
    whole = _decoded(table, name, source, pa.types.is_integer, "integers without nulls")
    if whole.null_count:
        row = first_row + int(np.argmax(_flags(whole.is_null())))
        raise TraceError(
            f"{source}: row {row}: `{name}` is null, expected {what} from 0; fill it in or "
            "leave the column out"
        )
    numbers = whole.to_numpy()
    bad = (numbers < 0) | (numbers > maximum)
    if bad.any():
        row = int(np.argmax(bad))
        raise TraceError(
            f"{source}: row {first_row + row}: `{name}` is {numbers[row]}, expected {what} "
            f"0..{maximum}; {advice}"
        )
    return np.asarray(numbers, dtype=np.int64)


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


def _flags(array: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    return np.asarray(array, dtype=bool)


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
