"""Softmax of rows: safe, and online for rows that are split into tiles."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from stepsim.errors import ArgError
from stepsim.graph import fn
from stepsim.graph.functions.define import function
from stepsim.graph.functions.function import Function
from stepsim.graph.nn.layer import Layer
from stepsim.graph.ops.higher_order.maps import unzip
from stepsim.graph.stream import Stream


def shift_of(largest: Any) -> Any:
    """The value subtracted before exp: the largest scalar, or 0 if all are minus infinity."""
    return np.where(np.isneginf(largest), np.float32(0), largest)


def softmax(
    x: Stream,
    *,
    split: bool = False,
    online: bool = False,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Softmax of each row: ``exp(x - max) / sum(exp(x - max))``, which never overflows.

    Rows that are split into tiles take three passes (largest scalar, sum, result), and are buffered
    on chip in between; the ``online`` form keeps a running maximum and a sum that is rescaled
    whenever the maximum grows, and takes two.

    Shape
    -----
    As ``x``: tiles ``[m, n]`` that hold whole rows, or with ``split`` ``C`` tiles of ``n`` columns
    in the innermost dim for rows of ``C * n`` scalars.

    Parameters
    ----------
    split : the innermost dim of ``x`` counts the column tiles of each row.
    online : compute maximum and sum in one pass; for ``split`` only.
    compute_bw : FLOPs per cycle of each operator; None is the program's.
    write_back : the result goes to on-chip memory.

    FLOPs
    -----
    For a row tile ``m x n``: ``8 m n`` (max, difference, exp, sum, quotient). Split into ``C``
    tiles ``C (8 m n + 2 m)``; online ``C (13 m n + 8 m)``, as differences and exps are computed
    twice.

    Memory
    ------
    With ``split`` a buffer of the column tiles of a row, and a second one without ``online``.

    Raises
    ------
    ArgError : ``online`` without ``split``.
    DTypeError : ``x`` carries no tiles, or tiles with an unknown number of columns.
    RankError, DimError : with ``split`` the innermost dim is the only one, or is not constant.

    Example
    -------
    >>> with st.Program(compute_bw=64) as p:
    ...     x = st.linear_load(np.ones((8, 16), np.float32), (4, 4))
    ...     st.nn.softmax(x, split=True, online=True).consume()
    >>> p.metrics().flops
    1920
    """
    layer = Layer("softmax", {"x": x}, label, compute_bw, write_back)
    split, online = layer.flag("split", split), layer.flag("online", online)
    layer.require(
        split or not online,
        ArgError,
        "online=True is for rows that are split into tiles",
        "pass split=True, or leave online out: tiles with whole rows need one pass",
    )
    if not split:
        layer.columns("x", x)
        powers = _exp(layer, x, layer.map("max", fn.row_max, x))
        return layer.map("divide", fn.div, powers, layer.map("sum", fn.row_sum, powers), last=True)
    steps, _ = layer.split_columns("x", x)
    rows = layer.rows("x", x)
    kept = layer.kept("keep", x)

    def spread(part: str, column: Stream) -> Stream:
        return column.repeat(steps, label=layer.part(part))

    if online:
        state = (fn.neg_infinity((rows, 1)), fn.zero((rows, 1)))
        largest, total = unzip(
            layer.accum("statistics", x, _running(*layer.weights(*_USED)), state)
        )
        powers = _exp(layer, layer.again("read", kept), spread("maxima", largest))
    else:
        maxima = layer.map("row_max", fn.row_max, x)
        largest = layer.accum("max", maxima, fn.max)
        powers = _exp(layer, layer.again("read", kept), spread("maxima", largest))
        total = layer.accum("sum", layer.map("row_sum", fn.row_sum, powers), fn.add)
        powers = layer.again("read_powers", layer.kept("keep_powers", powers))
    return layer.map("divide", fn.div, powers, spread("sums", total), last=True)


def _exp(layer: Layer, x: Stream, largest: Stream) -> Stream:
    return layer.map("exp", fn.exp, layer.map("subtract", fn.sub, x, largest))


_USED = (fn.row_max, fn.row_sum, fn.max, fn.sub, fn.exp, fn.mul, fn.add)


@cache
def _running(
    row_max: int, row_sum: int, largest_of: int, sub: int, exp: int, mul: int, add: int
) -> Function:
    """The maximum and the rescaled sum of exps of all tiles so far.

    It counts the FLOPs of its constituent functions, with the weights of the program.
    """
    scalar, row = row_max + sub + exp + row_sum, largest_of + sub + exp + mul + add
    return function(
        "running_softmax", "m 1, m 1; m n -> m 1, m 1", lambda m, n: scalar * m * n + row * m,
        values=_rescaled, padding=(0.0, 0.0, -np.inf),
    )  # fmt: skip


def _rescaled(largest: Any, total: Any, x: Any) -> Any:
    after = np.maximum(largest, x.max(axis=1, keepdims=True))
    shift = shift_of(after)
    powers, decay = np.exp(x - shift), np.exp(largest - shift)
    return after, total * decay + powers.sum(axis=1, keepdims=True)
