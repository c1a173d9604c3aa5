"""Element types of streams and the specs of tensors that programs read and write."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepsim.errors import ArgError, DTypeError
from stepsim.graph.dims import Dim, DimLike
from stepsim.graph.sizes import Size, product

__all__ = [
    "Ack",
    "Buffer",
    "DType",
    "ElementType",
    "IndexSelector",
    "MultiHot",
    "TensorSpec",
    "Tile",
    "TupleType",
    "as_spec",
    "dtype_of",
    "spec",
]


class DType(enum.Enum):
    """Scalar types with their width in bytes."""

    f16 = ("f16", 2, True)
    bf16 = ("bf16", 2, True)
    f32 = ("f32", 4, True)
    u32 = ("u32", 4, False)
    u64 = ("u64", 8, False)
    bool_ = ("bool", 1, False)

    def __init__(self, text: str, width: int, is_float: bool) -> None:
        self.text = text
        self.width_bytes = width
        self.is_float = is_float

    @property
    def is_address(self) -> bool:
        """Unsigned integers can address tiles."""
        return self in (DType.u32, DType.u64)

    def __str__(self) -> str:
        return self.text


_BY_NAME = {d.text: d for d in DType} | {"float16": DType.f16, "float32": DType.f32}


def dtype_of(value: DType | str) -> DType:
    """A DType from itself or its name."""
    if isinstance(value, DType):
        return value
    try:
        return _BY_NAME[value]
    except KeyError:
        known = ", ".join(str(d) for d in DType)
        raise DTypeError(f"unknown scalar type {value!r}; use one of {known}") from None


@dataclass(frozen=True, slots=True)
class Tile:
    """A two-dimensional tile, ``rows x cols`` scalars; either side may be symbolic."""

    dtype: DType
    rows: Dim
    cols: Dim

    @classmethod
    def of(cls, dtype: DType | str, rows: DimLike, cols: DimLike) -> Tile:
        return cls(dtype_of(dtype), Dim.of(rows), Dim.of(cols))

    @property
    def is_static(self) -> bool:
        return self.rows.is_static and self.cols.is_static

    @property
    def is_address(self) -> bool:
        """A 1x1 tile of unsigned integers."""
        return self.dtype.is_address and self.rows.is_one() and self.cols.is_one()

    def elements(self) -> Size:
        """Scalars per tile; ragged sides count with their bound."""
        return product((self.rows.bound, self.cols.bound))

    def __str__(self) -> str:
        return f"Tile[{self.rows}x{self.cols} {self.dtype}]"


@dataclass(frozen=True, slots=True)
class MultiHot:
    """A set of selected indices below ``width``; ``hot`` is their number when always the same."""

    width: int
    hot: int | None = None

    def __str__(self) -> str:
        return (
            f"MultiHot[{self.width}]"
            if self.hot is None
            else f"MultiHot[{self.width}, hot={self.hot}]"
        )


@dataclass(frozen=True, slots=True)
class IndexSelector:
    """Up to ``active`` integer indices below ``width``."""

    width: int
    active: int

    @property
    def hot(self) -> int | None:
        return None

    def __str__(self) -> str:
        return f"IndexSelector[{self.width}, k={self.active}]"


@dataclass(frozen=True, slots=True)
class Ack:
    """The acknowledge of a random store: a plain bool."""

    def __str__(self) -> str:
        return "Ack"


@dataclass(frozen=True, slots=True)
class Buffer:
    """A read-only reference to a tensor of tiles in on-chip memory; rank-b buffers have b dims."""

    tile: Tile
    dims: tuple[Dim, ...]

    def __str__(self) -> str:
        return f"Buffer[{', '.join(str(d) for d in self.dims)} of {self.tile}]"


@dataclass(frozen=True, slots=True)
class TupleType:
    """Elements of a zipped stream."""

    parts: tuple[ElementType, ...]

    def __str__(self) -> str:
        return "(" + ", ".join(str(p) for p in self.parts) + ")"


ElementType = Tile | MultiHot | IndexSelector | Ack | Buffer | TupleType


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape and scalar type of a tensor off chip; ``data`` is needed for functional runs only."""

    shape: tuple[int, ...]
    dtype: DType
    name: str | None = None
    data: Any = field(default=None, compare=False, repr=False)

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.width_bytes

    def __str__(self) -> str:
        dims = "x".join(str(d) for d in self.shape)
        return f"{self.name or 'tensor'}[{dims} {self.dtype}]"


def spec(*shape: int, dtype: DType | str = DType.bf16, name: str | None = None) -> TensorSpec:
    """A tensor known by shape and scalar type alone: ``spec(10, 64)`` or ``spec((10, 64))``."""
    given: tuple[Any, ...] = shape
    dims = tuple(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    if not dims or any(isinstance(d, bool) or not isinstance(d, int) or d < 1 for d in dims):
        raise ArgError(f"spec: a tensor shape is one or more ints >= 1, found {dims}")
    return TensorSpec(dims, dtype_of(dtype), name)


_NUMPY = {"float16": DType.f16, "float32": DType.f32, "uint32": DType.u32, "uint64": DType.u64}


def as_spec(tensor: TensorSpec | np.ndarray[Any, Any]) -> TensorSpec:
    """The spec of a tensor given as a spec or as an array."""
    if isinstance(tensor, TensorSpec):
        return tensor
    array = np.asarray(tensor)
    if array.dtype.name not in _NUMPY:
        raise DTypeError(
            f"arrays of {array.dtype.name} cannot be loaded; convert to float32 or float16"
        )
    return TensorSpec(tuple(array.shape), _NUMPY[array.dtype.name], None, array)
