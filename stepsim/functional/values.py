"""What streams carry in a functional run: tiles with values, selections, buffers, tokens.

Floating-point values are held as float32 and rounded to the scalar type of their stream after
every operator; addresses and metadata are exact uint64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepsim.deferred import require
from stepsim.errors import EvaluationError
from stepsim.graph import DType
from stepsim.typed import typed

if TYPE_CHECKING:
    from stepsim.functional.decisions import Decisions
    from stepsim.functional.tensors import Tensors

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class TileValue:
    """A tile: ``data`` is ``[rows, cols]``, of which ``valid`` rows and ``width`` columns are
    valid.

    The rest is padding. Padding columns hold zeros; padding rows may hold anything. Neither
    ever contributes to a reduction.
    """

    data: Array
    valid: int
    width: int

    @classmethod
    @typed
    def of(cls, data: Array) -> TileValue:
        """A tile without padding."""
        return cls(data, data.shape[0], data.shape[1])

    @classmethod
    def integer(cls, value: int) -> TileValue:
        """A 1x1 tile of an address or a metadata value."""
        return cls(np.array([[value]], np.uint64), 1, 1)

    @property
    def value(self) -> int:
        """The number in a 1x1 integer tile."""
        return int(self.data[0, 0])

    @property
    def rows(self) -> int:
        return int(self.data.shape[0])

    @property
    def cols(self) -> int:
        return int(self.data.shape[1])

    def unpadded(self, identity: float = 0.0) -> Array:
        """The data with ``identity`` in place of padding."""
        if self.valid >= self.rows and self.width >= self.cols:
            return self.data
        data = np.full_like(self.data, identity)
        data[: self.valid, : self.width] = self.data[: self.valid, : self.width]
        return data

    def __repr__(self) -> str:
        if self.data.shape == (1, 1):
            return f"Tile({self.data[0, 0]})"
        return f"Tile({self.rows}x{self.cols}, {self.valid} valid rows)"


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected indices, ascending, of a selector of ``width`` flags."""

    indices: tuple[int, ...]
    width: int

    def __repr__(self) -> str:
        return f"Selection({list(self.indices)} of {self.width})"


@dataclass(frozen=True, slots=True, eq=False)
class BufferValue:
    """Tiles in on-chip memory, row-major over ``dims`` (outermost first)."""

    dims: tuple[int, ...]
    tiles: tuple[Any, ...]


ACK = True
"""The acknowledge of a random store."""

Payload = Any
"""TileValue, Selection, BufferValue, ACK, or a tuple of payloads (zipped streams)."""


class Token(NamedTuple):
    """One element with its stop level fused on: 0 = none, k = last of its k inner dims."""

    payload: Payload
    level: int


@dataclass(frozen=True, slots=True)
class World:
    """The state shared by the operators of one run.

    Attributes
    ----------
    scalar : floating-point type in place of the program's; None = the program's.
    """

    tensors: Tensors
    bindings: Mapping[Any, Any]
    decisions: Decisions | None
    scalar: DType | None


_NUMPY: dict[DType, str] = {
    DType.i32: "int32",
    DType.i64: "int64",
    DType.u32: "uint32",
    DType.u64: "uint64",
    DType.bool_: "bool",
    DType.f32: "float32",
    DType.f16: "float16",
    DType.i8: "int8",
}
_ML_DTYPES: dict[DType, str] = {
    DType.bf16: "bfloat16",
    DType.f8e4m3: "float8_e4m3fn",
    DType.f8e5m2: "float8_e5m2",
    DType.f4: "float4_e2m1fn",
    DType.i4: "int4",
}
_LARGEST: dict[DType, tuple[float, float]] = {
    DType.f8e4m3: (-448, 448),
    DType.f8e5m2: (-57344, 57344),
    DType.f4: (-6, 6),
    DType.i8: (-128, 127),
    DType.i4: (-8, 7),
}
"""Ranges of the types that saturate: larger values become the largest, as in hardware."""


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The numpy type of stored tensors."""
    if dtype in _NUMPY:
        return np.dtype(_NUMPY[dtype])
    ml_dtypes = require(
        "ml_dtypes", EvaluationError, advice=', or evaluate in float32 by scalar="f32"'
    )
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_DTYPES[dtype]))
    return found


def rounded(data: Array, dtype: DType) -> Array:
    """Data as float32, every scalar rounded to the nearest that ``dtype`` can represent.

    Values beyond the range of types of 8 and 4 bits saturate. Where a type has no NaN, NaN becomes
    zero.
    """
    wide = np.asarray(data, np.float32)
    if dtype is DType.f32:
        return wide
    if dtype in _LARGEST:
        wide = np.clip(wide, *_LARGEST[dtype])
    if dtype in (DType.i8, DType.i4, DType.f4):
        wide = np.nan_to_num(wide, nan=0.0)
    if dtype in (DType.i8, DType.i4):
        return np.rint(wide)
    with np.errstate(over="ignore", invalid="ignore"):
        return wide.astype(numpy_dtype(dtype)).astype(np.float32)
