"""Rows that go from chips to chips, each to where it is needed, and what comes back for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepsim.arguments import shown
from stepsim.errors import ArgError
from stepsim.graph import fn
from stepsim.graph.nn.layer import Layer
from stepsim.graph.nn.parallel.steps import members
from stepsim.graph.ops.arrays import IntArray
from stepsim.graph.ops.routing.merging import reassemble
from stepsim.graph.ops.routing.partitioning import partition
from stepsim.graph.ops.sources import consume, selector
from stepsim.graph.programs.chips import chip
from stepsim.graph.stream import Stream


def dispatch_rows(
    xs: Sequence[Stream],
    to: Sequence[Any],
    *,
    chips: Sequence[int] | None = None,
    label: str | None = None,
) -> list[Stream]:
    """Send rows of several chips to the chips that need them: the dispatch of experts on chips.

    Every row goes once to each of its chips, in a message of its own. A chip takes its rows in the
    order of their numbers, among equal ones that of the first chip first; FIFOs hold all rows, so
    that no sender waits for another one's rows.

    Shape
    -----
    ``n`` streams ``[rows_i]`` give ``n`` streams ``[rows of chip j]`` of the same tiles.

    Parameters
    ----------
    xs : one stream for each chip.
    to : for each stream an array ``[rows_i, n]`` of 0 and 1, whether a row goes to a chip; rows may
        go nowhere.
    chips : the chip of each stream; by default the one on which it was made.

    Messages
    --------
    A tile for every 1 in ``to`` but those of a chip's own rows that stay.

    Raises
    ------
    ArgError : an array does not fit its stream, or two streams are on one chip.

    Example
    -------
    >>> with st.Program("rows") as p:
    ...     rows = []
    ...     for i in range(2):
    ...         with st.chip(i):
    ...             rows.append(st.linear_load(np.full((2, 1), i, "f4"), (1, 1)).flatten(0, 1))
    ...     first, second = st.nn.dispatch_rows(rows, [[[1, 1], [0, 1]], [[0, 1], [1, 0]]])
    ...     with st.chip(1):
    ...         out = st.linear_store(second, "second")
    ...     first.consume()
    >>> print(st.run_functional(p).stored["second"].ravel())
    [0. 1. 0.]
    """
    layer, streams, own = members("dispatch_rows", xs, chips, None, label)
    tables = _tables(layer, streams, to)
    sent = [
        _split(layer, f"send.{i}", x, table, own[i])
        for i, (x, table) in enumerate(zip(streams, tables, strict=True))
    ]
    return [
        _in_order(layer, f"received.{j}", [parts[j] for parts in sent], _order(tables, j), own[j])
        for j in range(len(streams))
    ]


def combine_rows(
    xs: Sequence[Stream],
    to: Sequence[Any],
    *,
    otherwise: Sequence[Stream] | None = None,
    chips: Sequence[int] | None = None,
    compute_bw: int | None = None,
    label: str | None = None,
) -> list[Stream]:
    """Send results of rows back to where the rows came from, and add up those of each row: the
    combination behind :func:`dispatch_rows`.

    Shape
    -----
    ``n`` streams ``[rows of chip j]``, a result for each row that chip j got, give ``n`` streams
    ``[rows_i]`` of the same tiles.

    Parameters
    ----------
    xs : one stream for each chip, in the order of :func:`dispatch_rows`.
    to : for each stream an array ``[rows_i, n]`` of 0 and 1, as there.
    otherwise : for each chip, what rows give that went nowhere, a stream of them in their order;
        None: no row went nowhere.
    chips : the chip of each stream; by default the one on which it was made.
    compute_bw : FLOPs per cycle of the sums; None is the program's.

    FLOPs
    -----
    The scalars of each result.

    Messages
    --------
    As many as of :func:`dispatch_rows`, back.

    Raises
    ------
    ArgError : an array does not fit, rows that went nowhere have no ``otherwise``, or two streams
        are on one chip.

    Example
    -------
    >>> with st.Program("there and back", compute_bw=64) as p:
    ...     rows = []
    ...     for i in range(2):
    ...         with st.chip(i):
    ...             rows.append(st.linear_load(np.full((2, 1), i + 1, "f4"), (1, 1)).flatten(0, 1))
    ...     to = [[[1, 1], [0, 1]], [[0, 1], [1, 0]]]
    ...     first, second = st.nn.combine_rows(st.nn.dispatch_rows(rows, to), to)
    ...     first.consume()
    ...     second.consume()
    >>> first
    Stream[2] of Tile[1x1 f32] <- combine_rows.sum.0#20
    >>> p.metrics().flops  # one for each result
    5
    """
    layer, streams, own = members("combine_rows", xs, chips, compute_bw, label)
    n = len(streams)
    instead = None if otherwise is None else _instead(layer, otherwise, n)
    layer.require(
        isinstance(to, list | tuple) and len(to) == n, ArgError,
        f"to must be a list of {n} arrays, one for each chip, found {shown(to)}",
    )  # fmt: skip
    tables = [_table(layer, i, given, n) for i, given in enumerate(to)]
    back: list[list[Stream] | None] = []
    for j, x in enumerate(streams):
        order = _order(tables, j)
        layer.require(
            x.rank == 0 and x.shape[0] == len(order), ArgError,
            f"xs[{j}] is {x.describe()}, expected a row for each of the {len(order)} that go to "
            "its chip",
        )  # fmt: skip
        if len(order):
            back.append(_split(layer, f"return.{j}", x, order, own[j]))
        else:
            back.append(None)
            consume(x, label=layer.part(f"nothing.{j}"))
    used = [j for j, results in enumerate(back) if results is not None]
    made = []
    for i, whole in enumerate(tables):
        parts = [results[i] for results in back if results is not None]
        nowhere, table = ~whole.any(axis=1), whole[:, used]
        if instead is not None:
            parts.append(instead[i])
            table = np.column_stack([table, nowhere.astype(int)])
        elif nowhere.any():
            layer.fail(
                ArgError, f"row {int(nowhere.argmax())} of xs[{i}] went nowhere",
                "send every row to a chip, or pass otherwise=",
            )  # fmt: skip
        with chip(own[i]):
            chosen = selector(table, label=layer.part(f"collect.{i}"))
            joined = reassemble(parts, chosen, label=layer.part(f"results.{i}"))
            made.append(layer.accum(f"sum.{i}", joined, fn.add))
    return made


def _instead(layer: Layer, given: Any, n: int) -> tuple[Stream, ...]:
    layer.require(
        isinstance(given, list | tuple) and len(given) == n
        and all(isinstance(x, Stream) for x in given), ArgError,
        f"otherwise must be a list of {n} streams, one for each chip, found {shown(given)}",
    )  # fmt: skip
    return tuple(given)


def _split(layer: Layer, part: str, x: Stream, table: IntArray, number: int) -> list[Stream]:
    """The rows of each column of a table of 0 and 1, in FIFOs that hold all of them."""
    with chip(number):
        chosen = selector(table, label=layer.part(f"{part}_to"))
        parts = partition(x, chosen, label=layer.part(part))
    counts = table.sum(axis=0).tolist()
    return [one.with_depth(max(count, 2)) for one, count in zip(parts, counts, strict=True)]


def _in_order(
    layer: Layer, part: str, parts: Sequence[Stream], order: IntArray, number: int
) -> Stream:
    with chip(number):
        if not len(order):
            for x in parts[1:]:
                consume(x, label=layer.part(f"{part}_nothing"))
            return parts[0]
        turns = selector(order, label=layer.part(f"{part}_from"))
        joined = reassemble(parts, turns, label=layer.part(part))
        return joined.flatten(0, 1, label=layer.part(f"{part}_rows"))


def _order(tables: Sequence[IntArray], j: int) -> IntArray:
    """The source of each row that chip ``j`` gets: one-hot rows."""
    rows = [np.flatnonzero(table[:, j]) for table in tables]
    sources = np.repeat(np.arange(len(tables)), [len(one) for one in rows])
    order = np.lexsort((sources, np.concatenate(rows)))
    eye: IntArray = np.eye(len(tables), dtype=np.int64)[sources[order]]
    return eye


def _tables(layer: Layer, xs: Sequence[Stream], to: Any) -> list[IntArray]:
    """The arrays of 0 and 1 of every stream."""
    n = len(xs)
    layer.require(
        isinstance(to, list | tuple) and len(to) == n, ArgError,
        f"to must be a list of {n} arrays, one for each chip, found {shown(to)}",
    )  # fmt: skip
    tables = []
    for i, (x, given) in enumerate(zip(xs, to, strict=True)):
        table = _table(layer, i, given, n)
        layer.require(
            x.rank == 0 and x.shape[0] == len(table), ArgError,
            f"xs[{i}] is {x.describe()}, to[{i}] has {len(table)} rows",
            "give a stream of one row each, and an array with a row for each of them",
        )  # fmt: skip
        tables.append(table)
    return tables


def _table(layer: Layer, i: int, given: Any, n: int) -> IntArray:
    try:
        table = np.asarray(given)
    except ValueError:
        table = np.empty(0)
    fits = table.ndim == 2 and table.shape[1] == n and table.dtype.kind in "biu"
    layer.require(
        fits and bool(((table == 0) | (table == 1)).all()), ArgError,
        f"to[{i}] must be an array [rows, {n}] of 0 and 1, found {shown(given)}",
    )  # fmt: skip
    return table.astype(np.int64)
