"""Symbolic metrics of a program: off-chip traffic, on-chip memory, FLOPs, allocated compute.

They can be counted in several ways. ``executed`` is what a run does and needs: every tile with its
own width, the formulas of the STeP paper (tables 3 to 7), and on-chip memory of only those
operators that receive data. ``paper`` is the same with the memory of all operators. ``published``
reproduces the published figures to the byte: one tile buffer per off-chip operator, and the element
width quirk of those runs (loads and random accesses count a tile's own width, everything else
counts 4 bytes for any arithmetic scalar); ``published2`` doubles its buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from stepsim.arguments import shown
from stepsim.deferred import deferred
from stepsim.errors import ArgError, GraphError
from stepsim.frozen import frozen
from stepsim.graph.accounting import COUNTINGS, Accounting
from stepsim.graph.programs.binding import number_of, substitution
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.formula import Formula, light
from stepsim.graph.sizes.formulas import fold_sum, shorten
from stepsim.graph.sizes.sizes import Expression, Size, active, expression, product, sum_of

if TYPE_CHECKING:
    import sympy

    from stepsim.graph.operator import Operator
    from stepsim.graph.programs.program import Program
    from stepsim.graph.sizes import sympy_forms
else:
    sympy = deferred("sympy")
    sympy_forms = deferred("stepsim.graph.sizes.sympy_forms")

_QUANTITIES = ("off_chip_traffic", "on_chip_memory", "flops")

Quantities: TypeAlias = tuple[Size, Size, Size]
"""Off-chip traffic, on-chip memory and FLOPs."""

FORMULA_COLUMNS = 100
"""Widest formula in the repr of metrics."""


@frozen
class OperatorMetrics:
    """One row of the table: the contribution of an operator."""

    operator: Operator
    sizes: Quantities

    @property
    def off_chip_traffic(self) -> Expression:
        """Bytes read from and written to off-chip memory."""
        return expression(self.sizes[0])

    @property
    def on_chip_memory(self) -> Expression:
        """Bytes held on chip."""
        return expression(self.sizes[1])

    @property
    def flops(self) -> Expression:
        """Every executed FLOP, padded rows included."""
        return expression(self.sizes[2])

    def __repr__(self) -> str:
        return f"<{self.operator.title()}: {_totals(self.sizes)}>"


def _totals(sizes: Sequence[Size]) -> str:
    """The three quantities on one line, long formulas shortened."""
    traffic, memory, flops = (
        f"{size:,}" if isinstance(size, int) else shorten(fold_sum(size), FORMULA_COLUMNS)
        for size in sizes
    )
    return f"off-chip traffic {traffic} bytes, on-chip memory {memory} bytes, FLOPs {flops}"


def _check_traffic(traffic: Size | Expression, program: Program) -> None:
    if traffic == 0:
        raise ArgError(
            f"program '{program.name}' has no operational intensity: it has no off-chip traffic. "
            "Compare FLOPs instead, or load and store through off-chip operators"
        )


def _shown(size: Size) -> sympy.Expr:
    """A total as returned to users: always an expression."""
    return sympy_forms.shown(size)


_NUMERIC: dict[str, Callable[..., Any]] = {
    "CeilDiv": lambda a, b: -(-a // b),
    "Active": lambda n: np.clip(n, 0, 1),
}


@frozen(slots=False)
class Metrics:
    """Symbolic totals of a program; :meth:`bind` turns them into numbers.

    Attributes
    ----------
    off_chip_traffic, on_chip_memory : bytes.
    flops : every executed FLOP, padded rows included.
    """

    program: Program
    counting: str
    count_fifos: bool
    on_demand: bool
    sizes: Quantities
    _rows: tuple[OperatorMetrics, ...]

    @property
    def off_chip_traffic(self) -> sympy.Expr:
        """Bytes read from and written to off-chip memory."""
        return _shown(self.sizes[0])

    @property
    def on_chip_memory(self) -> sympy.Expr:
        """Bytes held on chip."""
        return _shown(self.sizes[1])

    @property
    def flops(self) -> sympy.Expr:
        """Every executed FLOP, padded rows included."""
        return _shown(self.sizes[2])

    def __repr__(self) -> str:
        return f"<Metrics of '{self.program.name}' ({self.counting}): {_totals(self.sizes)}>"

    def table(self) -> tuple[OperatorMetrics, ...]:
        """Contribution of each operator, in program order."""
        return self._rows

    @property
    def operational_intensity(self) -> sympy.Expr:
        """FLOPs per off-chip byte; ArgError if nothing is moved off chip."""
        _check_traffic(self.sizes[0], self.program)
        return self.flops / self.off_chip_traffic

    @property
    def allocated_compute(self) -> int:
        """FLOPs per cycle of all maps, map-accumulates and arithmetic accumulations."""
        return allocated_compute(self.program)

    def free_symbols(self) -> list[sympy.Symbol]:
        """Symbols of the three totals, by name."""
        made = {s.sympy() for s in self._symbols}
        return sorted((s for s in made if isinstance(s, sympy.Symbol)), key=str)

    @cached_property
    def _symbols(self) -> set[Formula]:
        return _symbols_of(self.sizes)

    def bind(self, values: Mapping[Any, Any] | None = None) -> BoundMetrics:
        """Numbers for given values of the symbols.

        Parameters
        ----------
        values : mapping from the owners of symbols to values, all of them non-negative ints:
            routings (counts ``[experts]`` or indices ``[rows, k]``), dims and symbols (an int; for
            a ragged dim the list of its sizes), selector streams (counts by output) and length
            streams (the lengths). Routings made from arrays are bound already.

        Raises
        ------
        ArgError : a symbol has no value (the message gives its origin), or a key owns no symbol.

        Example
        -------
        >>> with st.Program("two experts", compute_bw=64) as program:
        ...     table = st.routing(st.spec(4, 1), experts=2)
        ...     x = st.linear_load(st.spec(4, 8), tile=(1, 8)).flatten(0, 1)
        ...     for part in st.partition(x, table.multihot()):
        ...         part.promote().accum(st.fn.pack_rows, rank=1).map(st.fn.silu).consume()
        >>> metrics = program.metrics()
        >>> metrics.bind({table: [3, 1]}).on_chip_memory
        96
        >>> metrics.bind({table: [[0], [1], [0], [0]]}).flops
        256
        """
        if values is not None and not isinstance(values, Mapping):
            raise ArgError(
                f"program '{self.program.name}': values are a mapping such as {{routing: counts}}, "
                f"found {shown(values)}"
            )
        table = substitution(self.program, values or {})
        _check_values(self.program, self._symbols, table)
        return BoundMetrics(self, table, *(number_of(size, table) for size in self.sizes))

    def lambdify(self, quantity: str, arguments: Sequence[Any]) -> Callable[..., Any]:
        """A numpy function of one total (``off_chip_traffic``, ...) for sweeps.

        ``arguments`` are symbols or dims; each can be an int or an array in a call.

        Raises
        ------
        ArgError : there is no such quantity, an argument is not a symbol or dim, or the total
            depends on a symbol that is not among them.
        """
        if not (isinstance(quantity, str) and quantity in _QUANTITIES):
            raise ArgError(f"unknown quantity {shown(quantity)}; use {', '.join(_QUANTITIES)}")
        expr = getattr(self, quantity)
        listed = list(arguments) if isinstance(arguments, Iterable) else [arguments]
        symbols = [a.expr if isinstance(a, Dim) else a for a in listed]
        if odd := [a for a in symbols if not isinstance(a, sympy.Symbol)]:
            raise ArgError(
                f"arguments of {quantity}: found {shown(odd[0])}, expected a list of symbols and "
                "dynamic dims"
            )
        left = expr.free_symbols - set(symbols)
        if left:
            names = ", ".join(f"{s} ({self.program.provenance(s)})" for s in sorted(left, key=str))
            raise ArgError(f"{quantity} also depends on {names}; add them to the arguments")
        made: Callable[..., Any] = sympy.lambdify(symbols, expr, modules=[_NUMERIC, "numpy"])
        return made


@frozen(slots=False)
class BoundMetrics:
    """Totals as numbers."""

    symbolic: Metrics
    values: Mapping[Any, int]
    off_chip_traffic: int
    on_chip_memory: int
    flops: int

    def __repr__(self) -> str:
        of = self.symbolic
        totals = _totals((self.off_chip_traffic, self.on_chip_memory, self.flops))
        return f"<BoundMetrics of '{of.program.name}' ({of.counting}): {totals}>"

    @property
    def operational_intensity(self) -> float:
        """FLOPs per off-chip byte; ArgError if nothing is moved off chip."""
        _check_traffic(self.off_chip_traffic, self.symbolic.program)
        return self.flops / self.off_chip_traffic

    @property
    def allocated_compute(self) -> int:
        """FLOPs per cycle of all maps, map-accumulates and arithmetic accumulations."""
        return self.symbolic.allocated_compute

    def value(self, size: Dim | Size | Expression) -> int:
        """A dim or expression of the program as a number; ArgError for anything else."""
        known: Any = size.size if isinstance(size, Dim) else light(size)
        whole = isinstance(known, int) and not isinstance(known, bool)
        if not (whole or (isinstance(known, Formula) and known.symbols())):
            raise ArgError(f"value: found {shown(size)}, expected a dim or an expression of dims")
        return number_of(known, self.values)


def measure(
    program: Program, *, counting: str, count_fifos: bool, on_demand: bool | None
) -> Metrics:
    """Sum up the operators of a program, one sum per quantity."""
    if not isinstance(counting, str) or counting not in COUNTINGS:
        raise ArgError(f"unknown counting {shown(counting)}; use one of {', '.join(COUNTINGS)}")
    accounting = Accounting(counting, count_fifos)
    if on_demand is None:
        on_demand = counting == "executed"
    rows = [
        OperatorMetrics(op, (op.traffic(accounting), _held(op, accounting, on_demand), op.flops()))
        for op in program.operators
    ]
    return Metrics(
        program,
        counting,
        count_fifos,
        on_demand,
        (
            sum_of(r.sizes[0] for r in rows),
            sum_of(r.sizes[1] for r in rows),
            sum_of(r.sizes[2] for r in rows),
        ),
        tuple(rows),
    )


def _held(op: Operator, accounting: Accounting, on_demand: bool) -> Size:
    held = op.memory(accounting)
    return product((held, active(op.trigger()))) if on_demand and held != 0 else held


def measured_bytes(
    program: Program, values: Mapping[Any, Any], *, counting: str, on_demand: bool
) -> tuple[int, int]:
    """Off-chip traffic and on-chip memory as given by `Metrics.bind`, without the FLOPs.

    Raises
    ------
    ArgError : as for `Metrics.bind`.
    """
    accounting = Accounting(counting, count_fifos=False)
    table = substitution(program, values)
    totals = (
        sum_of(op.traffic(accounting) for op in program.operators),
        sum_of(_held(op, accounting, on_demand) for op in program.operators),
    )
    _check_values(program, _symbols_of(totals), table)
    return number_of(totals[0], table), number_of(totals[1], table)


def allocated_compute(
    program: Program,
    unit_flops_per_cycle: int | None = None,
    changed: Mapping[str, int] = MappingProxyType({}),
) -> int:
    """FLOPs per cycle of all maps, map-accumulates and arithmetic accumulations.

    ``unit_flops_per_cycle`` is the bandwidth that a machine gives every operator with FLOPs; it
    replaces the bandwidths in the program. Those of ``changed``, by operator, replace both.

    Raises
    ------
    GraphError : an operator has no compute bandwidth, although its function has FLOPs.
    """
    total = 0
    for op in program.operators:
        if allocates_compute(op):
            bandwidth = op.bandwidth()  # type: ignore[attr-defined]
            if unit_flops_per_cycle is not None and op.has_flops():  # type: ignore[attr-defined]
                bandwidth = unit_flops_per_cycle
            if changed:
                bandwidth = changed.get(op.title(), bandwidth)
            if bandwidth is None:
                if not op.has_flops():  # type: ignore[attr-defined]
                    continue
                raise GraphError(
                    f"{op.title()} has no compute bandwidth. Pass compute_bw= to the operator "
                    f"or to Program ({op.source})"
                )
            total += bandwidth
    return total


def allocates_compute(op: Operator) -> bool:
    """Whether the compute bandwidth of an operator counts as allocated."""
    return op.charges_compute and op.unit_kind not in ("Scan", "GeneralScan")


def _symbols_of(sizes: Iterable[Size]) -> set[Formula]:
    return {s for size in sizes if isinstance(size, Formula) for s in size.symbols()}


def _check_values(program: Program, symbols: Iterable[Formula], table: Mapping[Any, int]) -> None:
    missing = sorted((s for s in symbols if s not in table), key=str)
    if missing:
        lines = "".join(f"\n  - {s}: {program.provenance(s)}" for s in missing)
        raise ArgError(
            f"program '{program.name}': {len(missing)} symbols have no value. Bind the "
            f"object that owns them:{lines}"
        )
