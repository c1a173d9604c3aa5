"""Sizes of the pieces that stream functions cut from tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepsim.errors import DTypeError
from stepsim.graph.handle import Padding, SplitPadding
from stepsim.graph.operator import Output, Site
from stepsim.graph.sizes.dims import Dim, total_over
from stepsim.graph.sizes.shapes import cardinality
from stepsim.graph.sizes.sizes import Size, product
from stepsim.graph.types import Tile

if TYPE_CHECKING:
    from stepsim.graph.stream import Stream


def float_tile(site: Site, x: Stream) -> Tile:
    """The type of a stream of tiles to compute with."""
    tile = x.type
    if not (isinstance(tile, Tile) and tile.dtype.is_arithmetic):
        site.fail(DTypeError, f"in1 must carry tiles of scalars to compute with, found {tile}")
    return tile


def split_count(site: Site, x: Stream, side: Dim) -> Dim:
    """``D_0 * side``: exact for an outermost dim, ragged if either is."""
    size = x.shape[-1]
    if not (size.is_ragged or side.is_ragged):
        return Dim(product((size.size, side.size)))
    count = x.cardinality()
    total = total_over(side, count)
    if x.rank == 0:
        return Dim(total)
    return site.owner.namer.ragged(
        "u", f"pieces of {site.title}", total=total, bound=product((size.most, side.most))
    )


def in_chunks(site: Site, x: Stream, *, by_row: bool, drop: bool, chunk: int) -> Output:
    """Pieces of ``chunk`` rows or columns of every tile; the last one has the rest."""
    tile = float_tile(site, x)
    side, other = (tile.rows, tile.cols) if by_row else (tile.cols, tile.rows)
    drop = drop and x.padding is not None
    count = _dropped(site, x, side, chunk) if drop else split_count(site, x, side.ceil_div(chunk))
    shape = (*x.shape[:-1], count)
    pieces = cardinality(shape)
    cut = _length(site, x, side, chunk, pieces, known=not drop)
    if drop or side.is_ragged or not by_row:
        other = other.counted_anew(pieces, f"pieces of {site.title}")
    made = Tile(tile.dtype, cut, other) if by_row else Tile(tile.dtype, other, cut)
    padding = x.padding
    if padding is not None and (drop or not by_row or not isinstance(padding, Padding)):
        padding = SplitPadding()
    return Output(shape, made, None, padding)


def _length(site: Site, x: Stream, side: Dim, chunk: int, pieces: Size, *, known: bool) -> Dim:
    """Rows or columns of the pieces; with ``known``, each tile is one piece."""
    if side.is_static and int(side) % chunk == 0:
        return Dim(chunk)
    if side.is_static and int(side) < chunk:
        return side
    bound = min(chunk, int(side)) if side.is_static else chunk
    total = total_over(side, x.cardinality()) if known else None
    why = f"sizes of the pieces of {site.title}"
    return site.owner.namer.ragged("s", why, total=total, bound=bound, span=pieces)


def _dropped(site: Site, x: Stream, side: Dim, chunk: int) -> Dim:
    """The pieces up to the last valid row of each tile; their number is known only at run time."""
    why = f"pieces with valid rows of {x!r}"
    if x.rank == 0:
        return Dim(site.owner.namer.symbol("v", why))
    each = side.ceil_div(chunk)
    bound = product((x.shape[-1].most, each.most))
    return site.owner.namer.ragged("v", why, bound=bound)
