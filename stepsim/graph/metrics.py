"""Symbolic metrics of a program: off-chip traffic, on-chip memory, FLOPs, allocated compute.

Three memory models are known. ``published`` reproduces the published figures to the byte: one tile
buffer per off-chip operator, and the element width quirk of those runs (loads and random accesses
count a tile's own width, everything else counts 4 bytes for any floating point scalar).
``published2`` doubles the buffers; ``paper`` uses the formulas printed in the STeP paper (tables 3
to 7) and every tile's own width, so its traffic is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy

from stepsim.errors import ArgError, GraphError
from stepsim.graph.dims import Dim
from stepsim.graph.sizes import Size, active, product
from stepsim.graph.stream import Stream, stream_elements
from stepsim.graph.types import Buffer, DType, ElementType, IndexSelector, MultiHot, Tile, TupleType

if TYPE_CHECKING:
    from stepsim.graph.operator import Operator
    from stepsim.graph.program import Program

__all__ = ["MODELS", "Accounting", "BoundMetrics", "Metrics", "OperatorMetrics", "measure"]

MODELS = ("published", "published2", "paper")
PUBLISHED_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Accounting:
    """How bytes are counted: memory model and FIFO switch."""

    model: str
    count_fifos: bool

    @property
    def buffering(self) -> int:
        """Tiles that an off-chip operator holds."""
        return 1 if self.model == "published" else 2

    def width(self, dtype: DType) -> int:
        """Bytes per scalar of everything but loads and random accesses."""
        if self.model != "paper" and dtype.is_float:
            return PUBLISHED_FLOAT_BYTES
        return dtype.width_bytes

    def load_bytes(self, tile: Tile) -> int:
        """Bytes of a tile as loads and random accesses count it."""
        return int(tile.rows) * int(tile.cols) * tile.dtype.width_bytes

    def type_bytes(self, element: ElementType) -> Size:
        """Bytes that one element needs on chip; ragged sizes count with their bound."""
        if isinstance(element, Tile):
            return product((element.elements(), self.width(element.dtype)))
        if isinstance(element, MultiHot):
            return element.width
        if isinstance(element, IndexSelector):
            return 2 * element.active
        if isinstance(element, Buffer):
            return product((*(d.bound for d in element.dims), self.type_bytes(element.tile)))
        if isinstance(element, TupleType):
            return sum(self.type_bytes(p) for p in element.parts)
        return 1

    def stream_bytes(self, stream: Stream) -> Size:
        """Bytes of all elements of a stream of tiles."""
        assert isinstance(stream.type, Tile)
        return product((stream_elements(stream), self.width(stream.type.dtype)))


@dataclass(frozen=True, slots=True)
class OperatorMetrics:
    """One row of the table: what an operator contributes."""

    operator: Operator
    off_chip_traffic: Size
    on_chip_memory: Size
    flops: Size


def _sum(terms: Iterable[Size]) -> Any:
    number = 0
    rest: list[Any] = []
    for term in terms:
        if isinstance(term, int):
            number += term
        else:
            rest.append(term)
    return sympy.Add(number, *rest)


_NUMERIC: dict[str, Callable[..., Any]] = {
    "CeilDiv": lambda a, b: -(-a // b),
    "Active": lambda n: np.minimum(1, n),
}


@dataclass(frozen=True)
class Metrics:
    """Symbolic totals of a program; :meth:`bind` makes numbers of them.

    Attributes
    ----------
    off_chip_traffic, on_chip_memory : bytes.
    flops : every executed FLOP, padded rows included.
    table : contribution of each operator, in program order.
    """

    program: Program
    memory: str
    count_fifos: bool
    on_demand: bool
    off_chip_traffic: Any
    on_chip_memory: Any
    flops: Any
    table: tuple[OperatorMetrics, ...]

    @property
    def operational_intensity(self) -> Any:
        """FLOPs per off-chip byte."""
        return self.flops / self.off_chip_traffic

    @property
    def allocated_compute(self) -> int:
        """FLOPs per cycle of all maps, map-accumulates and arithmetic accumulations."""
        total = 0
        for op in self.program.operators:
            if op.charges_compute and op.unit_kind != "Scan":
                bandwidth = op.bandwidth()  # type: ignore[attr-defined]
                if bandwidth is None:
                    raise GraphError(
                        f"{op.title()} has no compute bandwidth. Pass compute_bw= to the operator "
                        f"or to Program ({op.source})"
                    )
                total += bandwidth
        return total

    def free_symbols(self) -> list[Any]:
        """Symbols of the three totals, by name."""
        parts = (self.off_chip_traffic, self.on_chip_memory, self.flops)
        return sorted({s for e in parts for s in e.free_symbols}, key=str)

    def bind(self, values: Mapping[Any, Any] | None = None) -> BoundMetrics:
        """Numbers for given values.

        Keys are routings (counts ``[experts]`` or indices ``[rows, k]``), dims and symbols (an int;
        for a ragged dim the list of its sizes), selector streams (counts by output) and length
        streams (the lengths). Routings made from arrays are bound already.
        """
        table = _substitution(self.program, values or {})
        missing = [s for s in self.free_symbols() if s not in table]
        if missing:
            lines = "".join(f"\n  - {s}: {self.program.provenance(s)}" for s in missing)
            raise ArgError(
                f"program '{self.program.name}': {len(missing)} symbols have no value. Bind the "
                f"object that owns them:{lines}"
            )
        numbers = [
            _number(e, table) for e in (self.off_chip_traffic, self.on_chip_memory, self.flops)
        ]
        return BoundMetrics(self, table, *numbers)

    def bind_trace(self, indices: Any) -> BoundMetrics:
        """Bind the only routing of the program to an index array ``[rows, k]``."""
        routings = self.program.routings
        if len(routings) != 1:
            raise ArgError(
                f"program '{self.program.name}' has {len(routings)} routings; use "
                "bind({routing: indices})"
            )
        return self.bind({routings[0]: np.asarray(indices)})

    def lambdify(self, quantity: str, arguments: Sequence[Any]) -> Callable[..., Any]:
        """A numpy function of one total (``off_chip_traffic``, ...) for sweeps.

        ``arguments`` are symbols or dims; each may be called with an int or an array.
        """
        expr = getattr(self, quantity, None)
        if not isinstance(expr, sympy.Expr):
            raise ArgError(
                f"unknown quantity {quantity!r}; use off_chip_traffic, on_chip_memory, flops"
            )
        symbols = [a.expr if isinstance(a, Dim) else a for a in arguments]
        left = expr.free_symbols - set(symbols)
        if left:
            names = ", ".join(f"{s} ({self.program.provenance(s)})" for s in sorted(left, key=str))
            raise ArgError(f"{quantity} also depends on {names}; add them to the arguments")
        made: Callable[..., Any] = sympy.lambdify(symbols, expr, modules=[_NUMERIC, "numpy"])
        return made


@dataclass(frozen=True)
class BoundMetrics:
    """Totals as numbers."""

    symbolic: Metrics
    values: Mapping[Any, int]
    off_chip_traffic: int
    on_chip_memory: int
    flops: int

    @property
    def operational_intensity(self) -> float:
        """FLOPs per off-chip byte."""
        return self.flops / self.off_chip_traffic

    @property
    def allocated_compute(self) -> int:
        return self.symbolic.allocated_compute

    def value(self, size: Any) -> int:
        """A dim or expression of the program as a number."""
        expr = size.expr if isinstance(size, Dim) else size
        return expr if isinstance(expr, int) else _number(expr, self.values)


def _number(expr: Any, table: Mapping[Any, int]) -> int:
    found = expr.xreplace({s: sympy.Integer(table[s]) for s in expr.free_symbols})
    if not found.is_Rational:
        found = sympy.simplify(found)
    return int(found)


def _substitution(program: Program, values: Mapping[Any, Any]) -> dict[Any, int]:
    from stepsim.graph.ops.sources import Routing

    table: dict[Any, int] = {}
    given = dict(values)
    for routing in program.routings:
        if routing not in given and routing.indices is not None:
            given[routing] = routing.indices
    for key, value in given.items():
        if isinstance(key, Routing):
            _bind_counts(program, key, value, table)
        elif isinstance(key, Stream):
            _bind_stream(program, key, value, table)
        elif isinstance(key, Dim) and key.is_ragged:
            _bind_ragged(key, value, table)
        else:
            symbol = key.expr if isinstance(key, Dim) else key
            if symbol not in program.namer.provenance:
                known = ", ".join(str(s) for s in program.namer.provenance) or "none"
                raise ArgError(
                    f"program '{program.name}': cannot bind {key!r}, it owns no symbol. "
                    f"Symbols: {known}"
                )
            table[symbol] = int(value)
    return _closure(program, table)


def _closure(program: Program, table: dict[Any, int]) -> dict[Any, int]:
    """Values of symbols that the user assumed equal to bound ones."""
    for left, right in program.equalities().items():
        for a, b in ((left, right), (right, left)):
            ready = isinstance(b, int) or all(s in table for s in b.free_symbols)
            if not isinstance(a, int) and a.is_Symbol and a not in table and ready:
                table[a] = b if isinstance(b, int) else _number(b, table)
    return table


def _bind_counts(program: Program, routing: Any, value: Any, table: dict[Any, int]) -> None:
    if routing.program is not program:
        raise ArgError(
            f"{routing!r} belongs to program '{routing.program.name}', not '{program.name}'"
        )
    array = np.asarray(value)
    if array.ndim == 2:
        counts = routing.counts_of(array)
    elif array.shape == (routing.experts,):
        counts = [int(c) for c in array]
        if sum(counts) != routing.rows * routing.k or min(counts) < 0 or max(counts) > routing.rows:
            raise ArgError(
                f"{routing!r}: counts sum to {sum(counts)}, expected {routing.rows * routing.k} "
                f"with each in 0..{routing.rows}"
            )
    else:
        raise ArgError(
            f"{routing!r}: bind counts of shape ({routing.experts},) or indices of shape "
            f"({routing.rows}, {routing.k}), found shape {array.shape}"
        )
    for index, size in routing.count.known().items():
        table[size.expr] = counts[index]


def _bind_stream(program: Program, stream: Stream, value: Any, table: dict[Any, int]) -> None:
    lengths = program.lengths().get(stream.key)
    if lengths is not None:
        _bind_ragged(lengths, value, table)
        return
    if not isinstance(stream.type, MultiHot | IndexSelector):
        raise ArgError(f"cannot bind {stream!r}: it owns no symbols")
    counts = program.counts_of(stream).known()
    for index, size in counts.items():
        if not size.is_static and size.expr.is_Symbol:
            table[size.expr] = int(value[index])


def _bind_ragged(size: Dim, value: Any, table: dict[Any, int]) -> None:
    sizes = [int(v) for v in np.asarray(value).ravel()]
    for expr, number in ((size.total, sum(sizes)), (size.bound, max(sizes, default=0))):
        if not isinstance(expr, int) and expr.is_Symbol:
            table[expr] = number


def measure(program: Program, *, memory: str, count_fifos: bool, on_demand: bool) -> Metrics:
    """Total the operators of a program; one ``Add`` per quantity."""
    if memory not in MODELS:
        raise ArgError(f"unknown memory model {memory!r}; use one of {', '.join(MODELS)}")
    account = Accounting(memory, count_fifos)
    rows = []
    for op in program.operators:
        held = op.memory(account)
        if on_demand and held != 0:
            held = product((held, active(op.trigger())))
        rows.append(OperatorMetrics(op, op.traffic(account), held, op.flops()))
    return Metrics(
        program,
        memory,
        count_fifos,
        on_demand,
        _sum(r.off_chip_traffic for r in rows),
        _sum(r.on_chip_memory for r in rows),
        _sum(r.flops for r in rows),
        tuple(rows),
    )
