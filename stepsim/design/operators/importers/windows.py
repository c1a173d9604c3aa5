"""Convolutions, pooling and padding of models, as values of the common form."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from stepsim.design.operators.importers import values as of
from stepsim.design.operators.importers.values import Place, Unsupported, Value

Pairs = Sequence[tuple[int, int]]
"""Places before and behind every axis of positions."""


def padded(x: Value, pads: Pairs, fill: float, place: Place) -> Value:
    """Places around the last axes, one pair for each of them; negative ones cut off."""
    lead = len(x.shape) - len(pads)
    for axis, (before, behind) in enumerate(pads, lead):
        size = x.shape[axis]
        if min(before, behind) < 0:
            x = of.slice_of(x, axis, max(-before, 0), size - max(-behind, 0), 1, place)
    around = [(max(before, 0), max(behind, 0)) for before, behind in pads]
    if not any(map(any, around)):
        return x
    shape = (*x.shape[:lead], *(n + sum(p) for n, p in zip(x.shape[lead:], around, strict=True)))
    return of.made("pad", (x,), shape, place, pads=tuple(around), fill=float(fill))


def _fitted(
    x: Value, widths: Sequence[int], steps: Sequence[int], pads: Pairs, apart: Sequence[int],
    fill: float, ceil: bool, place: Place,
) -> tuple[Value, tuple[int, ...]]:  # fmt: skip
    """The value, padded for its windows, and how many there are; what none reaches stays out."""
    around, counts = [], []
    for size, width, step, (before, behind), dilation in zip(
        x.shape[2:], widths, steps, pads, apart, strict=True
    ):
        reach = dilation * (width - 1) + 1
        spare = size + before + behind - reach
        count = (-(-spare // step) if ceil else spare // step) + 1
        if ceil and (count - 1) * step >= size + before:
            count -= 1  # The last window would lie in the padding alone.
        if count < 1:
            raise Unsupported(
                f"a window of {reach} places of an axis of {size} with {before} and {behind} of "
                "padding; pad more, or use a narrower window"
            )
        needed = (count - 1) * step + reach - before - size
        around.append((before, max(needed, 0)))
        counts.append(count)
    return padded(x, around, fill, place), tuple(counts)


def conv(
    x: Value, w: Value, bias: Value | None, steps: Sequence[int], pads: Pairs,
    apart: Sequence[int], groups: int, place: Place,
) -> Value:  # fmt: skip
    """A convolution of ``[batch, channels, *positions]``, or without the batch."""
    if len(x.shape) == len(w.shape) - 1:
        one = conv(of.unsqueeze(x, 0, place), w, bias, steps, pads, apart, groups, place)
        return of.reshape(one, one.shape[1:], place)
    x, counts = _fitted(x, w.shape[2:], steps, pads, apart, 0.0, False, place)
    inputs = (x, w) if bias is None else (x, w, bias)
    shape = (x.shape[0], w.shape[0], *counts)
    return of.made("conv", inputs, shape, place,
                   stride=tuple(steps), dilation=tuple(apart), groups=groups)  # fmt: skip


def same_pads(sizes: Sequence[int], widths: Sequence[int], steps: Sequence[int],
              apart: Sequence[int], late: bool) -> list[tuple[int, int]]:  # fmt: skip
    """Padding with which as many windows begin as a stride fits; ``late`` has the odd one first."""
    found = []
    for size, width, step, dilation in zip(sizes, widths, steps, apart, strict=True):
        total = max((-(-size // step) - 1) * step + dilation * (width - 1) + 1 - size, 0)
        less = total // 2
        found.append((total - less, less) if late else (less, total - less))
    return found


def pool(
    x: Value, combine: str, widths: Sequence[int], steps: Sequence[int], pads: Pairs,
    apart: Sequence[int], ceil: bool, place: Place,
) -> Value:  # fmt: skip
    """Sums or maxima of windows of ``[batch, channels, *positions]``, or without the batch."""
    if len(x.shape) == len(widths) + 1:
        one = pool(of.unsqueeze(x, 0, place), combine, widths, steps, pads, apart, ceil, place)
        return of.reshape(one, one.shape[1:], place)
    fill = 0.0 if combine == "sum" else -np.inf
    x, counts = _fitted(x, widths, steps, pads, apart, fill, ceil, place)
    return of.made("pool", (x,), (*x.shape[:2], *counts), place, combine=combine,
                   places=tuple(widths), stride=tuple(steps), dilation=tuple(apart))  # fmt: skip


def average(
    x: Value, widths: Sequence[int], steps: Sequence[int], pads: Pairs, ceil: bool,
    with_padding: bool, divisor: int | None, place: Place,
) -> Value:  # fmt: skip
    """Means of windows; ``with_padding``: places of padding count."""
    if ceil and (with_padding or divisor is not None) and any(map(any, pads)):
        raise Unsupported("ceil_mode with padding that counts; use ceil_mode=False")
    ones = (1,) * len(widths)
    total = pool(x, "sum", widths, steps, pads, ones, ceil, place)
    if divisor is not None or (with_padding and not ceil) or not (ceil or any(map(any, pads))):
        return of.scaled(total, 1 / (divisor or prod(widths)), place)
    counts = np.ones((1,) * len(widths))
    for axis, (size, width, step, (before, _), n) in enumerate(
        zip(x.shape[-len(widths) :], widths, steps, pads, total.shape[-len(widths) :], strict=True)
    ):
        first = np.arange(n) * step - before
        inside = np.minimum(first + width, size) - np.maximum(first, 0)
        counts = counts * inside.reshape([-1 if i == axis else 1 for i in range(len(widths))])
    return of.elementwise("mul", (total, of.constant((1 / counts).astype(np.float32))), place)


def adaptive(x: Value, combine: str, sizes: Sequence[int | None], place: Place) -> Value:
    """As many means or maxima of an axis as are given, of windows of one size side by side."""
    lead = len(x.shape) - len(sizes)
    own = x.shape[lead:]
    wanted = [n if size is None else size for n, size in zip(own, sizes, strict=True)]
    uneven = [f"{n} to {size}" for n, size in zip(own, wanted, strict=True) if n % size]
    if uneven:
        raise Unsupported(
            f"windows of several sizes, from {' and '.join(uneven)}; use sizes that divide those "
            "of the input"
        )
    if set(wanted) == {1}:
        return of.reduce(combine, x, range(lead, len(x.shape)), True, place)
    widths = [n // size for n, size in zip(own, wanted, strict=True)]
    pads = [(0, 0)] * len(widths)
    if combine == "mean":
        return average(x, widths, widths, pads, False, True, None, place)
    return pool(x, combine, widths, widths, pads, (1,) * len(widths), False, place)


def batch_norm(
    x: Value, w: Value | None, bias: Value | None, mean: Value, var: Value, eps: float,
    place: Place,
) -> Value:  # fmt: skip
    """An affine map of every channel, of means and variances that are known.

    :mod:`stepsim.design.operators.importers.norm_folding` puts it into a convolution in front.
    """
    if any(part.array is None for part in (w, bias, mean, var) if part is not None):
        raise Unsupported("weights or statistics that are an input or computed from one")
    gain = 1 / np.sqrt(np.asarray(var.array, np.float64) + eps)
    if w is not None:
        gain = gain * w.array
    shift = -np.asarray(mean.array, np.float64) * gain
    if bias is not None:
        shift = shift + bias.array
    column = (-1, *(1,) * (len(x.shape) - 2))
    parts = []
    for name, array in (("scale", gain), ("shift", shift)):
        part = of.constant(array.astype(np.float32).reshape(column), place)
        part.attributes = {"name": f"{place.module}.{name}" if place.module else name}
        parts.append(part)
    return of.made("batch_norm", (x, *parts), x.shape, place)
