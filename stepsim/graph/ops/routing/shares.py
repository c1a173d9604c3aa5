"""Sizes under routing: the share of one output of a split, the sum of merged inputs.

A ragged dim represents its sizes at all outer positions of one stream, so an output that receives
only some of them has a different dim. A merged dim remembers the dims it was made of, and an output
that separates one input gets the dim of that input back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from stepsim.errors import DTypeError
from stepsim.graph.operator import Site
from stepsim.graph.sizes.dims import Dim, total_over
from stepsim.graph.sizes.shapes import cardinality
from stepsim.graph.sizes.sizes import Size, largest, product, sum_of
from stepsim.graph.types import Buffer, ElementType, Tile, TupleType

if TYPE_CHECKING:
    from stepsim.graph.stream import Stream


def share_of_dim(site: Site, size: Dim, index: int, known: Sequence[Dim] = ()) -> Dim:
    """A dim of output ``index``; ``known`` are the dims of the merged input that it restores."""
    if not size.is_ragged:
        return size
    part = _part_of(size, index)
    if part is not None and part in known:
        return part
    return site.owner.namer.ragged(
        str(size.size), f"{site.title}, output {index}, of {size}", bound=size.most,
        static=size.static,
    )  # fmt: skip


def _part_of(size: Dim, index: int) -> Dim | None:
    # The merge that made `size` may be another one than that of the selector, with fewer inputs.
    return size.parts[index] if index < len(size.parts) else None


def share_of_type(
    site: Site, element: ElementType, index: int, shape: Sequence[Dim], part: Stream | None = None
) -> ElementType:
    """The element type of output ``index`` of this shape, which may restore the input ``part``."""
    known = _sizes(part.type) if part is not None else ()
    if isinstance(element, Tile):
        count = cardinality(shape)
        sides = [_share_of_side(site, s, index, known, count) for s in (element.rows, element.cols)]
        return Tile(element.dtype, *sides)
    if isinstance(element, Buffer):
        dims = tuple(share_of_dim(site, d, index, known) for d in element.dims)
        return Buffer(element.tile, dims)
    if isinstance(element, TupleType):
        return element.changed(lambda p: share_of_type(site, p, index, shape))
    return element


def _share_of_side(site: Site, side: Dim, index: int, known: Sequence[Dim], count: Size) -> Dim:
    if not side.is_ragged or side in known:
        return side
    part = _part_of(side, index)
    if part is not None and part in known:
        return part
    return site.owner.namer.ragged(
        str(side.size), f"{site.title}, output {index}, of {side}", bound=side.most, span=count
    )


def _sizes(element: ElementType) -> tuple[Dim, ...]:
    if isinstance(element, Tile):
        return element.rows, element.cols
    return element.dims if isinstance(element, Buffer) else ()


def joined_dims(site: Site, xs: Sequence[Stream], rank: int) -> list[Dim]:
    """The ``rank`` inner dims of merged streams: a common regular one, or a ragged one."""
    made = []
    for i in range(1, rank + 1):
        dims = [x.shape[i] for x in xs]
        totals = [cardinality(x.shape[: i + 1]) for x in xs]
        made.append(_joined(site, dims, totals) if any(d.is_ragged for d in dims) else dims[0])
    return made


def joined_type(site: Site, xs: Sequence[Stream], *, mixed: bool) -> ElementType:
    """The element type of merged streams; only ragged sizes differ, if ``mixed`` all of tiles."""
    first = xs[0].type
    if isinstance(first, Tile):
        tiles = [x.type for x in xs if isinstance(x.type, Tile)]
        if len(tiles) == len(xs) and all(t.dtype is first.dtype for t in tiles):
            sides = [t.rows for t in tiles], [t.cols for t in tiles]
            if mixed or all(_alike(side) for side in sides):
                return Tile(first.dtype, *(_joined_sides(site, xs, side) for side in sides))
    if isinstance(first, Buffer):
        buffers = [x.type for x in xs if isinstance(x.type, Buffer) and x.type.tile == first.tile]
        inner = [b.dims[1:] for b in buffers]
        if len(buffers) == len(xs) and all(dims == inner[0] for dims in inner):
            outer = [b.dims[0] for b in buffers]
            if any(d.is_ragged for d in outer):
                counts = [x.cardinality() for x in xs]
                totals = [
                    d.sum if d.is_ragged else product((d.size, n))
                    for d, n in zip(outer, counts, strict=True)
                ]
                return replace(first, dims=(_joined(site, outer, totals), *inner[0]))
    odd = next((i for i, x in enumerate(xs) if x.type != first), None)
    if odd is not None:
        site.fail(
            DTypeError,
            f"in0 carries {first}, in{odd} carries {xs[odd].type}",
            "merged streams need one element type; only tile sizes may differ"
            if mixed
            else "all inputs need one element type; unpack dynamic tiles into rows first",
        )
    return first


def _alike(sides: Sequence[Dim]) -> bool:
    return all(side == sides[0] or (side.is_ragged and sides[0].is_ragged) for side in sides)


def _joined_sides(site: Site, xs: Sequence[Stream], sides: Sequence[Dim]) -> Dim:
    if all(side == sides[0] for side in sides):
        return sides[0]
    spans = [x.cardinality() for x in xs]
    totals = [total_over(side, span) for side, span in zip(sides, spans, strict=True)]
    return _joined(site, sides, totals, sum_of(spans))


def _joined(
    site: Site, dims: Sequence[Dim], totals: Sequence[Size], span: Size | None = None
) -> Dim:
    bounds = [d.most for d in dims]
    bound = bounds[0] if all(b == bounds[0] for b in bounds) else largest(bounds)
    return site.owner.namer.ragged(
        "m", f"merged by {site.title}", total=sum_of(totals), bound=bound,
        parts=dims, span=span,
    )  # fmt: skip
