"""flat_map: functions that return a stream for every element (STeP paper, table 6).

Their makers (``unpack_rows(...)``, ``expert_addresses(...)``, ...) are reached as ``st.fn``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from stepsim.arguments import Range, flag, shown, text_of
from stepsim.errors import ArgError, DTypeError, RankError, did_you_mean
from stepsim.graph.dims import Dim, cardinality, format_dims, total_over
from stepsim.graph.function_rules import U64_TILE
from stepsim.graph.handle import FixedCounts, Padding, SplitPadding
from stepsim.graph.limits import BASE, COUNT, CYCLES, MAX_PIECES, MAX_VALUE, RESERVED, TILE_SIDE
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


Params: TypeAlias = dict[str, Any]
"""Parameters of a unit, checked, by name."""


@dataclass(frozen=True)
class StreamFunction:
    """A rule that turns each element into a stream; ``st.fn`` makes them.

    Attributes
    ----------
    unit_kind : unit of the engine, which has the type rule (``infer``) and the number of streams
        that the function takes (``arity``).
    params : names and values of the unit's parameters.
    kernel : makes the values of a general function, see :func:`emit`.

    Raises
    ------
    ArgError : there is no such unit, or it has no such parameters or values of them.
    """

    name: str
    unit_kind: str
    params: tuple[tuple[str, Any], ...] = ()
    kernel: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        text_of("StreamFunction: name", self.name)
        kind = self.unit_kind
        if not isinstance(kind, str) or kind not in _UNITS:
            raise ArgError(
                f"StreamFunction {self.name!r}: unit_kind is {shown(kind)}, expected one of "
                f"{', '.join(_UNITS)}{did_you_mean(str(kind), _UNITS)}"
            )
        wanted = _UNITS[kind].params
        given = self.params if isinstance(self.params, tuple) else ()
        pairs = [p for p in given if isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str)]
        if given is not self.params or [p[0] for p in pairs] != list(wanted) or pairs != [*given]:
            raise ArgError(
                f"StreamFunction {self.name!r}: params of unit '{kind}' are pairs of "
                f"({', '.join(wanted) or 'none'}) and a value, found {shown(self.params)}"
            )
        checked = tuple(
            (key, check(f"{self.name}: {label}", value))
            for (key, value), (label, check) in zip(pairs, wanted.values(), strict=True)
        )
        object.__setattr__(self, "params", checked)
        found = dict(checked)
        if found.get("filter") and not found["split_row"]:
            raise ArgError(f"{self.name}: padding can be dropped from rows, not from columns")
        if self.kernel is not None and (kind != "FlatMap" or not callable(self.kernel)):
            what = "must be a function or None" if kind == "FlatMap" else "has no effect"
            raise ArgError(f"{self.name}: kernel {what}, found {shown(self.kernel)}")

    @property
    def arity(self) -> int:
        """Streams that the function takes."""
        return _UNITS[self.unit_kind].arity

    def infer(self, site: Site, xs: Sequence[Stream]) -> Output:
        """The output for the streams ``xs``, by the rule of the unit."""
        return _UNITS[self.unit_kind].rule(site, xs, dict(self.params))

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


def _unpack(site: Site, xs: Sequence[Stream], params: Params) -> Output:
    (x,) = xs
    rows, drop = params["split_row"], params["filter"]
    tile = _float_tile(site, x)
    if not rows:
        count = _split_count(site, x, tile.cols)
        column = Tile(tile.dtype, Dim(1), tile.rows)
        if tile.cols.is_ragged:
            column = column.counted_anew(
                cardinality((*x.shape[:-1], count)), f"columns of {site.title}"
            )
        # As in the paper's simulator, column i is valid if row i is; of wide tiles some are not.
        sides = tile.rows, tile.cols
        valid = x.padding is None and all(side.is_static for side in sides)
        padding = None if valid and int(tile.cols) <= int(tile.rows) else SplitPadding()
        return Output((*x.shape[:-1], count), column, None, padding)
    count = _split_count(site, x, tile.rows)
    row = Tile(tile.dtype, Dim(1), tile.cols)
    if (drop and x.padding is not None) or tile.rows.is_ragged:
        row = row.counted_anew(cardinality((*x.shape[:-1], count)), f"rows of {site.title}")
    if not drop or x.padding is None:
        return Output((*x.shape[:-1], count), row, None, x.padding)
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
    params = (("split_row", True), ("filter", drop_padding))
    return StreamFunction("unpack_rows", "RetileStreamify", params)


def unpack_cols() -> StreamFunction:
    """Tiles to columns, left to right; each column of R rows is laid out as a tile of 1 x R."""
    params = (("split_row", False), ("filter", False))
    return StreamFunction("unpack_cols", "RetileStreamify", params)


def _expert_addresses(site: Site, xs: Sequence[Stream], params: Params) -> Output:
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
    assert isinstance(x.type, MultiHot)
    tiles = params["n"]
    last = params["base"] + x.type.width * tiles
    site.require(
        last <= MAX_VALUE,
        ArgError,
        f"expert_addresses: the tiles of {x.type.width} experts end at {last}, beyond 2**63 - 1",
        "choose fewer tiles for each expert or a smaller base",
    )
    return Output((*x.shape, Dim(tiles), Dim(1)), U64_TILE)


def expert_addresses(tiles: int, base: int = 0) -> StreamFunction:
    """Per one-hot selector of expert e: ``base + e * tiles + j`` for j below ``tiles``."""
    return StreamFunction("expert_addresses", "ExpertAddrGen", (("n", tiles), ("base", base)))


def _integers(site: Site, x: Stream, role: str) -> None:
    site.require_type(
        isinstance(x.type, Tile) and x.type.is_address, role, x, "1x1 tiles of u32 or u64"
    )


def _cache_read(site: Site, xs: Sequence[Stream], params: Params) -> Output:
    index, length = xs
    _integers(site, index, "in1")
    _integers(site, length, "in2")
    site.same_dims(index.shape, length.shape, "in1", "in2")
    return Output((*index.shape, site.owner.length_of(length)), U64_TILE)


def cache_read_addresses(stride: int) -> StreamFunction:
    """Per (index, length): the tile indices ``index * stride + 0 .. length - 1``."""
    return StreamFunction("cache_read_addresses", "CacheReadAddrGen", (("stride", stride),))


def _last_tile(site: Site, xs: Sequence[Stream], params: Params) -> Output:
    (x,) = xs
    _integers(site, x, "in1")
    new = site.owner.length_of(x)
    last = x.elements()
    counts = FixedCounts(site.owner, [Dim(last), Dim(new.total - last)])
    return Output((*x.shape, new), MultiHot(2, 1), counts)


def last_tile_filter() -> StreamFunction:
    """Per length: selectors of width 2, output 0 for the last element, output 1 before it."""
    return StreamFunction("last_tile_filter", "FilterLastTile")


def _emit(site: Site, xs: Sequence[Stream], params: Params) -> Output:
    (x,) = xs
    dims, tile = params["dims"], params["tile"]
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
    inner = [_piece_dim(site, x, sizes[:i], d) for i, d in enumerate(sizes) if i]
    shape = (*x.shape[:-1], outer, *inner)
    made = Tile(own.dtype, size(tile[0]), size(tile[1]))
    if any(d.is_ragged for d in sizes):
        made = made.counted_anew(cardinality(shape), f"pieces of {site.title}")
    return Output(shape, made)


def _piece_dim(site: Site, x: Stream, above: Sequence[Dim], size: Dim) -> Dim:
    """A dim of the pieces of every tile, below the dims ``above`` of them."""
    if not size.is_ragged:
        return size
    total = None
    if not any(d.is_ragged for d in above):
        total = product((total_over(size, x.elements()), *(d.expr for d in above)))
    return site.owner.namer.ragged(
        str(size.expr), f"pieces of {site.title}", total=total, bound=size.bound
    )


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
    params = (("dims", dims), ("tile", tile), ("cycles", cycles))
    return StreamFunction("emit", "FlatMap", params, kernel=kernel)


def _entries(
    what: str, given: object, words: tuple[str, ...], limits: Range
) -> tuple[int | str, ...]:
    """Sizes, each an int within ``limits`` or one of ``words``."""
    if not isinstance(given, list | tuple):
        raise ArgError(
            f"{what} must be a list of ints or {', '.join(map(repr, words))}, found {shown(given)}"
        )
    found: list[int | str] = []
    for entry in given:
        if isinstance(entry, str):
            if entry not in words:
                raise ArgError(
                    f"{what} holds {entry!r}, expected an int or one of "
                    f"{', '.join(map(repr, words))}{did_you_mean(entry, words)}"
                )
            found.append(entry)
        else:
            found.append(limits.checked(f"an entry of {what}", entry))
    return tuple(found)


def _dims_of_pieces(what: str, given: object) -> tuple[int | str, ...]:
    found = _entries(what, given, ("rows", "cols", "valid"), COUNT)
    if not found:
        raise ArgError(f"{what} must have an entry or more, found {shown(given)}")
    return found


def _sides_of_pieces(what: str, given: object) -> tuple[int | str, ...]:
    found = _entries(what, given, ("rows", "cols"), TILE_SIDE)
    if len(found) != 2:
        raise ArgError(f"{what} must have two entries (rows, columns), found {shown(given)}")
    return found


@dataclass(frozen=True, slots=True)
class _Unit:
    """A unit of stream functions: its type rule, parameters (label and check) and inputs."""

    rule: Callable[[Site, Sequence[Stream], Params], Output]
    params: dict[str, tuple[str, Callable[[str, object], Any]]]
    arity: int = 1


_UNITS = {
    "RetileStreamify": _Unit(
        _unpack, {"split_row": ("split_row", flag), "filter": ("drop_padding", flag)}
    ),
    "ExpertAddrGen": _Unit(
        _expert_addresses, {"n": ("tiles", RESERVED.checked), "base": ("base", BASE.checked)}
    ),
    "CacheReadAddrGen": _Unit(_cache_read, {"stride": ("stride", RESERVED.checked)}, arity=2),
    "FilterLastTile": _Unit(_last_tile, {}),
    "FlatMap": _Unit(
        _emit,
        {
            "dims": ("dims", _dims_of_pieces),
            "tile": ("tile", _sides_of_pieces),
            "cycles": ("cycles", CYCLES.checked),
        },
    ),
}
