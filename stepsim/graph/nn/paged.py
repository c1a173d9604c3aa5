"""Attention of single queries over a cache of keys and values in pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from stepsim.arguments import shown
from stepsim.errors import ArgError
from stepsim.graph.nn.blocks import block_ranges
from stepsim.graph.nn.layer import Layer, Tensor
from stepsim.graph.nn.masks import length_mask
from stepsim.graph.nn.online import online_attention, scores_of
from stepsim.graph.nn.parallel.division import Division, Streams, alone
from stepsim.graph.ops.flat_map.flat_maps import flat_map, last_tile_filter
from stepsim.graph.ops.memory.random_access import random_load
from stepsim.graph.ops.routing.merging import reassemble
from stepsim.graph.ops.sources import metadata
from stepsim.graph.sizes.limits import TILE_SIDE
from stepsim.graph.stream import Stream


@overload
def paged_attention(
    q: Stream, k: Tensor, v: Tensor, lengths: Any, *, page: int,
    pages: Any = None, window: int | None = None, scale: float | None = None,
    compute_bw: int | None = None,
    write_back: bool = False, tp: None = None, label: str | None = None,
) -> Stream: ...  # fmt: skip


@overload
def paged_attention(
    q: Sequence[Stream], k: Tensor, v: Tensor, lengths: Any, *, page: int,
    pages: Any = None, window: int | None = None, scale: float | None = None,
    compute_bw: int | None = None,
    write_back: bool = False, tp: int, label: str | None = None,
) -> list[Stream]: ...  # fmt: skip


def paged_attention(
    q: Streams,
    k: Tensor,
    v: Tensor,
    lengths: Any,
    *,
    page: int,
    pages: Any = None,
    window: int | None = None,
    scale: float | None = None,
    compute_bw: int | None = None,
    write_back: bool = False,
    tp: int | None = None,
    label: str | None = None,
) -> Stream | list[Stream]:
    """Decode attention over a paged cache: each request reads its pages by address.

    The online softmax of :func:`flash_attention` over the pages of a request; keys beyond its
    length are masked. Without ``pages`` the requests have equally many pages reserved, one request
    after the other, and read ``ceil(length / page)`` of them, with the addresses of
    ``st.fn.cache_read_addresses`` (STeP paper, section 5.4). With a page table, each request reads
    that many pages listed in its row, in order. With a window, pages that lie before it are not
    read.

    Shape
    -----
    ``q`` of tiles ``[m, d]``, one for each request, gives the same shape with tiles ``[m, e]``; the
    rows are the query heads of one key head.

    Parameters
    ----------
    q : the queries; with ``tp`` a list of streams.
    k, v : caches ``[pages * page, d]`` and ``[pages * page, e]``.
    lengths : cached keys of each request, from 1, an array of the shape of ``q``.
    page : keys of a page.
    pages : page table, an array of the shape of ``q`` plus one dim, whose entries beyond the
        pages used by a request, and before its window, are ignored and may be -1; None for
        reserved pages.
    window : keys that a query sees, the last ones of its request (sliding window); None for all.
    scale : factor of the scores; None is ``1 / sqrt(d)``.
    compute_bw : FLOPs per cycle of each operator; None is the program's.
    write_back : the result goes to on-chip memory.
    tp : chips that divide the heads (tensor parallelism); ``q`` is a list with a stream ``[heads,
        ...]`` on each of them, of its own key heads. ``lengths`` and ``pages`` have all heads in
        their first dim, and every chip has the part of the caches, as many rows, in which the pages
        of its heads are. The result is a list like ``q``.

    FLOPs
    -----
    For each page that is read, of ``t`` keys, ``2 m t d + 2 m t e + 8 m t + m e + 8 m``, for each
    request ``m e``, as in :func:`flash_attention`; masked keys count.

    Raises
    ------
    ArgError : lengths, pages or caches do not fit each other; or ``tp`` does not divide the heads
        or the caches, or streams are not on as many chips as it says.
    DTypeError : ``q`` carries no tiles, or tiles of unknown size.
    DimError : a dim of ``q`` is not constant.

    Example
    -------
    >>> with st.Program(compute_bw=64) as p:
    ...     q = st.linear_load(st.spec(8, 8, name="q"), (4, 8)).flatten(0, 1)
    ...     k, v = st.spec(32, 8, name="k"), st.spec(32, 8, name="v")
    ...     out = st.nn.paged_attention(q, k, v, [5, 12], page=4)
    ...     out.consume()
    >>> p.metrics().off_chip_traffic
    768
    """
    if tp is not None:
        group = Division("paged_attention", q, tp, label, compute_bw, role="q")
        ks, vs = group.rows("k", k), group.rows("v", v)
        every = _of_members(group, "lengths", lengths, 1)
        tables: Sequence[Any] = [None] * group.count
        if pages is not None:
            tables = _pages_of_members(group, pages, ks[0].shape[0], page)
        return group.each(
            lambda i: paged_attention(
                group.xs[i], ks[i], vs[i], every[i], page=page, pages=tables[i], window=window,
                scale=scale, compute_bw=compute_bw, write_back=write_back, label=group.part(i),
            )
        )  # fmt: skip
    q = alone("paged_attention", q, "q")
    layer = Layer("paged_attention", {"q": q}, label, compute_bw, write_back)
    layer.rows("q", q)
    page = layer.number(TILE_SIDE, "page", page)
    key = layer.matrix("k", k, None, layer.columns("q", q))
    value = layer.matrix("v", v, key.shape[0])
    layer.require(
        key.shape[0] % page == 0, ArgError, f"page {page} does not divide the {key.shape[0]} keys"
    )
    held = key.shape[0] // page
    dims = layer.constant_dims("q", q, "every request has a length and pages")
    sizes = _numbers(layer, "lengths", lengths, 1)
    layer.require(
        sizes.shape == dims,
        ArgError,
        f"lengths have shape {list(sizes.shape)}, expected that of q, {list(dims)}",
    )
    used = -(-sizes // page)
    first = np.zeros_like(used)
    if window is not None:
        window = layer.number(TILE_SIDE, "window", window)
        first = np.maximum(sizes - window, 0) // page
    if pages is None:
        requests = int(np.prod(dims))
        reserved = held // requests
        layer.require(
            held % requests == 0 and bool((used <= reserved).all()),
            ArgError,
            f"the cache has {held} pages of {page} keys for {requests} requests of up to "
            f"{int(sizes.max())} keys",
            "give every request as many pages, enough for its length, or pass a page table",
        )
        start = np.arange(requests).reshape(dims) * reserved
        numbers, _ = block_ranges(layer, start + first, used - first)
        position, count = numbers, reserved
    else:
        table = _numbers(layer, "pages", pages, -1)
        position, numbers = _looked_up(layer, table, first, used, held)
        count = table.shape[-1]
    loaded = [
        random_load(numbers, t, (page, t.shape[1]), label=layer.part(f"load_{role}"))
        for role, t in (("k", key), ("v", value))
    ]
    limits = metadata(sizes, label=layer.part("lengths"))
    scores = scores_of(layer, layer.spread("queries", q, numbers), loaded[0], scale)
    mask = length_mask(page, count, window)
    scores = layer.map("mask", mask, scores, position, layer.spread("limits", limits, numbers))
    return online_attention(layer, scores, loaded[1])


def _looked_up(layer: Layer, table: Any, begin: Any, used: Any, held: int) -> tuple[Stream, Stream]:
    """The positions of used entries in a page table, from ``begin`` on, and the entries.

    Both have a ragged inner dim. The positions are ranges; the entries come from two lists, one of
    the last pages of all requests and one of the pages before, put in order by a filter of last
    tiles.
    """
    width = table.shape[-1] if table.ndim else 0
    layer.require(
        table.shape[:-1] == used.shape and bool((used <= width).all()),
        ArgError,
        f"pages have shape {list(table.shape)}, expected [{', '.join(map(str, used.shape))}, "
        f"{int(used.max())} or more]",
        "the table has a row for each request, with as many pages as the longest needs",
    )
    taken = (np.arange(width) >= begin[..., None]) & (np.arange(width) < used[..., None])
    layer.require(
        bool(((table >= 0) & (table < held))[taken].all()),
        ArgError,
        f"pages names pages {int(table[taken].min())} to {int(table[taken].max())}, the cache has "
        f"{held}",
        "page numbers count from 0; only entries beyond the pages that a request uses may be -1",
    )
    first = np.arange(used.size).reshape(used.shape) * width + begin
    position, sizes = block_ranges(layer, first, used - begin)
    last = np.arange(width) == used[..., None] - 1
    before = taken & ~last
    if not before.any():
        entries = metadata(table[last].reshape(used.shape), label=layer.part("pages"))
        return position, layer.spread("page", entries, position)
    lists = [
        metadata(table[chosen], label=layer.part(part))
        for part, chosen in (("last_pages", last), ("pages_before", before))
    ]
    is_last = flat_map(sizes, last_tile_filter(), label=layer.part("is_last"))
    entries = reassemble(lists, is_last, label=layer.part("lookup"))
    return position, entries.flatten(0, 1, label=layer.part("pages"))


def _numbers(layer: Layer, what: str, given: Any, low: int) -> Any:
    """An array of whole numbers from ``low``."""
    try:
        found = np.asarray(given)
    except ValueError:
        found = np.empty(0)
    if found.dtype.kind not in "iu" or found.size == 0 or (found < low).any():
        layer.fail(ArgError, f"{what} must be an array of ints from {low}, found {shown(given)}")
    return found.astype(np.int64)


def _of_members(group: Division, what: str, given: Any, low: int) -> list[Any]:
    """The heads of each member, in an array that has those of all in its first dim."""
    found = _numbers(group.layer, what, given, low)
    group.layer.require(
        found.ndim >= 2 and len(found) % group.count == 0, ArgError,
        f"{what} have shape {list(found.shape)}, whose first dim counts heads that tp "
        f"{group.count} divides",
        "with tp, q is [heads, requests] on each chip, and lengths have all heads",
    )  # fmt: skip
    return np.split(found, group.count)


def _pages_of_members(group: Division, pages: Any, rows: int, page: Any) -> list[Any]:
    """Page tables of the members, whose caches have so many rows each, from that of all."""
    held = rows // group.layer.number(TILE_SIDE, "page", page)
    tables = _of_members(group, "pages", pages, -1)
    group.layer.require(
        tables[0].ndim >= 3, ArgError,
        f"pages have shape {list(np.shape(pages))}, expected that of lengths and one more dim",
    )  # fmt: skip
    own = []
    for i, table in enumerate(tables):
        # Entries that are not used may be anything; used ones elsewhere are refused as -1.
        local = table - i * held
        own.append(np.where((local >= 0) & (local < held), local, -1))
    return own
