"""The units of stream functions: their type rules, parameters and inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from stepsim.arguments import flag
from stepsim.errors import ArgError, RankError
from stepsim.frozen import frozen
from stepsim.graph.handle import FixedCounts, Padding, SplitPadding
from stepsim.graph.operator import Output, Site
from stepsim.graph.ops.flat_map.emitted import EMIT_UNIT
from stepsim.graph.ops.flat_map.number_rules import NUMBER_UNITS
from stepsim.graph.ops.flat_map.pieces import float_tile, in_chunks, split_count
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.limits import BASE, MAX_VALUE, RESERVED, TILE_SIDE
from stepsim.graph.sizes.shapes import cardinality, format_dims
from stepsim.graph.types import U64_TILE, MultiHot, Tile

if TYPE_CHECKING:
    from stepsim.graph.stream import Stream

Params: TypeAlias = dict[str, Any]
"""Parameters of a unit, checked, by name."""


def _unpack(site: Site, xs: Sequence[Stream], params: Params) -> Output:
    (x,) = xs
    rows, drop = params["split_row"], params["filter"]
    if "chunk" in params:
        return in_chunks(site, x, by_row=rows, drop=drop, chunk=params["chunk"])
    tile = float_tile(site, x)
    if not rows:
        count = split_count(site, x, tile.cols)
        column = Tile(tile.dtype, Dim(1), tile.rows)
        if tile.cols.is_ragged:
            column = column.counted_anew(
                cardinality((*x.shape[:-1], count)), f"columns of {site.title}"
            )
        # As in the paper's simulator, column i is valid if row i is, so wide tiles lose some.
        sides = tile.rows, tile.cols
        valid = x.padding is None and all(side.is_static for side in sides)
        padding = None if valid and int(tile.cols) <= int(tile.rows) else SplitPadding()
        return Output((*x.shape[:-1], count), column, None, padding)
    count = split_count(site, x, tile.rows)
    row = Tile(tile.dtype, Dim(1), tile.cols)
    if not drop or x.padding is None:
        shape = (*x.shape[:-1], count)
        if tile.rows.is_ragged:
            row = row.counted_anew(cardinality(shape), f"rows of {site.title}")
        return Output(shape, row, None, x.padding)
    shape = (*x.shape[:-1], _valid_rows(site, x, tile, count))
    return Output(shape, row.counted_anew(cardinality(shape), f"valid rows of {site.title}"))


def _valid_rows(site: Site, x: Stream, tile: Tile, count: Dim) -> Dim:
    """The innermost dim if padding is dropped from ``count`` rows."""
    known = x.padding
    if isinstance(known, Padding) and x.rank == 0 and known.padded == count.size:
        chunk = known.chunk_rows
        if not tile.rows.is_static or (isinstance(chunk, int) and int(tile.rows) % chunk == 0):
            return known.valid
    why = f"valid rows of {x!r}"
    if x.rank == 0:
        return Dim(site.owner.namer.symbol("v", why))
    return site.owner.namer.ragged("v", why, bound=count.most)


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


def _last_tile(site: Site, xs: Sequence[Stream], params: Params) -> Output:
    (x,) = xs
    _integers(site, x, "in1")
    new = site.owner.length_of(x)
    last = x.cardinality()
    counts = FixedCounts(site.owner, [Dim(last), Dim(new.sum - last)])
    return Output((*x.shape, new), MultiHot(2, 1), counts)


@frozen
class StreamUnit:
    """A unit of stream functions: its type rule, parameters (label and check) and inputs."""

    rule: Callable[[Site, Sequence[Stream], Params], Output]
    params: dict[str, tuple[str, Callable[[str, object], Any]]]
    arity: int = 1
    last_optional: bool = False


STREAM_UNITS = {
    "RetileStreamify": StreamUnit(
        _unpack,
        {
            "split_row": ("split_row", flag),
            "filter": ("drop_padding", flag),
            "chunk": ("chunk", TILE_SIDE.checked),
        },
        last_optional=True,
    ),
    "ExpertAddrGen": StreamUnit(
        _expert_addresses, {"n": ("tiles", RESERVED.checked), "base": ("base", BASE.checked)}
    ),
    "CacheReadAddrGen": StreamUnit(_cache_read, {"stride": ("stride", RESERVED.checked)}, arity=2),
    "FilterLastTile": StreamUnit(_last_tile, {}),
    **{kind: StreamUnit(rule, params) for kind, (rule, params) in NUMBER_UNITS.items()},
    "FlatMap": StreamUnit(*EMIT_UNIT),
}
