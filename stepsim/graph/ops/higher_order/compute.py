"""Common parts of operators that apply functions: bandwidth, FLOPs, buffers, argument checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from stepsim.arguments import shown
from stepsim.errors import ArgError, DimError, LoweringError, StepError
from stepsim.graph.functions.function import Function, Record
from stepsim.graph.functions.inference import Same, Setting
from stepsim.graph.functions.table import FAMILIES
from stepsim.graph.operator import Operator, Site
from stepsim.graph.sizes.dims import Dim, total_over
from stepsim.graph.sizes.limits import COMPUTE_BW
from stepsim.graph.sizes.sizes import Size, degree, product
from stepsim.graph.types import ElementType, Tile, TupleType

if TYPE_CHECKING:
    from stepsim.graph.accounting import Accounting
    from stepsim.graph.stream import Stream

MATMUL_ROWS = 16
"""Rows of the activation buffer of one matmul array (STeP paper, section 4.1)."""


class Compute(Operator):
    """An operator that applies a function at a compute bandwidth."""

    fn: Function
    compute_bw: int | None
    write_back: bool

    def bandwidth(self) -> int | None:
        """FLOPs per cycle, its own or the program's; None if neither is stated."""
        return self.compute_bw if self.compute_bw is not None else self.program.compute_bw

    @property
    def function(self) -> Function:
        """The function with the FLOP weight of the program."""
        return self.program.weighed(self.fn)

    def has_flops(self) -> bool:
        """Whether it needs a compute bandwidth."""
        return bool(self.function.flops)

    def unit_bw(self) -> int:
        bandwidth = self.stated_bw()
        if bandwidth is None:
            raise self.without_bandwidth()
        return bandwidth

    def stated_bw(self) -> int | None:
        """The same, or None where only a machine may state it."""
        bandwidth = self.bandwidth()
        return 1 if bandwidth is None and not self.has_flops() else bandwidth

    def without_bandwidth(self) -> LoweringError:
        """The error of an operator whose bandwidth neither program nor machine states."""
        return LoweringError(
            f"{self.title()}: no compute bandwidth. Pass compute_bw= to the operator or to "
            f"Program, or state compute.unit_flops_per_cycle of the machine ({self.source})"
        )

    def operands(self) -> list[Tile]:
        """Tiles of the elements, with tuples expanded."""
        return [t for s in self.inputs for t in _tiles(s.type)]

    def results(self) -> list[Tile]:
        return _tiles(self.outputs[0].type)

    def record(self) -> Record:
        """The function in the form of the engine, for the scalar types at hand."""
        fn, results = self.function, self.results()
        states = results if fn.shape.states else []
        tiles = [*states, *self.operands()]
        return fn.record(tuple(t.dtype for t in tiles), tuple(t.dtype for t in results))

    def flops(self) -> Size:
        fn, results = self.function, self.results()
        states = results if fn.shape.states else []
        found = flops_over(fn, (*states, *self.operands()), results, self.inputs[0].cardinality())
        return self.program.flops_of(self) if found is None else found


def flops_over(
    fn: Function, operands: Sequence[Tile], results: Sequence[Tile], count: Size
) -> Size | None:
    """FLOPs of ``count`` firings; None if they do not follow from the sums of sizes."""
    elements = operands[fn.shape.states :]
    each = fn.cost(operands, results)
    # Operands first: a result of fewer tiles may have the same sizes less often.
    sides = [s for tile in (*elements, *results) for s in (tile.rows, tile.cols)]
    if isinstance(each, int) or not any(s.is_ragged for s in sides):
        return product((count, each))
    used = each.symbols()
    ragged = list(dict.fromkeys(s for s in sides if s.is_ragged and s.size in used))
    if not ragged:
        return product((count, each))
    side = ragged[0]
    rest, one = (each.replaced({side.size: n}) for n in range(2))
    slope = one - rest
    running = not any(side in (t.rows, t.cols) for t in elements) and side.over != count
    if len(ragged) > 1 or degree(each, side.size) > 1 or running:
        return None
    return product((slope, total_over(side, count))) + product((rest, count))


def members(element: ElementType) -> list[ElementType]:
    """The operands of an element, for an operator that expands tuples."""
    if isinstance(element, TupleType):
        return [part for one in element.parts for part in members(one)]
    return [element]


def different(element: ElementType) -> Iterable[ElementType]:
    """The different members of an element, each once."""
    return element.counts if isinstance(element, TupleType) else (element,)


def _tiles(element: ElementType) -> list[Tile]:
    if type(element) is Tile:
        return [element]
    return [part for part in members(element) if isinstance(part, Tile)]


def fifo_bytes(accounting: Accounting, *streams: Stream) -> Size:
    return sum(accounting.type_bytes(s.type) for s in streams)


def matmul_buffers(op: Compute, accounting: Accounting, *, in_bytes: bool) -> Size:
    """``16 * k`` of the first operand (bytes or scalars) plus the weight tile; for matmuls only."""
    if op.fn.transposes is None:
        return 0
    a, b = op.operands()[:2]
    inner = a.rows if op.fn.transposes[0] else a.cols
    rows = product((MATMUL_ROWS, inner.most))
    first = accounting.scalar_bytes(rows, a.dtype) if in_bytes else rows
    return first + accounting.type_bytes(b)


def setting_of(site: Site, stream: Stream) -> Setting:
    """The application of a function to the elements of a stream."""
    return Setting(_same_sizes(site), site.owner.namer, stream.shape)


def _same_sizes(site: Site) -> Same:
    def same(a: Dim, b: Dim, what: Callable[[], str]) -> None:
        verdict = site.owner.compare(a, b)
        if not verdict:
            state = "different" if verdict is False else "unknown"
            raise DimError(f"{what()} must be equal: {a} vs {b} ({state})")

    return same


def infer(site: Site, rule: Callable[[], Any]) -> Any:
    """Run a function's type rule; its errors get the operator's name and source line."""
    try:
        return rule()
    except StepError as error:
        try:
            site.fail(type(error), str(error).rstrip("."))
        except StepError as located:
            raise located from error.__cause__ or error


def check_function(
    site: Site, fn: Any, compute_bw: int | None, applied: Function | None, where: str
) -> int | None:
    """The compute bandwidth of an operator, after checking that function and bandwidth fit it.

    ``applied`` is the function in the form for the operator, None if it does not fit.
    """
    if not isinstance(fn, Function):
        name = getattr(fn, "__name__", None)
        hint = f"call it with its arguments, st.fn.{name}(...)" if name in FAMILIES else ""
        problem = f"fn must be a function of st.fn or st.function, found {shown(fn)}"
        site.fail(ArgError, problem, hint)
    if applied is None:
        site.fail(ArgError, f"'{fn}' cannot be used in {where}")
    free = not applied.flops and type(compute_bw) is int and compute_bw == 0
    if compute_bw is None or free:
        return compute_bw
    return site.number(COMPUTE_BW, "compute_bw", compute_bw)
