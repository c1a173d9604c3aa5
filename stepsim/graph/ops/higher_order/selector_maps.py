"""Maps of functions that produce or consume selectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from stepsim.arguments import counted, shown
from stepsim.errors import ArgError, DTypeError
from stepsim.frozen import keyword_record
from stepsim.graph.functions.selectors import SelectorFunction
from stepsim.graph.operator import Bindings, Operator, Output, Site
from stepsim.graph.sizes.sizes import Size
from stepsim.graph.types import U64_TILE, ElementType, IndexSelector, MultiHot, Tile

if TYPE_CHECKING:
    from stepsim.graph.accounting import Accounting
    from stepsim.graph.stream import Stream


@keyword_record
class SelectorMap(Operator):
    """Applies a function that produces or consumes selectors."""

    name: ClassVar[str] = "map"
    unit_kind: ClassVar[str] = "SelectorMap"
    fn: SelectorFunction
    write_back: bool

    @property
    def width(self) -> int:
        """Number of flags of the selectors that it produces or consumes."""
        if self.fn.width is not None:
            return self.fn.width
        kind = self.inputs[0].type
        assert isinstance(kind, MultiHot | IndexSelector)
        return kind.width

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"fn": self.fn.unit, "width": self.width, "cycles": 1, "wb": self.write_back}

    def memory(self, accounting: Accounting) -> Size:
        if not accounting.count_fifos:
            return 0
        return sum(accounting.type_bytes(s.type) for s in (*self.inputs, *self.outputs))


def map_selectors(
    fn: SelectorFunction,
    xs: Sequence[Stream],
    compute_bw: int | None,
    write_back: bool,
    label: str | None,
) -> Stream:
    """The map of a function that produces or consumes selectors, see :func:`map_`."""
    site = Site("map", xs, label, fn=fn)
    site.require(
        compute_bw is None, ArgError,
        f"'{fn}' has no FLOPs, compute_bw has no effect; found {shown(compute_bw)}", "leave it out",
    )  # fmt: skip
    write_back = site.flag("write_back", write_back)
    count = max(fn.operands, 1)
    site.require(
        len(xs) == count, ArgError, f"'{fn}' takes {counted(count, 'stream')}, found {len(xs)}"
    )
    for x in xs[1:]:
        site.same_dims(xs[0].shape, x.shape, "in1", "in2")
    if fn.width is not None:
        kind = xs[0].type
        site.require_type(
            isinstance(kind, Tile) and kind.is_address, "in1", xs[0], "whole numbers",
            "st.metadata makes them",
        )  # fmt: skip
        return _add(site, fn, write_back, MultiHot(fn.width, fn.hot))
    widths = []
    for role, x in zip(site.roles, xs, strict=True):
        kind = x.type
        if not isinstance(kind, MultiHot | IndexSelector):
            site.fail(DTypeError, f"{role} must carry selectors, found {kind}")
        site.require(
            kind.width <= fn.most, ArgError,
            f"'{fn}' takes selectors of up to {fn.most} flags, found {kind}",
        )  # fmt: skip
        widths.append(kind.width)
    site.require(
        len(set(widths)) == 1, DTypeError,
        f"selectors of {' and '.join(map(str, widths))} flags do not go together",
    )  # fmt: skip
    if fn.unit in ("MultiHotToInteger", "SelectToScalar"):
        return _add(site, fn, write_back, U64_TILE)
    return _add(site, fn, write_back, MultiHot(widths[0]))


def _add(site: Site, fn: SelectorFunction, write_back: bool, kind: ElementType) -> Stream:
    op = SelectorMap(fn=fn, write_back=write_back)
    return site.add(op, [Output(site.inputs[0].shape, kind)])[0]
