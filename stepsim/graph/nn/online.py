"""Scores of queries and keys, and attention over blocks of them with an online softmax."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from stepsim.arguments import is_number, shown
from stepsim.errors import ArgError
from stepsim.graph import fn
from stepsim.graph.functions.define import function
from stepsim.graph.functions.function import Function
from stepsim.graph.nn.layer import Layer
from stepsim.graph.nn.safe_softmax import shift_of
from stepsim.graph.ops.higher_order.maps import unzip
from stepsim.graph.ops.shape.levels import zip_
from stepsim.graph.stream import Stream


def scores_of(layer: Layer, q: Stream, k: Stream, scale: float | None) -> Stream:
    """``q @ k.T * scale``, by default ``1 / sqrt(columns)``; a scale of 1 is left out."""
    if scale is None:
        scale = 1 / math.sqrt(layer.columns("q", q))
    if not is_number(scale) or not math.isfinite(scale):
        layer.fail(ArgError, f"scale must be a finite number or None, found {shown(scale)}")
    scores = layer.map("scores", fn.matmul_t, q, k)
    return scores if scale == 1 else layer.map("scale", fn.mul_const(scale), scores)


def online_attention(layer: Layer, scores: Stream, v: Stream, *, last: bool = True) -> Stream:
    """Softmax of scores over the blocks of the innermost dim, times the values."""
    rows, cols = layer.rows("scores", scores), layer.columns("v", v)
    pairs = zip_(scores, v, label=layer.part("pairs"))
    state = (fn.neg_infinity((rows, 1)), fn.zero((rows, 1)), fn.zero((rows, cols)))
    largest, total, weighted = unzip(
        layer.accum("online", pairs, _step(*layer.weights(*_USED)), state)
    )
    largest.consume(label=layer.part("maxima"))
    return layer.map("divide", fn.div, weighted, total, last=last)


_USED = (
    fn.matmul, fn.row_max, fn.row_sum, fn.max, fn.sub, fn.exp, fn.mul, fn.add,
)  # fmt: skip


@cache
def _step(
    matmul: int, row_max: int, row_sum: int, largest_of: int, sub: int, exp: int, mul: int, add: int
) -> Function:
    """Maximum, rescaled sum of exps and rescaled weighted values of all blocks so far.

    It counts the FLOPs of its constituent functions, with the weights of the program.
    """
    # The product with the values, whose summation is free as in all matmuls, and their rescaling;
    # then the work for each score and for each row.
    score, row = row_max + sub + exp + row_sum, largest_of + sub + exp + mul + add
    return function(
        "flash_step", "m 1, m 1, m e; m t, t e -> m 1, m 1, m e",
        lambda m, t, e: matmul * m * t * e + mul * m * e + score * m * t + row * m,
        values=_rescaled, padding=(0.0, 0.0, 0.0, -np.inf, 0.0),
    )  # fmt: skip


def _rescaled(largest: Any, total: Any, weighted: Any, scores: Any, v: Any) -> Any:
    after = np.maximum(largest, scores.max(axis=1, keepdims=True))
    shift = shift_of(after)
    powers, decay = np.exp(scores - shift), np.exp(largest - shift)
    return (
        after,
        total * decay + powers.sum(axis=1, keepdims=True),
        weighted * decay + powers @ v,
    )
