"""The parts of operator graphs: dims, affine positions, tensors, operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, NoReturn

from stepsim.design.operators.expressions import Expr
from stepsim.design.operators.structured import flops_of
from stepsim.design.operators.text import text_of_op
from stepsim.dtypes import dtype_of, packed_bytes
from stepsim.errors import CompileError
from stepsim.typed import typed

Role = Literal["input", "weight", "state", "intermediate", "output"]


@dataclass(frozen=True, slots=True)
class Dim:
    """A loop of an operator: its name, its trip count, and whether it is a reduction."""

    name: str
    size: int
    kind: Literal["parallel", "reduction"] = "parallel"


@dataclass(frozen=True, slots=True)
class Index:
    """An affine position along one axis of a tensor: ``sum(coefficient * dim) + offset``."""

    terms: tuple[tuple[str, int], ...] = ()
    offset: int = 0

    @classmethod
    def of(cls, dim: str) -> Index:
        """The position that one dim is."""
        return cls(((dim, 1),))

    @property
    def dim(self) -> str | None:
        """The dim that this is, without coefficient or offset; None when it is more or less."""
        plain = len(self.terms) == 1 and self.terms[0][1] == 1 and self.offset == 0
        return self.terms[0][0] if plain else None

    @property
    def dims(self) -> tuple[str, ...]:
        """Dims that move the position."""
        return tuple(dim for dim, _ in self.terms)

    @typed
    def coefficient(self, dim: str) -> int:
        """How far one step of a dim moves."""
        return dict(self.terms).get(dim, 0)

    @typed
    def reach(self, sizes: Mapping[str, int]) -> tuple[int, int]:
        """The least and the largest position, for sizes of the dims.

        Raises
        ------
        CompileError : the size of a dim is missing.
        """
        missing = [dim for dim, _ in self.terms if dim not in sizes]
        if missing:
            raise CompileError(f"reach: the size of {', '.join(missing)} is missing; give it")
        ends = [coefficient * (sizes[dim] - 1) for dim, coefficient in self.terms]
        return (
            self.offset + sum(end for end in ends if end < 0),
            self.offset + sum(end for end in ends if end > 0),
        )

    def __str__(self) -> str:
        terms = [dim if n == 1 else f"{n}*{dim}" for dim, n in self.terms]
        if self.offset or not terms:
            terms.append(str(self.offset))
        return " + ".join(terms).replace("+ -", "- ")


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor and where it is read or written: an :class:`Index` for each of its axes."""

    tensor: str
    access: tuple[Index, ...]

    @property
    def dims(self) -> tuple[str, ...]:
        """Dims that move the position, in the order of the axes."""
        return tuple(dict.fromkeys(dim for index in self.access for dim, _ in index.terms))

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join(map(str, self.access))}]"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named array.

    Attributes
    ----------
    role : ``input``, ``weight`` and ``state`` (a cache) come from off chip; an ``output`` goes
        there, and operators of the graph may read it too.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role = "intermediate"

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of the packed array."""
        return packed_bytes(self.elements, dtype_of(self.dtype).bits)

    def __str__(self) -> str:
        return f"{self.name}: {self.role} {'x'.join(map(str, self.shape)) or '1'} {self.dtype}"


@dataclass(frozen=True, slots=True)
class Tiling:
    """The loop schedule of an operator, set by passes.

    Attributes
    ----------
    tile : steps of the loops, by dim; a dim that is not there is not tiled.
    order : the dims, outermost first.
    unroll : iterations that run at once.
    """

    tile: Mapping[str, int]
    order: tuple[str, ...]
    unroll: int = 1


@dataclass(frozen=True, slots=True)
class Op:
    """One operator.

    Attributes
    ----------
    name : unique in the graph.
    kind : ``generic`` for ``output[...] (combine)= body(inputs[...])`` at each point of the dims,
        or one of the structured kinds: ``rotary``, ``causal_mask``, ``concat``, ``pad``,
        ``scan``, ``gather``, ``opaque`` (see :mod:`stepsim.design.operators.structured`).
    body : of a generic operator, an expression of its inputs.
    combine : how the values of the reduction dims become one; None without such dims.
    attributes : numbers and names, as JSON holds them.
    where : module path and source line that it stands for, for messages.
    """

    name: str
    kind: str
    dims: tuple[Dim, ...]
    inputs: tuple[Operand, ...]
    output: Operand
    body: Expr | None = None
    combine: Literal["sum", "max"] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""
    tiling: Tiling | None = None

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of the dims by name."""
        return {dim.name: dim.size for dim in self.dims}

    @property
    def iterations(self) -> int:
        return prod(dim.size for dim in self.dims)

    @property
    def reductions(self) -> tuple[str, ...]:
        """Names of the reduction dims."""
        return tuple(dim.name for dim in self.dims if dim.kind == "reduction")

    @property
    def flops(self) -> int:
        """FLOPs, counted as ``st.fn`` counts; a multiplication and a sum are 2."""
        return flops_of(self)

    @property
    def elementwise(self) -> bool:
        """Generic, and without a reduction."""
        return self.kind == "generic" and self.combine is None

    @property
    def is_matmul(self) -> bool:
        """A sum of products of two operands (any number of batch and reduction dims)."""
        return (
            self.kind == "generic"
            and self.combine == "sum"
            and self.body in (("mul", ("arg", 0), ("arg", 1)), ("mul", ("arg", 1), ("arg", 0)))
        )

    def title(self) -> str:
        """The operator and its place, for messages."""
        return f"operator '{self.name}'" + (f" ({self.where})" if self.where else "")

    def refuse(self, what: str, cure: str) -> NoReturn:
        """Reject the operator: what is wrong with it, and what to do."""
        raise CompileError(f"{self.title()}: {what}; {cure}")

    def __str__(self) -> str:
        return text_of_op(self)


def points_of(op: Op) -> int:
    """Iterations of a tile.

    Of an opaque operator they are the elements of a tile of its result, of one that moves rows by a
    routing the rows.
    """
    if op.kind == "opaque":
        return prod(tiled_axes(op, op.output))
    if op.kind in ("dispatch", "choose"):
        return tiled_axes(op, op.output)[-2]
    assert op.tiling is not None
    return prod(op.tiling.tile.values())


def tiled_axes(op: Op, operand: Operand) -> tuple[int, ...]:
    """Extent of a tile along every axis of an operand."""
    assert op.tiling is not None
    steps = op.tiling.tile
    return tuple(prod(steps[dim] for dim, _ in index.terms) for index in operand.access)


def unroll_of(op: Op) -> int:
    """Iterations that run at once."""
    return 1 if op.tiling is None else op.tiling.unroll
