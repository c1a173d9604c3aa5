"""Routers of mixtures of experts: scores, and the weights of the chosen experts."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepsim.arguments import is_whole, shown
from stepsim.errors import ArgError, DTypeError
from stepsim.graph import fn
from stepsim.graph.functions.define import function
from stepsim.graph.nn.layer import Layer, Tensor
from stepsim.graph.ops.routing.merging import reassemble
from stepsim.graph.ops.routing.partitioning import partition
from stepsim.graph.ops.routing.routing_table import Routing, as_index_array, routing
from stepsim.graph.ops.sources import metadata
from stepsim.graph.stream import Stream


def top_k(scores: Any, k: int) -> Routing:
    """Make the routing that sends each row to the ``k`` experts with the largest scores.

    The table is computed immediately by numpy from arrays, of scores or of their logarithms, as
    softmax preserves the order. Columns are in descending order of scores; among equal ones the
    first expert comes first.

    Parameters
    ----------
    scores : array ``[rows, experts]``.
    k : experts of a row.

    Raises
    ------
    ArgError : ``scores`` is not such an array of numbers, or ``k`` is not from 1 to ``experts``.
    GraphError : no program is active.

    Example
    -------
    >>> with st.Program() as p:
    ...     table = st.nn.top_k([[0.1, 0.7, 0.2], [0.5, 0.0, 0.5]], k=2)
    >>> table.indices.tolist()
    [[1, 2], [0, 2]]
    """
    try:
        given = np.asarray(scores)
    except ValueError:
        given = np.empty(0, object)
    if given.ndim != 2 or given.size == 0 or given.dtype.kind not in "iuf":
        raise ArgError(
            f"top_k: scores must be an array of numbers [rows, experts], found {shown(scores)}"
        )
    if np.isnan(given).any():
        raise ArgError("top_k: scores contain NaN, which has no order")
    if not is_whole(k) or not 1 <= k <= given.shape[1]:
        raise ArgError(f"top_k: k must be an int from 1 to {given.shape[1]}, found {shown(k)}")
    order = np.argsort(-given.astype(np.float64), axis=1, kind="stable")
    return routing(order[:, :k].copy(), experts=given.shape[1])


def router(
    x: Stream,
    weight: Tensor | None,
    table: Routing,
    *,
    normalize: bool = True,
    compute_bw: int | None = None,
    label: str | None = None,
) -> list[Stream]:
    """Router of a mixture of experts: ``softmax(x @ weight)``, and the experts' weights from it.

    **The routing of rows to experts is not computed by the run.** Like all routing in stepsim it is
    a table that a run needs before it starts: bound when the program is built (``st.routing`` of an
    array, :func:`top_k` of scores) or with each run (``st.routing(st.spec(rows, k), experts)`` and
    ``bindings={table: indices}``). The run times the scores, sends those of each row to its experts
    according to the table, and each expert selects its own. The weights match numpy's top-k if the
    table does: ``top_k`` of the same ``x @ weight``.

    Shape
    -----
    ``x`` ``[rows]`` of ``[1, D]``, one row of the table each; a list of ``[n_e]`` of ``[1, 1]``,
    the weights of the rows of expert ``e`` in their order, for :func:`moe`.

    Parameters
    ----------
    weight : tensor ``[D, experts]``, read once for every row; None where ``x`` already carries the
        products, tiles ``[1, experts]``.
    table : the routing of rows to experts.
    normalize : divide by the sum of the weights of a row, so that they add up to one; this equals a
        softmax of only the chosen scores.
    compute_bw : FLOPs per cycle of each operator; None is the program's.

    FLOPs
    -----
    ``rows (2 D E + 8 E)`` for ``E`` experts, and ``2 rows k`` to normalize (sum, quotient). The
    products ``2 D E`` are not among them without ``weight``.

    Raises
    ------
    ArgError : ``weight``, or without it ``x``, does not fit, or ``table`` is not a routing of this
        many rows and experts.
    DTypeError : ``x`` carries no tiles of one row.

    Example
    -------
    >>> with st.Program(compute_bw=64) as p:
    ...     x = st.linear_load(st.spec(6, 8, name="x"), (1, 8)).flatten(0, 1)
    ...     table = st.routing(st.spec(6, 2), experts=4)
    ...     for weights in st.nn.router(x, st.spec(8, 4, name="w"), table):
    ...         weights.consume()
    >>> p.metrics().bind({table: [3, 3, 3, 3]}).flops
    600
    """
    layer = Layer("router", {"x": x}, label, compute_bw)
    normalize = layer.flag("normalize", normalize)
    table = table_of_rows(layer, x, table)
    scores = _softmax(layer, _products(layer, x, weight, table.experts))
    chosen = picked_scores(layer, scores, table)
    if normalize:
        joined = reassemble(
            chosen, table.multihot(label=layer.part("collect")), label=layer.part("chosen")
        )
        total = layer.accum("total", joined, fn.add)
        chosen = [
            layer.map(f"normalize.{e}", fn.div, one, part)
            for e, (one, part) in enumerate(
                zip(chosen, _sent(layer, "totals", total, table), strict=True)
            )
        ]
    # A weight waits for the result of its expert, and the rows of a tile wait for each other.
    return [one.with_depth(max(table.rows, 2)) for one in chosen]


def chosen_weights(
    x: Stream,
    experts: Any,
    *,
    compute_bw: int | None = None,
    label: str | None = None,
) -> Stream:
    """The weights of the experts of each row, in their order: those of :func:`router`, with few
    operators for any number of experts.

    For experts on several chips, which get the weights of a row with the row
    (:func:`dispatch_rows`).

    Shape
    -----
    ``x`` ``[rows]`` of ``[1, E]``, the products of each row with the columns of all experts;
    ``[rows, k]`` of ``[1, 1]``.

    Parameters
    ----------
    x : the stream of products.
    experts : array ``[rows, k]``, the experts of each row.
    compute_bw : FLOPs per cycle of each operator; None is the program's.

    FLOPs
    -----
    ``rows (8 E + 2 k)``.

    Raises
    ------
    ArgError : ``experts`` is not such an array of numbers below ``E``.
    DTypeError : ``x`` carries no tiles of one row.

    Example
    -------
    >>> with st.Program(compute_bw=64) as p:
    ...     x = st.linear_load(np.log([[1, 2, 4, 1]], dtype="f4"), (1, 4)).flatten(0, 1)
    ...     out = st.linear_store(st.nn.chosen_weights(x, [[2, 0]]), "weights")
    >>> print(st.run_functional(p).stored["weights"].ravel())
    [0.8 0.2]
    """
    layer = Layer("chosen_weights", {"x": x}, label, compute_bw)
    tile, columns = layer.tile("x", x), layer.columns("x", x)
    layer.require(tile.rows == 1, DTypeError, f"x must carry tiles of one row, found {tile}")
    given = as_index_array(experts, "chosen_weights: experts")
    layer.require(
        given.ndim == 2 and given.size > 0 and given.dtype.kind in "iu"
        and given.min() >= 0 and given.max() < columns, ArgError,
        f"experts must be an array [rows, k] of numbers below {columns}, found {shown(experts)}",
    )  # fmt: skip
    layer.require(
        x.rank == 0 and x.shape[0] == len(given), ArgError,
        f"x is {x.describe()}, experts has {len(given)} rows",
    )  # fmt: skip
    k = given.shape[1]
    scores = _softmax(layer, x).repeat(k, label=layer.part("repeat"))
    index = metadata(given, label=layer.part("experts"))
    # The weights of a row wait for their sum.
    chosen = layer.map("pick", _PICK, scores, index).with_depth(max(k, 2))
    total = layer.accum("total", chosen, fn.add).repeat(k, label=layer.part("totals"))
    return layer.map("normalize", fn.div, chosen, total)


def _picked(scores: Any, index: Any) -> Any:
    return scores[:, [int(index[0, 0])]]


# Like a slice of columns: one cycle, no FLOPs.
_PICK = function(
    "pick_column", "m n, 1 1 -> m 1", 0, 1, _picked, kind=("number", "address")
)  # fmt: skip


def _softmax(layer: Layer, logits: Stream) -> Stream:
    powers = layer.map(
        "exp", fn.exp, layer.map("subtract", fn.sub, logits, layer.map("max", fn.row_max, logits))
    )
    return layer.map("divide", fn.div, powers, layer.map("sum", fn.row_sum, powers))


def _products(layer: Layer, x: Stream, weight: Tensor | None, experts: int) -> Stream:
    """The products of each row with the columns of all experts."""
    columns = layer.columns("x", x)
    if weight is None:
        layer.require(
            columns == experts, ArgError,
            f"x carries tiles of {columns} columns, the table has {experts} experts",
            "without weight, x carries the products of each row, one for each expert",
        )  # fmt: skip
        return x
    given = layer.matrix("weight", weight, columns, experts)
    loaded = layer.load("weight", given, (columns, experts), (1,), (1,), x)
    return layer.map("logits", fn.matmul, x, loaded.flatten(0, 1, label=layer.part("matrix")))


def picked_scores(layer: Layer, scores: Stream, table: Routing) -> list[Stream]:
    """For each expert, its own column of the scores of its rows."""
    return [
        layer.map(f"pick.{e}", fn.slice_cols(e, e + 1), part)
        for e, part in enumerate(_sent(layer, "scores", scores, table))
    ]


def _sent(layer: Layer, what: str, x: Stream, table: Routing) -> list[Stream]:
    """Per-row elements, sent to the experts of each row."""
    selector = table.multihot(label=layer.part(f"route_{what}"))
    return partition(x, selector, label=layer.part(f"send_{what}"))


def table_of_rows(layer: Layer, x: Stream, table: object) -> Routing:
    """The table, whose rows are those of the stream; anything else is refused."""
    if not isinstance(table, Routing):
        layer.fail(
            ArgError,
            f"table must be a routing, found {shown(table)}",
            "make one with st.routing() or st.nn.top_k()",
        )
    tile = layer.tile("x", x)
    layer.require(
        tile.rows == 1, DTypeError, f"x must carry tiles of one row, found {tile}",
        "a table routes single rows; unpack the tiles with st.fn.unpack_rows()",
    )  # fmt: skip
    layer.require(
        x.rank == 0 and x.shape[0] == table.rows,
        ArgError,
        f"x is {x.describe()}, the table has {table.rows} rows",
        f"give a stream [{table.rows}] of one row each",
    )
    return table
