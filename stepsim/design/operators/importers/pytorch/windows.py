"""Operators of PyTorch over windows: convolutions, pooling, padding, batch norms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from stepsim.design.operators.importers import values as of, windows
from stepsim.design.operators.importers.values import Place, Unsupported, Value

Numbers = int | Sequence[int]


def _each(given: Numbers, count: int) -> list[int]:
    numbers = [given] if isinstance(given, int) else list(given)
    return numbers * count if len(numbers) == 1 else numbers


def conv(
    x: Value, w: Value, bias: Value | None = None, stride: Numbers = 1, padding: Any = 0,
    dilation: Numbers = 1, groups: int = 1, *, at: Place,
) -> Value:  # fmt: skip
    axes = len(w.shape) - 2
    steps, apart = _each(stride, axes), _each(dilation, axes)
    if padding == "same":
        pads = windows.same_pads(x.shape[-axes:], w.shape[2:], steps, apart, late=False)
    else:
        pads = [(n, n) for n in _each(0 if padding == "valid" else padding, axes)]
    return windows.conv(x, w, bias, steps, pads, apart, groups, at)


def convolution(
    x: Value, w: Value, bias: Value | None, stride: Numbers, padding: Numbers, dilation: Numbers,
    transposed: bool, output_padding: Numbers, groups: int, *, at: Place,
) -> Value:  # fmt: skip
    if transposed:
        raise Unsupported("a transposed convolution; use upsampling and a convolution")
    return conv(x, w, bias, stride, padding, dilation, groups, at=at)


def max_pool(axes: int) -> Callable[..., Value]:
    def write(
        x: Value, places: Numbers, stride: Numbers = (), padding: Numbers = 0,
        dilation: Numbers = 1, ceil_mode: bool = False, *, at: Place,
    ) -> Value:  # fmt: skip
        widths = _each(places, axes)
        steps = _each(stride, axes) or widths
        pads = [(n, n) for n in _each(padding, axes)]
        return windows.pool(x, "max", widths, steps, pads, _each(dilation, axes), ceil_mode, at)

    return write


def avg_pool(axes: int) -> Callable[..., Value]:
    def write(
        x: Value, places: Numbers, stride: Numbers = (), padding: Numbers = 0,
        ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None, *, at: Place,
    ) -> Value:  # fmt: skip
        widths = _each(places, axes)
        steps = _each(stride, axes) or widths
        pads = [(n, n) for n in _each(padding, axes)]
        return windows.average(
            x, widths, steps, pads, ceil_mode, count_include_pad, divisor_override, at
        )

    return write


def adaptive(combine: str) -> Callable[..., Any]:
    def write(x: Value, sizes: Any, *, at: Place) -> Any:
        made = windows.adaptive(x, combine, [sizes] if isinstance(sizes, int) else sizes, at)
        if combine == "mean":
            return made
        return made, of.unknown("the places of adaptive_max_pool", (x,), made.shape, at)

    return write


def pad(
    x: Value, pads: Sequence[int], mode: str = "constant", fill: float | None = None, *, at: Place
) -> Value:
    """Of the last axis first, as PyTorch has them."""
    if mode != "constant":
        raise Unsupported(f"mode is {mode!r}; known is 'constant'")
    pairs = [(pads[i], pads[i + 1]) for i in range(0, len(pads), 2)][::-1]
    return windows.padded(x, pairs, fill or 0.0, at)


def unfold(x: Value, axis: int, width: int, stride: int, *, at: Place) -> Value:
    place = axis % len(x.shape)
    count = (x.shape[place] - width) // stride + 1
    shape = (*x.shape[:place], count, *x.shape[place + 1 :], width)
    return of.made("unfold", (x,), shape, at, axis=place, width=width, stride=stride)


def batch_norm(
    x: Value, w: Value | None, bias: Value | None, mean: Value, var: Value, training: bool,
    momentum: float, eps: float, cudnn: bool = False, *, at: Place,
) -> Value:  # fmt: skip
    if training:
        return batch_norm_in_training()
    return windows.batch_norm(x, w, bias, mean, var, eps, at)


def batch_norm_in_training(*unused: Any, **ignored: Any) -> NoReturn:
    raise Unsupported("it computes statistics of the batch; call eval() of the module")


def native_batch_norm(
    x: Value, w: Value | None, bias: Value | None, mean: Value, var: Value, momentum: float,
    eps: float, *, at: Place,
) -> tuple[Value, ...]:  # fmt: skip
    made = windows.batch_norm(x, w, bias, mean, var, eps, at)
    return made, of.constant(0.0, at), of.constant(0.0, at)
