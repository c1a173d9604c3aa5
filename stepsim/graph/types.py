"""Element types of streams and the specs of tensors that programs read and write."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

import numpy as np

from stepsim.arguments import label_of, shown
from stepsim.dtypes import DType as DType, dtype_of as dtype_of, packed_bytes
from stepsim.errors import ArgError, DTypeError
from stepsim.frozen import frozen
from stepsim.graph.sizes.dims import Dim, DimLike
from stepsim.graph.sizes.limits import COUNT, SELECTED, SIZE, STREAMS
from stepsim.graph.sizes.sizes import Expression, Size, expression, product

_SPELLED = 64
"""Members of a tuple that its text names one by one."""


@frozen
class Tile:
    """A two-dimensional tile, ``rows x cols`` scalars; either side may be symbolic."""

    dtype: DType
    rows: Dim
    cols: Dim

    def __post_init__(self) -> None:
        if not (isinstance(self.dtype, DType) and isinstance(self.rows, Dim)):
            raise ArgError(f"Tile: expected a DType and two Dims, found {shown(self)}; use Tile.of")
        if not isinstance(self.cols, Dim):
            raise ArgError(f"Tile: expected a DType and two Dims, found {shown(self)}; use Tile.of")

    @classmethod
    def of(cls, dtype: DType | str, rows: DimLike, cols: DimLike) -> Tile:
        """A tile type from plain values: ``Tile.of("bf16", 1, 64)``."""
        return cls(dtype_of(dtype), Dim.of(rows), Dim.of(cols))

    @property
    def is_static(self) -> bool:
        """Whether both sides are constants."""
        return self.rows.is_static and self.cols.is_static

    def counted_anew(self, span: Size, why: str) -> Tile:
        """Tiles of these sizes in a stream of ``span`` elements, with unknown sums of ragged ones.

        As :meth:`Dim.counted_anew`.
        """
        if not (self.rows.is_ragged or self.cols.is_ragged):
            return self
        sides = (side.counted_anew(span, why) for side in (self.rows, self.cols))
        return Tile(self.dtype, *sides)

    @property
    def is_address(self) -> bool:
        """A 1x1 tile of unsigned integers."""
        return self.dtype.is_address and self.rows.is_one() and self.cols.is_one()

    def scalars(self) -> Size:
        """Scalars per tile as an internal formula."""
        return product((self.rows.most, self.cols.most))

    def elements(self) -> Expression:
        """Scalars per tile; ragged sides count with their bound."""
        return expression(self.scalars())

    def __str__(self) -> str:
        return f"Tile[{self.rows}x{self.cols} {self.dtype}]"


U64_TILE = Tile(DType.u64, Dim(1), Dim(1))
"""A whole number: a length, an index or an address."""


@frozen
class MultiHot:
    """A set of selected indices below ``width``; ``hot`` is their number if it is always the
    same."""

    width: int
    hot: int | None = None

    def __post_init__(self) -> None:
        STREAMS.checked("MultiHot: width", self.width)
        if self.hot is not None:
            SELECTED.checked("MultiHot: hot", self.hot)

    def __str__(self) -> str:
        return (
            f"MultiHot[{self.width}]"
            if self.hot is None
            else f"MultiHot[{self.width}, hot={self.hot}]"
        )


@frozen
class IndexSelector:
    """Up to ``active`` integer indices below ``width``."""

    width: int
    active: int

    def __post_init__(self) -> None:
        STREAMS.checked("IndexSelector: width", self.width)
        SELECTED.checked("IndexSelector: active", self.active)

    @property
    def hot(self) -> int | None:
        """None: the number of indices may differ from element to element."""
        return None

    def __str__(self) -> str:
        return f"IndexSelector[{self.width}, k={self.active}]"


@frozen
class Ack:
    """The acknowledgment of a random store: a plain bool."""

    def __str__(self) -> str:
        return "Ack"


@frozen
class Buffer:
    """A read-only reference to a tensor of tiles in on-chip memory; rank-b buffers have b dims."""

    tile: Tile
    dims: tuple[Dim, ...]

    def __post_init__(self) -> None:
        dims = isinstance(self.dims, tuple) and all(isinstance(d, Dim) for d in self.dims)
        if not (isinstance(self.tile, Tile) and dims):
            raise ArgError(f"Buffer: expected a Tile and a tuple of Dims, found {shown(self)}")

    def __str__(self) -> str:
        return f"Buffer[{', '.join(str(d) for d in self.dims)} of {self.tile}]"


@frozen(eq=False)
class TupleType:
    """Elements of a zipped stream.

    A tuple of a tuple with itself has twice the members, so that a few nested ones have millions.
    What is asked of all members is therefore asked of each different one once.

    Attributes
    ----------
    parts : the types that were zipped.
    counts : how often each type that is not a tuple is there, at any depth.
    width : the number of members at all depths.
    """

    parts: tuple[ElementType, ...]
    counts: Mapping[ElementType, int] = field(init=False)
    width: int = field(init=False)
    _hash: int = field(init=False)
    _text: str = field(init=False)

    def __post_init__(self) -> None:
        parts = self.parts
        if not isinstance(parts, tuple) or not all(isinstance(p, ElementType) for p in parts):
            raise ArgError(f"TupleType: expected a tuple of element types, found {shown(parts)}")
        counts: dict[ElementType, int] = {}
        for part in parts:
            inner = part.counts if isinstance(part, TupleType) else {part: 1}
            for kind, count in inner.items():
                counts[kind] = counts.get(kind, 0) + count
        width = sum(counts.values())
        text = "(" + ", ".join(str(p) for p in parts) + ")"
        if width > _SPELLED:
            bits = width.bit_length() - 1
            text = f"({width} members)" if bits < 64 else f"(2**{bits} members or more)"
        made = {"counts": counts, "width": width, "_hash": hash(parts), "_text": text}
        for name, value in made.items():
            object.__setattr__(self, name, value)

    def changed(self, change: Callable[[ElementType], ElementType]) -> TupleType:
        """The tuple of the changed parts; a tuple that is there twice is changed once."""
        made: dict[int, ElementType] = {}
        parts = []
        for part in self.parts:
            new = made.get(id(part)) or change(part)
            if isinstance(part, TupleType):
                made[id(part)] = new
            parts.append(new)
        return TupleType(tuple(parts))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TupleType) and _same(self, other, set())

    def __reduce__(self) -> tuple[type[TupleType], tuple[Any, ...]]:
        return TupleType, (self.parts,)  # hashes differ from process to process

    def __repr__(self) -> str:
        return f"TupleType[{self}]"

    def __str__(self) -> str:
        return self._text


def _same(left: TupleType, right: TupleType, known: set[tuple[int, int]]) -> bool:
    """Whether two tuples have equal parts; pairs that are ``known`` are not compared again."""
    pair = id(left), id(right)
    if left is right or pair in known:
        return True
    known.add(pair)
    return (left._hash, left.width, len(left.parts)) == (
        right._hash, right.width, len(right.parts),
    ) and all(
        _same(a, b, known) if isinstance(a, TupleType) and isinstance(b, TupleType) else a == b
        for a, b in zip(left.parts, right.parts, strict=True)
    )  # fmt: skip


ElementType = Tile | MultiHot | IndexSelector | Ack | Buffer | TupleType


@frozen
class TensorSpec:
    """Shape and scalar type of a tensor off chip; ``data`` is needed for functional runs only."""

    shape: tuple[int, ...]
    dtype: DType
    name: str | None = None
    data: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.shape, tuple) or not all(SIZE.holds(d) for d in self.shape):
            raise ArgError(f"TensorSpec: shape must be a tuple of ints, found {shown(self.shape)}")
        if not isinstance(self.dtype, DType):
            raise DTypeError(f"TensorSpec: dtype must be a DType, found {shown(self.dtype)}")
        label_of("TensorSpec: name", self.name)

    @property
    def size_bytes(self) -> int:
        """Bytes of the entire tensor."""
        return packed_bytes(math.prod(self.shape), self.dtype.bits)

    def __str__(self) -> str:
        dims = "x".join(str(d) for d in self.shape)
        return f"{self.name or 'tensor'}[{dims} {self.dtype}]"


def spec(*shape: int, dtype: DType | str = DType.bf16, name: str | None = None) -> TensorSpec:
    """A tensor known only by shape and scalar type.

    Programs are built, measured and timed without data; an array in place of a spec provides
    values for functional runs.

    Shape
    -----
    ``spec(10, 64)`` and ``spec((10, 64))`` are the tensor ``10 x 64``.

    Parameters
    ----------
    *shape : ints from 1, or one tuple of them.
    dtype : scalar type, such as ``bf16``, ``f32``, ``f16`` or ``u64``.
    name : key of the values in ``run_functional(program, {name: array})``.

    Raises
    ------
    ArgError : the shape is not of ints from 1.
    DTypeError : there is no such type.

    Example
    -------
    >>> x = st.spec(2, 4, dtype="f32", name="x")
    >>> print(x, x.size_bytes)
    x[2x4 f32] 32
    >>> with st.Program("later") as program:
    ...     out = st.linear_store(st.linear_load(x, tile=(1, 4)), "out")
    >>> run_functional(program, {"x": np.ones((2, 4), "f4")}).stored["out"].sum()
    np.float32(8.0)
    """
    given: tuple[Any, ...] = shape
    dims = tuple(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    if not dims or not all(COUNT.holds(d) for d in dims):
        raise ArgError(f"spec: a tensor shape is one or more ints >= 1, found {shown(dims)}")
    name = label_of("spec: name", name)
    return TensorSpec(tuple(int(d) for d in dims), dtype_of(dtype), name)


def as_spec(tensor: TensorSpec | np.ndarray[Any, Any]) -> TensorSpec:
    """The spec of a tensor given as a spec or as an array of numpy or ml_dtypes."""
    if isinstance(tensor, TensorSpec):
        return tensor
    try:
        array = np.asarray(tensor)
    except ValueError:
        raise ArgError(
            "a tensor is a spec() or an array; its inner lists differ in length"
        ) from None
    if array.dtype.kind in "OSU":
        raise DTypeError(f"a tensor is a spec() or an array of numbers, found {shown(tensor)}")
    try:
        dtype = dtype_of(array.dtype.name)
    except DTypeError:
        raise DTypeError(
            f"arrays of {array.dtype.name} cannot be loaded; convert to float32 or float16"
        ) from None
    return TensorSpec(tuple(array.shape), dtype, None, array)
