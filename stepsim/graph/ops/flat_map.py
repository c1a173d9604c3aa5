"""flat_map: functions that return a stream for every element (STeP paper, table 6).

Their makers (``unpack_rows(...)``, ``expert_addresses(...)``, ...) are reached as ``st.fn``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from stepsim.errors import ArgError, DTypeError, RankError
from stepsim.graph.dims import Dim, format_dims, total_over
from stepsim.graph.functions import U64_TILE
from stepsim.graph.handle import FixedCounts, Padding, blurred
from stepsim.graph.limits import MAX_PIECES, shown
from stepsim.graph.operator import Bindings, Operator, Output, Site
from stepsim.graph.sizes import product
from stepsim.graph.types import MultiHot, Tile

if TYPE_CHECKING:
    from stepsim.graph.stream import Stream

__all__ = [
    "FlatMap",
    "StreamFunction",
    "cache_read_addresses",
    "emit",
    "expert_addresses",
    "flat_map",
    "last_tile_filter",
    "unpack_cols",
    "unpack_rows",
]


@dataclass(frozen=True)
class StreamFunction:
    """A rule that turns each element into a stream; ``infer`` gives the output.

    ``kernel`` makes the values of a general function, see :func:`emit`.
    """

    name: str
    unit_kind: str
    params: tuple[tuple[str, Any], ...]
    infer: Callable[[Site, Sequence[Stream]], Output]
    arity: int = 1
    kernel: Callable[..., Any] | None = None

    def __str__(self) -> str:
        inside = ", ".join(f"{k}={v}" for k, v in self.params)
        return f"{self.name}({inside})"


@dataclass(eq=False, kw_only=True)
class FlatMap(Operator):
    """Concatenates the streams that a function returns for the elements."""

    name: ClassVar[str] = "flat_map"
    fn: StreamFunction

    @property
    def unit_kind(self) -> str:  # type: ignore[override]
        return self.fn.unit_kind

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {k: list(v) if isinstance(v, tuple) else v for k, v in self.fn.params}


def flat_map(x: Stream, fn: StreamFunction, *others: Stream, label: str | None = None) -> Stream:
    """Replace dim 0 by the streams that ``fn`` returns for the elements."""
    site = Site("flat_map", (x, *others), label)
    site.require(
        isinstance(fn, StreamFunction),
        ArgError,
        f"flat_map needs a stream function, found {fn!r}",
        "use fn.unpack_rows(), fn.emit(), fn.expert_addresses(), ...",
    )
    site.require(
        1 + len(others) == fn.arity,
        ArgError,
        f"{fn.name} takes {fn.arity} streams, found {1 + len(others)}",
    )
    return site.add(FlatMap(fn=fn), [fn.infer(site, (x, *others))])[0]


def _float_tile(site: Site, x: Stream) -> Tile:
    tile = x.type
    if not (isinstance(tile, Tile) and tile.dtype.is_arithmetic):
        site.fail(DTypeError, f"in1 must carry tiles of scalars to compute with, found {tile}")
    return tile


def _split_count(site: Site, x: Stream, side: Dim) -> Dim:
    """``D_0 * side``: exact for an outermost dim, ragged when either is."""
    size = x.shape[-1]
    if not (size.is_ragged or side.is_ragged):
        return Dim(product((size.expr, side.expr)))
    count = x.elements()
    total = total_over(side, count)
    if x.rank == 0:
        return Dim(total)
    return site.owner.namer.ragged(
        "u", f"pieces of {site.title}", total=total, bound=product((size.bound, side.bound))
    )


def _unpack(site: Site, xs: Sequence[Stream], *, rows: bool, drop: bool) -> Output:
    (x,) = xs
    tile = _float_tile(site, x)
    if not rows:
        count = _split_count(site, x, tile.cols)
        column = Tile(tile.dtype, tile.rows, Dim(1))
        return Output((*x.shape[:-1], count), column, None, blurred(x.padding))
    row = Tile(tile.dtype, Dim(1), tile.cols)
    count = _split_count(site, x, tile.rows)
    if not drop or x.padding is None:
        return Output((*x.shape[:-1], count), row, None, None if drop else x.padding)
    known = x.padding
    if isinstance(known, Padding) and x.rank == 0 and known.padded == count.expr:
        chunk = known.chunk_rows
        whole = not tile.rows.is_static or (isinstance(chunk, int) and int(tile.rows) % chunk == 0)
        if whole:
            return Output((known.valid,), row)
    why = f"valid rows of {x!r}"
    fresh = (
        Dim(site.owner.namer.symbol("v", why))
        if x.rank == 0
        else site.owner.namer.ragged("v", why, bound=count.bound)
    )
    return Output((*x.shape[:-1], fresh), row)


def unpack_rows(drop_padding: bool = False) -> StreamFunction:
    """Tiles to rows, top to bottom; ``drop_padding`` emits valid rows only."""
    drop = bool(drop_padding)
    params = (("split_row", True), ("filter", drop))
    rule = partial(_unpack, rows=True, drop=drop)
    return StreamFunction("unpack_rows", "RetileStreamify", params, rule)


def unpack_cols() -> StreamFunction:
    """Tiles to columns, left to right."""
    params = (("split_row", False), ("filter", False))
    rule = partial(_unpack, rows=False, drop=False)
    return StreamFunction("unpack_cols", "RetileStreamify", params, rule)


def _expert_addresses(site: Site, xs: Sequence[Stream], *, tiles: int) -> Output:
    (x,) = xs
    site.require_type(
        isinstance(x.type, MultiHot) and x.type.hot == 1, "in1", x, "one-hot selectors"
    )
    site.require(
        x.rank == 0,
        RankError,
        f"expert_addresses takes rank 0, found {format_dims(x.shape)}",
        "flatten the selectors first",
    )
    return Output((*x.shape, Dim(tiles), Dim(1)), U64_TILE)


def expert_addresses(tiles: int, base: int = 0) -> StreamFunction:
    """Per one-hot selector of expert e: ``base + e * tiles + j`` for j below ``tiles``."""
    if tiles < 1 or base < 0:
        raise ArgError(f"expert_addresses: tiles >= 1 and base >= 0, found {tiles}, {base}")
    params = (("n", tiles), ("base", base))
    rule = partial(_expert_addresses, tiles=tiles)
    return StreamFunction("expert_addresses", "ExpertAddrGen", params, rule)


def _integers(site: Site, x: Stream, role: str) -> None:
    site.require_type(
        isinstance(x.type, Tile) and x.type.is_address, role, x, "1x1 tiles of u32 or u64"
    )


def _cache_read(site: Site, xs: Sequence[Stream]) -> Output:
    index, length = xs
    _integers(site, index, "in1")
    _integers(site, length, "in2")
    site.same_dims(index.shape, length.shape, "in1", "in2")
    return Output((*index.shape, site.owner.length_of(length)), U64_TILE)


def cache_read_addresses(stride: int) -> StreamFunction:
    """Per (index, length): the tile indices ``index * stride + 0 .. length - 1``."""
    if stride < 1:
        raise ArgError(f"cache_read_addresses: stride >= 1, found {stride}")
    params = (("stride", stride),)
    return StreamFunction("cache_read_addresses", "CacheReadAddrGen", params, _cache_read, arity=2)


def _last_tile(site: Site, xs: Sequence[Stream]) -> Output:
    (x,) = xs
    _integers(site, x, "in1")
    new = site.owner.length_of(x)
    last = x.elements()
    counts = FixedCounts(site.owner, [Dim(last), Dim(new.total - last)])
    return Output((*x.shape, new), MultiHot(2, 1), counts)


def last_tile_filter() -> StreamFunction:
    """Per length: selectors of width 2, output 0 for the last element, output 1 before it."""
    return StreamFunction("last_tile_filter", "FilterLastTile", (), _last_tile)


def _emit(
    site: Site,
    xs: Sequence[Stream],
    *,
    dims: Sequence[int | str],
    tile: tuple[int | str, int | str],
) -> Output:
    (x,) = xs
    own = _float_tile(site, x)
    sides = {"rows": own.rows, "cols": own.cols}

    def size(entry: int | str) -> Dim:
        if entry == "valid":
            if x.padding is None:
                return own.rows
            why = f"valid rows per tile of {x!r}"
            return site.owner.namer.ragged("v", why, bound=own.rows.bound, span=x.elements())
        return sides[entry] if isinstance(entry, str) else Dim(entry)

    sizes = [size(d) for d in dims]
    known = math.prod(int(d) for d in sizes if d.is_static)
    site.require(
        known <= MAX_PIECES,
        ArgError,
        f"emit with dims {list(dims)} cuts a tile into {shown(known)} pieces or more; "
        f"2**{MAX_PIECES.bit_length() - 1} are the most",
        "emit fewer pieces from each tile",
    )
    outer = _split_count(site, x, sizes[0])
    made = Tile(own.dtype, size(tile[0]), size(tile[1]))
    return Output((*x.shape[:-1], outer, *sizes[1:]), made)


def emit(
    dims: Sequence[int | str],
    tile: tuple[int | str, int | str] = ("rows", "cols"),
    *,
    cycles: int = 0,
    kernel: Callable[..., Any] | None = None,
) -> StreamFunction:
    """A general stream function: ``prod(dims)`` pieces of size ``tile`` per input tile.

    Entries of ``dims`` (outermost first) are ints, ``"rows"``, ``"cols"`` or ``"valid"`` (valid
    rows); entries of ``tile`` are ints, ``"rows"`` or ``"cols"``. Each piece costs ``cycles``.

    For functional runs ``kernel(array, valid_rows)`` returns the pieces as arrays, in row-major
    order over ``dims``; without it the scalars of the tile, row-major, are cut into the pieces.
    """
    bad = [d for d in dims if d not in ("rows", "cols", "valid") and not _count(d)]
    bad += [t for t in tile if t not in ("rows", "cols") and not _count(t)]
    if not dims or len(tile) != 2 or bad or cycles < 0:
        raise ArgError(
            f"emit: dims {list(dims)} hold ints >= 1, 'rows', 'cols' or 'valid', tile "
            f"{tuple(tile)} two ints >= 1, 'rows' or 'cols', and cycles {cycles} is >= 0"
        )
    params = (("dims", tuple(dims)), ("tile", tuple(tile)), ("cycles", cycles))
    rule = partial(_emit, dims=tuple(dims), tile=tile)
    return StreamFunction("emit", "FlatMap", params, rule, kernel=kernel)


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
