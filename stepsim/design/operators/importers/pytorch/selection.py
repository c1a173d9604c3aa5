"""Operators of PyTorch whose whole numbers choose rows and entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepsim.design.operators.importers import selection, values as of
from stepsim.design.operators.importers.values import Place, Unsupported, Value


def cumsum(x: Value, axis: int, *, dtype: Any = None, at: Place) -> Value:
    if not x.shape:
        return x
    return of.made("cumsum", (x,), x.shape, at, axis=axis % len(x.shape))


def topk(
    x: Value, count: int, axis: int = -1, largest: bool = True, ordered: bool = True, *, at: Place
) -> tuple[Value, Value]:
    return selection.largest(x, count, axis, at, least=not largest)


def max_of_axis(x: Value, axis: int, keepdim: bool = False, *, at: Place) -> tuple[Value, Value]:
    return of.reduce("max", x, [axis], keepdim, at), argmax(x, axis, keepdim, at=at)


def argmax(x: Value, axis: int | None = None, keepdim: bool = False, *, at: Place) -> Value:
    return _extreme(x, axis, keepdim, False, at)


def argmin(x: Value, axis: int | None = None, keepdim: bool = False, *, at: Place) -> Value:
    return _extreme(x, axis, keepdim, True, at)


def _extreme(x: Value, axis: int | None, keepdim: bool, least: bool, at: Place) -> Value:
    """The place of the largest or least value along an axis, or of all values."""
    if axis is None:
        if keepdim:
            raise Unsupported("keepdim without an axis")
        return _extreme(of.reshape(x, (-1,), at), 0, False, least, at)
    _, found = selection.largest(x, 1, axis, at, least=least)
    place = axis % len(x.shape)
    return found if keepdim else of.reshape(found, (*x.shape[:place], *x.shape[place + 1 :]), at)


def gather(x: Value, axis: int, indices: Value, *, sparse_grad: bool = False, at: Place) -> Value:
    return selection.gather(x, axis, indices, at)


def scatter(x: Value, axis: int, indices: Value, source: Any, *, at: Place) -> Value:
    given = source if isinstance(source, Value) else of.constant(float(source), at)
    return selection.scatter(x, axis, indices, given, False, at)


def scatter_add(x: Value, axis: int, indices: Value, source: Value, *, at: Place) -> Value:
    return selection.scatter(x, axis, indices, source, True, at)


def index_add(
    x: Value, axis: int, indices: Value, source: Value, *, alpha: float = 1, at: Place
) -> Value:
    return selection.add_rows(x, axis, indices, of.scaled(source, alpha, at), at)


def one_hot(indices: Value, count: int = -1, *, at: Place) -> Value:
    return selection.one_hot(indices, count, at)


def new_filled(number: float | None) -> Any:
    def write(x: Value, shape: Any, fill: float = 0.0, *, at: Place, **ignored: Any) -> Value:
        value = fill if number is None else number
        return of.constant(np.full(tuple(shape), value, np.float32), at)

    return write
