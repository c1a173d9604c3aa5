"""What the operators that apply functions share: bandwidth, FLOPs, buffers and argument checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sympy

from stepsim.arguments import shown
from stepsim.errors import ArgError, DimError, LoweringError, StepError
from stepsim.graph.dims import Dim, total_over
from stepsim.graph.functions import Function
from stepsim.graph.limits import COMPUTE_BW
from stepsim.graph.operator import Operator, Site
from stepsim.graph.sizes import Size, product
from stepsim.graph.types import ElementType, Tile, TupleType

if TYPE_CHECKING:
    from stepsim.graph.metrics import Accounting
    from stepsim.graph.stream import Stream

__all__ = [
    "Compute",
    "check_function",
    "fifo_bytes",
    "infer",
    "matmul_buffers",
    "same_sizes",
]

MATMUL_ROWS = 16
"""Rows of the activation buffer of one matmul array (STeP paper, section 4.1)."""


class Compute(Operator):
    """An operator that applies a function at a compute bandwidth."""

    fn: Function
    compute_bw: int | None
    write_back: bool

    def bandwidth(self) -> int | None:
        """FLOPs per cycle, own or the program's; None when neither is stated."""
        return self.compute_bw if self.compute_bw is not None else self.program.compute_bw

    def unit_bw(self) -> int:
        bandwidth = self.bandwidth()
        if bandwidth is not None:
            return bandwidth
        if self.fn.constant_cycles:
            return 1
        raise LoweringError(
            f"{self.title()}: no compute bandwidth. Pass compute_bw= to the operator or to Program "
            f"({self.source})"
        )

    def operands(self) -> list[Tile]:
        types: list[ElementType] = []
        for stream in self.inputs:
            types += stream.type.parts if isinstance(stream.type, TupleType) else [stream.type]
        return [t for t in types if isinstance(t, Tile)]

    def result_width(self) -> dict[str, Any]:
        """The unit parameter that lets a matmul take operands of different widths; else nothing."""
        tiles = self.operands()
        if "Matmul" not in (self.fn.map_unit, self.fn.accum_unit):
            return {}
        if tiles[0].dtype is tiles[1].dtype:
            return {}
        out = self.outputs[0].type
        assert isinstance(out, Tile)
        return {"result_bpe": out.dtype.element_bytes}

    def flops(self) -> Size:
        tiles = self.operands()
        out = self.outputs[0].type
        assert isinstance(out, Tile)
        each = self.fn.flops(tiles, out)
        count = self.inputs[0].elements()
        # Those of the operands first: a result of few tiles may have the same sizes less often.
        sides = dict.fromkeys(s for tile in (*tiles, out) for s in (tile.rows, tile.cols))
        used = set() if isinstance(each, int) else each.free_symbols
        ragged = [s for s in sides if s.is_ragged and s.expr in used]
        if isinstance(each, int) or not ragged:
            return product((count, each))
        side = ragged[0]
        rest, one, two = (each.xreplace({side.expr: sympy.Integer(n)}) for n in range(3))
        slope = one - rest
        running = not any(side in (t.rows, t.cols) for t in tiles) and side.span != count
        if len(ragged) > 1 or two != one + slope or running:
            return self.program.flops_of(self)
        return product((slope, total_over(side, count))) + product((rest, count))


def fifo_bytes(account: Accounting, *streams: Stream) -> Size:
    return sum(account.type_bytes(s.type) for s in streams)


def matmul_buffers(op: Operator, account: Accounting, *, in_bytes: bool) -> Size:
    """``16 * cols`` of the first operand (bytes or scalars) plus the weight tile."""
    a = op.inputs[0].type
    assert isinstance(a, Tile)
    rows = product((MATMUL_ROWS, a.cols.bound))
    first = account.scalar_bytes(rows, a.dtype) if in_bytes else rows
    return first + account.type_bytes(op.inputs[1].type)


def same_sizes(site: Site) -> Callable[[Dim, Dim, str], None]:
    def same(a: Dim, b: Dim, what: str) -> None:
        verdict = site.owner.compare(a, b)
        if not verdict:
            state = "different" if verdict is False else "unknown"
            raise DimError(f"{what} must be equal: {a} vs {b} ({state})")

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
    site: Site, fn: Any, compute_bw: int | None, usable: bool, where: str
) -> int | None:
    """The compute bandwidth of an operator, once function and bandwidth are known to fit it."""
    if not isinstance(fn, Function):
        site.fail(ArgError, f"fn must be a function of st.fn, found {shown(fn)}")
    if not usable:
        site.fail(ArgError, f"{fn} cannot be used in {where}")
    if compute_bw is None or (fn.constant_cycles and type(compute_bw) is int and compute_bw == 0):
        return compute_bw
    return site.number(COMPUTE_BW, "compute_bw", compute_bw)
