"""Arrow arrays and tables of columns, made from their memory.

`pyarrow.array` imports pandas to check whether its argument is a pandas object, which takes longer
than most runs. Arrays made from buffers avoid this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepsim.arrow import pa
from stepsim.results.columns import schema


def arrow_array(column: NDArray[Any] | Sequence[Any], kind: pa.DataType) -> pa.Array:
    """One column as an Arrow array; numpy columns of the same type share their memory with it.

    Parameters
    ----------
    column : shape ``[rows]``, texts, Booleans or numbers; a sequence may hold None, which is null.
    kind : type of the array.

    Raises
    ------
    AttributeError, TypeError : a value is of another type.
    pyarrow.ArrowInvalid : a number does not fit the type, or the texts exceed 2 GiB.
    """
    if isinstance(column, np.ndarray):
        return _of_numpy(np.ascontiguousarray(column), kind, None)
    present = np.array([value is not None for value in column], np.bool_)
    valid = None if present.all() else present
    if pa.types.is_string(kind):
        return _of_texts(column, valid)
    filled = [0 if value is None else value for value in column]
    dtype = np.bool_ if pa.types.is_boolean(kind) else None
    return _of_numpy(np.array(filled, dtype), kind, valid)


def arrow_table(columns: Mapping[str, NDArray[Any] | Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """A table of the columns of a schema, in its order; numpy columns are not copied."""
    arrays = [arrow_array(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def named_table(name: str, columns: Mapping[str, Any]) -> pa.Table:
    """A table of columns of the dictionary; ``name`` is that of its schema."""
    return pa.table(columns, schema=schema(name, columns))


def sums_by(count: int, places: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sums of the values of each of ``count`` places."""
    found = np.zeros(count, np.int64)
    np.add.at(found, places, values)
    return found


def _of_numpy(values: NDArray[Any], kind: pa.DataType, valid: NDArray[np.bool_] | None) -> pa.Array:
    memory = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else values
    buffers = [_bitmap(valid), pa.py_buffer(memory)]
    found = pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), buffers)
    return found if found.type == kind else found.cast(kind)


def _of_texts(texts: Sequence[str | None], valid: NDArray[np.bool_] | None) -> pa.Array:
    encoded = [b"" if text is None else text.encode() for text in texts]
    ends = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=ends[1:])
    if ends[-1] > np.iinfo(np.int32).max:
        raise pa.ArrowInvalid(f"a column of texts has at most 2 GiB, found {ends[-1]:,} bytes")
    buffers = [_bitmap(valid), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def _bitmap(valid: NDArray[np.bool_] | None) -> pa.Buffer | None:
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
