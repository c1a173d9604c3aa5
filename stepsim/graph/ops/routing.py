"""Routing and merging operators (STeP paper, table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from stepsim.errors import ArgError, DimError, DTypeError, RankError
from stepsim.graph.dims import Dim, Kind, format_dims
from stepsim.graph.handle import FixedCounts, Padding, SplitPadding, blurred
from stepsim.graph.operator import Bindings, Operator, Output, Site
from stepsim.graph.sizes import Size, ceil_div, product
from stepsim.graph.types import ElementType, IndexSelector, MultiHot, Tile

if TYPE_CHECKING:
    from stepsim.graph.metrics import Accounting
    from stepsim.graph.stream import Stream

__all__ = [
    "EagerMerge",
    "Parallelize",
    "Partition",
    "Reassemble",
    "eager_merge",
    "parallelize",
    "partition",
    "reassemble",
]

Switch = int | Sequence[int]


@dataclass(eq=False, kw_only=True)
class _Router(Operator):
    """Switches chunks between streams; holds their FIFOs, when FIFOs are counted."""

    rank: int
    switch_cycles: tuple[int, ...]

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"rank": self.rank, "switch": list(self.switch_cycles)}

    def memory(self, account: Accounting) -> Size:
        if not account.count_fifos:
            return 0
        return account.type_bytes(self.inputs[0].type) * (len(self.outputs) + 1)


@dataclass(eq=False, kw_only=True)
class Partition(_Router):
    """Sends every chunk of the data to the outputs that its selector names."""

    name: ClassVar[str] = "partition"
    unit_kind: ClassVar[str] = "Partition"
    write_back: bool

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return super().unit_params(bindings) | {"wb": self.write_back}


@dataclass(eq=False, kw_only=True)
class Reassemble(_Router):
    """Collects the chunks that each selector names, in order of arrival."""

    name: ClassVar[str] = "reassemble"
    unit_kind: ClassVar[str] = "Reassemble"
    write_back: bool

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return super().unit_params(bindings) | {"wb": self.write_back}

    def memory(self, account: Accounting) -> Size:
        total: Size = 0
        out = self.outputs[0]
        if self.write_back and not account.by_paper:
            kept = max(self.inputs[-1].rank - 1, 0)
            total = product(d.bound for d in out.shape[kept:]) * account.type_bytes(out.type)
        if account.count_fifos:
            total += account.type_bytes(self.inputs[0].type) * len(self.inputs)
        return total


@dataclass(eq=False, kw_only=True)
class EagerMerge(Operator):
    """Merges streams in order of arrival; the second output says where each chunk came from."""

    name: ClassVar[str] = "eager_merge"
    unit_kind: ClassVar[str] = "EagerMerge"
    rank: int

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"rank": self.rank}

    def memory(self, account: Accounting) -> Size:
        if not account.count_fifos:
            return 0
        each = account.type_bytes(self.outputs[0].type) + account.type_bytes(self.outputs[1].type)
        return each * (len(self.inputs) + 1)

    def trigger(self) -> Size:
        return self.outputs[0].elements()


@dataclass(eq=False, kw_only=True)
class Parallelize(_Router):
    """Deals the outermost subtensors round-robin."""

    name: ClassVar[str] = "parallelize"
    unit_kind: ClassVar[str] = "Parallelize"


def _switch(site: Site, switch_cycles: Switch, count: int) -> tuple[int, ...]:
    costs = (switch_cycles,) * count if isinstance(switch_cycles, int) else tuple(switch_cycles)
    site.require(
        len(costs) == count and all(isinstance(c, int) and c >= 0 for c in costs),
        ArgError,
        f"switch_cycles {list(costs)} must hold {count} ints >= 0",
        "give one number for all of them, or one for each",
    )
    return costs


def _selector(site: Site, stream: Stream) -> MultiHot | IndexSelector:
    if not isinstance(stream.type, MultiHot | IndexSelector):
        site.fail(
            DTypeError,
            f"selector must carry selectors, found {stream.type}",
            "make selectors with routing(), selector() or eager_merge()",
        )
    return stream.type


def partition(
    x: Stream,
    selector: Stream,
    *,
    rank: int | None = None,
    outputs: int | None = None,
    switch_cycles: Switch = 1,
    write_back: bool = False,
    like: Sequence[Stream] | None = None,
    label: str | None = None,
) -> list[Stream]:
    """Split a stream by selectors; output i has shape ``[count_i] ++`` the ``rank`` inner dims.

    ``rank`` follows from the inputs; when given it is checked. ``like`` states the element types of
    the outputs, for tiles whose size is known per output only.
    """
    site = Site("partition", (x, selector), label, ("data", "selector"))
    width = getattr(selector.type, "width", 0)
    costs = _switch(site, switch_cycles, width) if width else ()
    _selector(site, selector)
    site.require(
        outputs in (None, width),
        ArgError,
        f"outputs={outputs} but the selector is {width} wide",
        "leave outputs out; the selector's width decides",
    )
    inner = x.rank - selector.rank
    site.require(
        inner >= 0 and rank in (None, inner),
        RankError,
        f"data of rank {x.rank} and selector of rank {selector.rank} partition at rank {inner}"
        + (f", not {rank}" if rank is not None else ""),
        "the selector must have one dim for each data dim above the partition rank",
    )
    keep = len(x.shape) - inner
    site.same_dims(x.shape[:keep], selector.shape, "data", "selector", base=0)
    site.require(
        like is None or len(like) == width,
        ArgError, f"like names {len(like or ())} streams for {width} outputs",
    )  # fmt: skip
    counts = site.owner.counts_of(selector)
    made: list[Output] = []
    for index in range(width):
        part = counts.part(index)
        dims = [_own(site, d, index, part) for d in x.shape[keep:]]
        element = like[index].type if like is not None else _restored(x.type, index, part)
        padding = _split(x.padding, index, part is not None)
        made.append(Output((counts.of(index), *dims), element, None, padding))
    op = Partition(rank=inner, switch_cycles=costs, write_back=write_back)
    return list(site.add(op, made))


def _own(site: Site, size: Dim, index: int, part: Stream | None = None) -> Dim:
    """Inner dims of an output: ragged ones are new, or those of the merged input ``part``."""
    if not size.is_ragged:
        return size
    if size.parts and part is not None and size.parts[index] in part.shape:
        return size.parts[index]
    return site.owner.namer.ragged(
        str(size.expr), f"{site.title}, output {index}, of {size}", bound=size.bound,
        static=size.static,
    )  # fmt: skip


def _restored(element: ElementType, index: int, part: Stream | None) -> ElementType:
    """A merged tile gets back the size that it had in the input ``part`` that it came from."""
    if part is None or not isinstance(element, Tile) or not isinstance(part.type, Tile):
        return element
    known = (part.type.rows, part.type.cols)
    sides = [
        s.parts[index] if s.parts and s.parts[index] in known else s
        for s in (element.rows, element.cols)
    ]
    return Tile(element.dtype, *sides)


def _split(
    padding: Padding | SplitPadding | None, index: int, merged: bool
) -> Padding | SplitPadding | None:
    if padding is None:
        return None
    if merged and isinstance(padding, SplitPadding) and padding.parts:
        return padding.parts[index]
    return blurred(padding)


def _merged_inputs(
    site: Site, xs: Sequence[Stream], rank: int | None, selector_width: int | None
) -> int:
    """Common checks of reassemble and eager_merge; returns the rank of the inputs."""
    site.require(len(xs) >= 1, ArgError, "no input streams")
    site.require(
        selector_width is None or len(xs) == selector_width,
        ArgError,
        f"{len(xs)} inputs but the selector is {selector_width} wide",
        "pass one stream for each output of the matching partition",
    )
    want = xs[0].rank if rank is None else rank
    for role, x in zip(site.roles, xs, strict=False):
        site.require(
            x.rank == want,
            RankError,
            f"{role} {format_dims(x.shape)} has rank {x.rank}, expected {want}",
            "all inputs have the rank that is treated as a unit",
        )
        site.same_dims_regular(xs[0].shape[1:], x.shape[1:], site.roles[0], role)
    return want


def reassemble(
    xs: Sequence[Stream],
    selector: Stream,
    *,
    rank: int | None = None,
    switch_cycles: Switch = 1,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Per selector element, the selected chunks in order of arrival: ``sel ++ [H] ++ inner``.

    H is the number of selected inputs: a constant when the selector always has the same number of
    bits set, else ragged.
    """
    roles = (*(f"in{i}" for i in range(len(xs))), "selector")
    site = Site("reassemble", (*xs, selector), label, roles)
    costs = _switch(site, switch_cycles, len(xs))
    kind = _selector(site, selector)
    unit = _merged_inputs(site, xs, rank, kind.width)
    for role, x in zip(roles, xs, strict=False):
        if x.type != xs[0].type:
            site.fail(
                DTypeError,
                f"in0 carries {xs[0].type}, {role} carries {x.type}",
                "all inputs need one element type; unpack dynamic tiles into rows first",
            )
    if kind.hot is not None:
        hot = Dim(kind.hot)
    else:
        total = sum((x.shape[0].total for x in xs[1:]), xs[0].shape[0].total)
        hot = site.owner.namer.ragged(
            "h", f"chunks per selector of {site.title}", total=total, bound=len(xs)
        )
    inner = [_joined(site, [x.shape[i] for x in xs]) for i in range(1, unit + 1)]
    padding = next((blurred(x.padding) for x in xs if x.padding is not None), None)
    op = Reassemble(rank=unit, switch_cycles=costs, write_back=write_back)
    return site.add(op, [Output((*selector.shape, hot, *inner), xs[0].type, None, padding)])[0]


def _joined(site: Site, dims: Sequence[Dim], spans: Sequence[Size] | None = None) -> Dim:
    """One dim for several inputs: the common regular one, or a ragged dim made of the parts."""
    first = dims[0]
    regular = not any(d.is_ragged for d in dims)
    if regular and (spans is None or all(d == first for d in dims)):
        return first
    weights = spans if spans is not None else [None] * len(dims)
    totals = [
        d.total if w is None or d.is_ragged else product((d.expr, w))
        for d, w in zip(dims, weights, strict=True)
    ]
    bounds = [d.bound for d in dims]
    bound = bounds[0] if all(b == bounds[0] for b in bounds) else _largest(bounds)
    span = None if spans is None else sum(spans[1:], spans[0])
    return site.owner.namer.ragged(
        "m", f"merged by {site.title}", total=sum(totals[1:], totals[0]), bound=bound,
        parts=dims, span=span,
    )  # fmt: skip


def _largest(sizes: Sequence[Size]) -> Size:
    import sympy

    # Unevaluated: comparing symbols pairwise decides nothing and takes seconds for many inputs.
    return sympy.Max(*sizes, evaluate=False)


def eager_merge(
    xs: Sequence[Stream], *, rank: int | None = None, label: str | None = None
) -> tuple[Stream, Stream]:
    """Merge streams chunk by chunk as they arrive: (data, selector).

    Partitioning something of the merged outer dim by the selector gives back the dims, tile sizes
    and padding of the inputs.
    """
    roles = tuple(f"in{i}" for i in range(len(xs)))
    site = Site("eager_merge", tuple(xs), label, roles)
    unit = _merged_inputs(site, xs, rank, None)
    outer = [x.shape[0] for x in xs]
    total = Dim(sum((d.total for d in outer[1:]), outer[0].total))
    if not total.is_static:
        total = Dim(total.expr, Kind.DR)
    element = _joined_type(site, xs)
    inner = [_joined(site, [x.shape[i] for x in xs]) for i in range(1, unit + 1)]
    padding: SplitPadding | None = None
    if any(x.padding is not None for x in xs):
        padding = SplitPadding(tuple(x.padding for x in xs))
    counts = FixedCounts(site.owner, outer, xs)
    data = Output((total, *inner), element, None, padding)
    which = Output((total,), MultiHot(len(xs), 1), counts)
    streams = site.add(EagerMerge(rank=unit), [data, which])
    return streams[0], streams[1]


def _joined_type(site: Site, xs: Sequence[Stream]) -> ElementType:
    types = [x.type for x in xs]
    first = types[0]
    if all(t == first for t in types):
        return first
    tiles = [t for t in types if isinstance(t, Tile)]
    if len(tiles) != len(types) or any(t.dtype is not tiles[0].dtype for t in tiles):
        odd = next(i for i, t in enumerate(types) if t != first)
        site.fail(
            DTypeError,
            f"in0 carries {first}, in{odd} carries {types[odd]}",
            "merged streams need one element type; only tile sizes may differ",
        )
    spans = [x.elements() for x in xs]
    return Tile(
        tiles[0].dtype,
        _joined(site, [t.rows for t in tiles], spans),
        _joined(site, [t.cols for t in tiles], spans),
    )


def parallelize(
    x: Stream,
    n: int,
    *,
    rank: int | None = None,
    switch_cycles: Switch = 1,
    label: str | None = None,
) -> list[Stream]:
    """Deal the outermost subtensors round-robin over ``n`` streams."""
    site = Site("parallelize", (x,), label, ("in",))
    site.require(isinstance(n, int) and n >= 1, ArgError, f"n must be an int >= 1, found {n!r}")
    costs = _switch(site, switch_cycles, n)
    site.require(
        rank in (None, x.rank),
        RankError,
        f"rank {rank} does not fit {format_dims(x.shape)}",
        f"parallelize deals the outermost dim; its rank is {x.rank}",
    )
    top = x.shape[0]
    site.require(
        not top.is_static or int(top) % n == 0,
        DimError,
        f"{n} streams cannot share {top} subtensors of {format_dims(x.shape)} evenly",
        "choose a divisor of the outermost dim",
    )
    made = [
        Output(
            (Dim(ceil_div(top.expr - i, n)), *(_own(site, d, i) for d in x.shape[1:])),
            x.type,
            None,
            blurred(x.padding),
        )
        for i in range(n)
    ]
    op = Parallelize(rank=x.rank, switch_cycles=costs)
    return list(site.add(op, made))
