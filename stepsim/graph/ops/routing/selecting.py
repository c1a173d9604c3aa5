"""Operators of the public simulator of 2026 that select by value: filter_rows and shuffle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from stepsim.errors import DimError, DTypeError, RankError
from stepsim.frozen import keyword_record
from stepsim.graph.handle import Padding, blurred
from stepsim.graph.operator import Bindings, Operator, Output, Site
from stepsim.graph.ops.flat_map.pieces import float_tile, split_count
from stepsim.graph.ops.routing.shares import share_of_dim, share_of_type
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.limits import RANK
from stepsim.graph.sizes.shapes import cardinality
from stepsim.graph.sizes.sizes import Size, product
from stepsim.graph.types import DType, IndexSelector, MultiHot, Tile

if TYPE_CHECKING:
    from stepsim.graph.accounting import Accounting
    from stepsim.graph.stream import Stream


@keyword_record
class FilterRows(Operator):
    """The rows of tiles selected by a mask."""

    name: ClassVar[str] = "filter_rows"
    unit_kind: ClassVar[str] = "FlatmapFilterRowStreamify"

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {}


@keyword_record
class Shuffle(Operator):
    """The items of every group, bucket by bucket."""

    name: ClassVar[str] = "shuffle"
    unit_kind: ClassVar[str] = "Shuffle"
    rank: int
    write_back: bool

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        chosen = self.inputs[1].type
        assert isinstance(chosen, MultiHot | IndexSelector)
        return {"rank": self.rank, "width": chosen.width, "wb": self.write_back}

    def memory(self, accounting: Accounting) -> Size:
        data = self.inputs[0]
        group = product(d.most for d in data.shape[len(data.shape) - self.rank :])
        held = product((group, accounting.type_bytes(data.type)))
        if not accounting.count_fifos:
            return held
        return (
            held + accounting.type_bytes(data.type) * 2 + accounting.type_bytes(self.inputs[1].type)
        )


def filter_rows(x: Stream, mask: Stream | None = None, *, label: str | None = None) -> Stream:
    """Split tiles into rows and keep those selected by a mask.

    FlatmapFilterRowStreamify of the public simulator of 2026. Rows are sent as valid ones,
    regardless of the padding of the tile.

    Shape
    -----
    ``[D_N, .., D_1, D_0]`` of tiles ``R x C`` gives ``[D_N, .., D_1, K]`` of tiles ``1 x C``; ``K``
    is ``D_0 * R`` without a mask, otherwise the number of rows selected.

    Parameters
    ----------
    x : stream of tiles.
    mask : of the shape of ``x``. Selectors of width ``R``, one flag for each row; or, for tiles of
        one row, Boolean 1x1 tiles, as produced by ``reshape(.., mask=True)``. None: all rows.
    label : name in reports and messages.

    Fires
    -----
    Once for each tile, when its mask has arrived; the clock does not advance.

    Raises
    ------
    DTypeError : ``x`` has no tiles to compute with, or ``mask`` no selectors or Boolean tiles.
    DimError : shapes differ, or a mask does not have one flag for each row.

    A run fails if the last tile of a vector has no rows left: there is nothing to carry its
    stop.

    Example
    -------
    >>> with st.Program("some rows") as program:
    ...     x = st.linear_load(np.arange(4, dtype="f4").reshape(4, 1), tile=(2, 1)).flatten(0, 1)
    ...     kept = st.filter_rows(x, st.selector([[1, 0], [1, 1]]))
    ...     out = st.linear_store(kept, "out")
    >>> kept
    Stream[3] of Tile[1x1 f32] <- filter_rows#3
    >>> print(run_functional(program).stored["out"].ravel())
    [0. 2. 3.]
    """
    inputs = (x,) if mask is None else (x, mask)
    site = Site("filter_rows", inputs, label, ("in", "mask"))
    tile = float_tile(site, x)
    count = split_count(site, x, tile.rows) if mask is None else _selected(site, x, mask, tile)
    shape = (*x.shape[:-1], count)
    row = Tile(tile.dtype, Dim(1), tile.cols)
    row = row.counted_anew(cardinality(shape), f"rows of {site.title}")
    return site.add(FilterRows(), [Output(shape, row)])[0]


def _selected(site: Site, x: Stream, mask: Stream, tile: Tile) -> Dim:
    """Dim 0 of the rows selected by a mask."""
    kind = mask.type
    if isinstance(kind, MultiHot | IndexSelector):
        flags = Dim(kind.width)
    elif isinstance(kind, Tile) and kind.dtype is DType.bool_:
        flags = kind.rows
    else:
        site.fail(
            DTypeError,
            f"mask must carry selectors or Boolean tiles, found {kind}",
            "make a mask with selector(), or with reshape(.., mask=True)",
        )
    site.require(
        site.owner.compare(flags, tile.rows) is True,
        DimError,
        f"mask has {flags} flags for each tile of {tile.rows} rows",
        "it needs one flag for each row",
    )
    site.same_dims(x.shape, mask.shape, "in", "mask")
    if isinstance(kind, MultiHot) and kind.hot is not None:
        return split_count(site, x, Dim(kind.hot))
    total: Size | None = None
    if isinstance(kind, MultiHot | IndexSelector):
        counts = site.owner.counts_of(mask)
        parts = [counts.of(i).size for i in range(kind.width)]
        total = sum(parts[1:], parts[0])
    elif isinstance(mask.padding, Padding) and mask.padding.padded == mask.cardinality():
        total = mask.padding.valid.size
    why = f"rows selected by {mask!r}"
    if x.rank == 0:
        return Dim(total if total is not None else site.owner.namer.symbol("v", why))
    bound = product((x.shape[-1].most, tile.rows.most))
    return site.owner.namer.ragged("v", why, total=total, bound=bound)


def shuffle(
    x: Stream,
    selector: Stream,
    rank: int | None = None,
    *,
    write_back: bool = False,
    label: str | None = None,
) -> tuple[Stream, Stream]:
    """Sort the items of every group by bucket: (data, markers).

    Shuffle of the public simulator of 2026. A group is a tensor of rank ``rank``, its items have
    one dim less, and each has a selector of the buckets it goes to; an item without a bucket is
    dropped. At the end of a group the non-empty buckets leave in ascending order, each with a
    one-hot marker that identifies it. ``partition`` of the data by the markers separates the items
    of the buckets into different outputs.

    Shape
    -----
    ``x`` of shape ``S ++ [D] ++ item``, ``selector`` of shape ``S ++ [D]``: data ``S ++ [~B, ~K]
    ++ item``, markers ``S ++ [~B]``. ``~B`` is the number of buckets in use in a group, ``~K`` the
    number of items in each.

    Parameters
    ----------
    x : stream of tiles.
    selector : multi-hot selectors; their width is the number of buckets.
    rank : rank of a group, at least 1; it follows from the inputs, and is checked if given.
    write_back : the data goes to on-chip memory.
    label : name in reports and messages.

    Fires
    -----
    Once for each tile: loads of selector and tile, then bytes / bandwidth to write it to its
    bucket; bytes / bandwidth more to read it back, twice that with ``write_back``.

    Memory
    ------
    The tiles of a group.

    Raises
    ------
    DTypeError : ``x`` carries no tiles, or ``selector`` no selectors.
    RankError : the ranks do not fit.
    DimError : the outer dims differ.

    A run fails if no item of a group has a bucket.

    Example
    -------
    >>> with st.Program("two buckets") as program:
    ...     x = st.linear_load(np.array([[5], [6], [7]], "f4"), tile=(1, 1)).flatten(0, 1)  # [3]
    ...     which = st.selector(np.eye(2, dtype=int)[[[0, 1, 0]]])  # [1, 3]
    ...     data, markers = st.shuffle(x.reshape(3), which)
    ...     markers.consume()
    ...     data.consume()
    >>> values = run_functional(program)
    >>> [float(token.payload.data[0, 0]) for token in values.stream(data)]
    [5.0, 7.0, 6.0]
    """
    site = Site("shuffle", (x, selector), label, ("data", "selector"))
    write_back = site.flag("write_back", write_back)
    site.require_type(isinstance(x.type, Tile), "data", x, "tiles")
    chosen = selector.type
    if not isinstance(chosen, MultiHot | IndexSelector):
        site.fail(
            DTypeError,
            f"selector must carry selectors, found {chosen}",
            "make selectors with routing() or selector()",
        )
    items = x.rank - selector.rank
    site.require(
        items >= 0
        and selector.rank >= 1
        and (rank is None or site.number(RANK, "rank", rank) == items + 1),
        RankError,
        f"data of rank {x.rank} and selector of rank {selector.rank} have groups of rank "
        f"{items + 1}" + (f", not {rank}" if rank is not None else ""),
        "the selector has a dim for the groups and one for the items of each; promote() both for "
        "one group",
    )
    keep = len(selector.shape)
    site.same_dims(x.shape[:keep], selector.shape, "data", "selector", base=items)
    outer = x.shape[: keep - 1]
    used = site.owner.namer.ragged(
        "b", f"buckets in use in each group of {site.title}", bound=chosen.width
    )
    each = _per_bucket(site, x, selector, keep)
    inside = [share_of_dim(site, d, 0) for d in x.shape[keep:]]
    shape = (*outer, used, each, *inside)
    element = share_of_type(site, x.type, 0, shape)
    data = Output(shape, element, None, blurred(x.padding))
    markers = Output((*outer, used), MultiHot(chosen.width, 1))
    made = site.add(Shuffle(rank=items + 1, write_back=write_back), [data, markers])
    return made[0], made[1]


def _per_bucket(site: Site, x: Stream, selector: Stream, keep: int) -> Dim:
    """The number of items in every bucket; their sum is that of the bits set."""
    kind: Any = selector.type
    sizes: Sequence[Size]
    if isinstance(kind, MultiHot) and kind.hot is not None:
        sizes = [product((kind.hot, selector.cardinality()))]
    else:
        counts = site.owner.counts_of(selector)
        sizes = [counts.of(i).size for i in range(kind.width)]
    return site.owner.namer.ragged(
        "k",
        f"items in each bucket of {site.title}",
        total=sum(sizes[1:], sizes[0]),
        bound=x.shape[keep - 1].most,
    )
