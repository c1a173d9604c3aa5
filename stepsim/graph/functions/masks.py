"""Masks of attention scores by position."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stepsim.arguments import scalar
from stepsim.errors import ArgError
from stepsim.graph.functions.function import Function
from stepsim.graph.functions.standard import family, standard
from stepsim.graph.sizes.limits import SIZE

_ONE_CYCLE = "One cycle, as the public simulator of 2026 takes to mask a row."
_KINDS = ("number", "address", "address")


def _filler(name: str, fill: object) -> np.float32:
    return np.float32(scalar(f"{name}: fill", fill))


@family()
def causal_mask(window: int | None = None, fill: float = -math.inf) -> Function:
    """Hide the attention scores of keys behind their query.

    A map of (scores, first query, first key). The position of row i is ``first query + i``, that of
    column j ``first key + j``; scores of keys behind the query become ``fill``.

    Parameters
    ----------
    window : with a window only the last so many keys up to the query stay (sliding window).
    fill : what hidden scores become.

    Example
    -------
    >>> with st.Program("causal", compute_bw=64) as program:
    ...     scores = st.linear_load(np.ones((3, 3), "f4"), tile=(3, 3)).flatten(0, 1)
    ...     first = st.metadata([0])
    ...     seen = st.map(st.fn.causal_mask(fill=0), scores, first, first)
    ...     out = st.linear_store(seen, "out")
    >>> print(run_functional(program).stored["out"])
    [[1. 0. 0.]
     [1. 1. 0.]
     [1. 1. 1.]]
    """
    size = None if window is None else SIZE.checked("causal_mask: window", window)
    if size == 0:
        raise ArgError("causal_mask: window must be at least 1, or None")
    hidden = _filler("causal_mask", fill)

    def values(scores: Any, query: Any, key: Any) -> Any:
        rows = int(query[0, 0]) + np.arange(scores.shape[0])[:, None]
        cols = int(key[0, 0]) + np.arange(scores.shape[1])[None, :]
        seen = cols <= rows
        if size is not None:
            seen &= cols > rows - size
        return np.where(seen, scores, hidden)

    return standard(
        "causal_mask", "m n, 1 1, 1 1 -> m n", values,
        "Attention scores with those of keys behind their query hidden.", cycles=1, kinds=_KINDS,
        text=_ONE_CYCLE, arguments=(window, fill), spelling="st.fn.causal_mask()",
    )  # fmt: skip


@family()
def length_mask(fill: float = -math.inf) -> Function:
    """Hide the attention scores of keys beyond a length.

    A map of (scores, first key, length). The position of column j is ``first key + j``; scores from
    position ``length`` on become ``fill``.

    Parameters
    ----------
    fill : what hidden scores become.

    Example
    -------
    >>> with st.Program("two keys", compute_bw=64) as program:
    ...     scores = st.linear_load(np.ones((1, 4), "f4"), tile=(1, 4)).flatten(0, 1)
    ...     seen = st.map(st.fn.length_mask(fill=0), scores, st.metadata([0]), st.metadata([2]))
    ...     out = st.linear_store(seen, "out")
    >>> print(run_functional(program).stored["out"])
    [[1. 1. 0. 0.]]
    """
    hidden = _filler("length_mask", fill)

    def values(scores: Any, key: Any, length: Any) -> Any:
        cols = int(key[0, 0]) + np.arange(scores.shape[1])[None, :]
        return np.where(cols < int(length[0, 0]), scores, hidden)

    return standard(
        "length_mask", "m n, 1 1, 1 1 -> m n", values,
        "Attention scores with those of keys beyond a length hidden.", cycles=1, kinds=_KINDS,
        text=_ONE_CYCLE, arguments=(fill,), spelling="st.fn.length_mask()",
    )  # fmt: skip
