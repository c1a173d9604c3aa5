"""The translation of each PyTorch operator. PyTorch is not imported here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from stepsim.design.operators.importers import logic, selection, values as of
from stepsim.design.operators.importers.pytorch import rows, selection as chosen, windows
from stepsim.design.operators.importers.values import Place, Unsupported, Value

Writer: TypeAlias = Callable[..., "Value | tuple[Value, ...]"]
"""Called with arguments as the operator has them, tensors as values, and the place by name."""


def _value(x: Any) -> Value:
    """A tensor or number as a value."""
    return x if isinstance(x, Value) else of.constant(float(x))


def _elementwise(function: str) -> Writer:
    def write(*inputs: Any, at: Place, **unused: Any) -> Value:
        return of.elementwise(function, [_value(x) for x in inputs], at)

    return write


def _binary(function: str, flipped: bool = False) -> Writer:
    """A sum or difference, whose second operand may be scaled."""

    def write(x: Any, y: Any, alpha: float = 1, *, at: Place) -> Value:
        a, b = _value(x), _value(y)
        if flipped:
            a, b = b, a
        return of.elementwise(function, (a, of.scaled(b, alpha, at)), at)

    return write


def _div(x: Any, y: Any, *, rounding_mode: str | None = None, at: Place) -> Value:
    if rounding_mode is not None:
        raise Unsupported(f"rounding_mode is {rounding_mode!r}")
    return of.elementwise("div", (_value(x), _value(y)), at)


def _pow(x: Value, power: Any, *, at: Place) -> Value:
    number = power.number if isinstance(power, Value) else float(power)
    return of.power(x, number, power if number is None else number, at)


def _gelu(x: Value, approximate: str = "none", *, at: Place) -> Value:
    return of.elementwise("gelu" if approximate == "none" else "gelu_tanh", (x,), at)


def _softplus(x: Value, beta: float = 1, threshold: float = 20, *, at: Place) -> Value:
    # From 20 on the function is its argument but for 2e-9.
    if beta != 1 or threshold < 20:
        raise Unsupported(
            f"beta is {beta:g} and threshold {threshold:g}; supported are 1 and from 20"
        )
    return of.elementwise("softplus", (x,), at)


def _clamp(x: Value, low: Any = None, high: Any = None, *, at: Place) -> Value:
    least, most = (None if bound is None else _value(bound) for bound in (low, high))
    return of.clamp(x, least, most, at)


def _masked_fill(x: Value, mask: Value, fill: Any, *, at: Place) -> Value:
    return of.elementwise("where", (mask, _value(fill), x), at)


def _as_given(function: Callable[..., Value]) -> Writer:
    def write(*given: Any, at: Place) -> Value:
        return function(*given, at)

    return write


def _logical(function: Callable[..., Value]) -> Writer:
    def write(*inputs: Any, at: Place) -> Value:
        return function(*map(_value, inputs), at)

    return write


def _same(x: Value, *unused: Any, at: Place, **ignored: Any) -> Value:
    return x


def _dropout(x: Value, p: float, train: bool, *, at: Place) -> Value:
    if train and p > 0:
        raise Unsupported("it drops values at random; call eval() of the module")
    return x


def _native_dropout(x: Value, p: float, train: bool, *, at: Place) -> tuple[Value, Value]:
    return _dropout(x, p, train, at=at), of.constant(1.0, at)


def _linear(x: Value, w: Value, bias: Value | None = None, *, at: Place) -> Value:
    if len(w.shape) != 2:
        raise Unsupported(f"a weight of shape {w.shape}")
    return of.linear(x, w, bias, at)


def _addmm(
    bias: Value, x: Value, y: Value, *, beta: float = 1, alpha: float = 1, at: Place
) -> Value:
    made = of.scaled(of.matmul(x, y, at), alpha, at)
    return of.elementwise("add", (made, of.scaled(bias, beta, at)), at)


def _matmul(x: Value, y: Value, *, at: Place) -> Value:
    if len(x.shape) == 1 and len(y.shape) == 1:
        raise Unsupported("a product of two vectors; multiply and sum")
    return of.matmul(x, y, at)


def _softmax(x: Value, axis: int, *unused: Any, at: Place, **ignored: Any) -> Value:
    return of.made("softmax", (x,), x.shape, at, axis=axis)


def _layer_norm(
    x: Value, shape: Sequence[int], w: Value | None = None, bias: Value | None = None,
    eps: float = 1e-5, unused: bool = True, *, at: Place,
) -> Value:  # fmt: skip
    return of.layer_norm(x, w, bias, len(shape), eps, at)


def _rms_norm(
    x: Value, shape: Sequence[int], w: Value | None = None, eps: float | None = None, *, at: Place
) -> Value:
    assert eps is not None  # the reader puts that of the type of the values in its place
    return of.rms_norm(x, w, len(shape), eps, at)


def _sdpa(
    q: Value, k: Value, v: Value, mask: Value | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
    seen: Value | None = None, at: Place,
) -> Value:  # fmt: skip
    if dropout_p:
        raise Unsupported("it drops values at random; call eval() of the module")
    attributes = {"causal": is_causal, "scale": scale, "enable_gqa": enable_gqa,
                  "start": 0 if is_causal else None, "window": None}  # fmt: skip
    inputs = (q, k, v) if mask is None else (q, k, v, mask)
    if len(q.shape) < 3:
        raise Unsupported("it has no axis of heads; known is [..., heads, tokens, width]")
    made = of.made("sdpa", inputs, (*q.shape[:-1], v.shape[-1]), at, **attributes)
    return made if seen is None else logic.seen_rows(made, seen, at)


def _embedding(table: Value, indices: Value, *unused: Any, at: Place, **ignored: Any) -> Value:
    return selection.take(table, 0, indices, at)


def _t(x: Value, *, at: Place) -> Value:
    return of.permute(x, range(len(x.shape))[::-1], at)


def _squeeze(x: Value, axes: Any = None, *, at: Place) -> Value:
    given = range(len(x.shape)) if axes is None else [axes] if isinstance(axes, int) else axes
    gone = {axis % len(x.shape) for axis in given if x.shape[axis] == 1}
    return of.reshape(x, [n for i, n in enumerate(x.shape) if i not in gone], at)


def _flatten(x: Value, first: int = 0, last: int = -1, *, at: Place) -> Value:
    a, b = first % len(x.shape), last % len(x.shape)
    return of.reshape(x, (*x.shape[:a], -1, *x.shape[b + 1 :]), at)


def _unflatten(x: Value, axis: int, sizes: Sequence[int], *, at: Place) -> Value:
    place = axis % len(x.shape)
    return of.reshape(x, (*x.shape[:place], *sizes, *x.shape[place + 1 :]), at)


def _expand(x: Value, shape: Sequence[int], *, implicit: bool = False, at: Place) -> Value:
    return of.expand(x, shape, at)


def _repeat_interleave(
    x: Value, repeats: int, axis: int | None = None, *, output_size: int | None = None, at: Place
) -> Value:
    if axis is None or not isinstance(repeats, int):
        raise Unsupported("it repeats without an axis, or by numbers of its own")
    place = axis % len(x.shape)
    apart = of.reshape(x, (*x.shape[: place + 1], 1, *x.shape[place + 1 :]), at)
    wide = of.expand(apart, (*x.shape[: place + 1], repeats, *x.shape[place + 1 :]), at)
    return of.reshape(wide, (*x.shape[:place], -1, *x.shape[place + 1 :]), at)


def _slice(
    x: Value, axis: int = 0, start: int | None = None, stop: int | None = None, step: int = 1,
    *, at: Place,
) -> Value:  # fmt: skip
    return of.slice_of(x, axis, *rows.ends(x, axis, start, stop), step, at)


def _split(x: Value, size: Any, axis: int = 0, *, at: Place) -> tuple[Value, ...]:
    if isinstance(size, int):
        whole = x.shape[axis]
        size = [min(size, whole - done) for done in range(0, whole, size)]
    return of.split(x, size, axis, at)


def _chunk(x: Value, pieces: int, axis: int = 0, *, at: Place) -> tuple[Value, ...]:
    return _split(x, -(-x.shape[axis] // pieces), axis, at=at)


def _unbind(x: Value, axis: int = 0, *, at: Place) -> tuple[Value, ...]:
    return tuple(of.select(x, axis, i, at) for i in range(x.shape[axis]))


def _cat(parts: Sequence[Value], axis: int = 0, *, at: Place) -> Value:
    # PyTorch lets an empty vector stand among values of more axes.
    kept = [x for x in parts if 0 not in x.shape]
    if not kept:
        raise Unsupported("all parts are empty")
    return of.concat(kept, axis, at)


def _stack(parts: Sequence[Value], axis: int = 0, *, at: Place) -> Value:
    place = axis % (len(parts[0].shape) + 1)
    return of.concat([of.unsqueeze(x, place, at) for x in parts], place, at)


def _reduced(function: str) -> Writer:
    def write(
        x: Value, axes: Any = None, keepdim: bool = False, *, at: Place, **ignored: Any
    ) -> Value:
        given = [] if axes is None else [axes] if isinstance(axes, int) else axes
        return of.reduce(function, x, given, keepdim, at)

    return write


def _var(
    x: Value, axes: Any = None, unbiased: bool = True, keepdim: bool = False, *,
    correction: float | None = None, at: Place,
) -> Value:  # fmt: skip
    given = range(len(x.shape)) if axes is None else [axes] if isinstance(axes, int) else axes
    count = prod(x.shape[axis] for axis in given)
    less = float(unbiased) if correction is None else correction
    if count <= less:
        raise Unsupported(f"a variance of {count} values less {less:g}")
    centered = of.elementwise("sub", (x, of.reduce("mean", x, given, True, at)), at)
    squares = of.elementwise("square", (centered,), at)
    mean = of.reduce("mean", squares, given, keepdim, at)
    return of.elementwise("mul", (mean, _value(count / (count - less))), at) if less else mean


def _filled(number: float) -> Writer:
    def write(x: Value, *, at: Place, **ignored: Any) -> Value:
        return of.constant(np.full(x.shape, number, np.float32), at)

    return write


def _full_like(x: Value, number: Any, *, at: Place, **ignored: Any) -> Value:
    return of.constant(np.full(x.shape, number, np.float32), at)


def _copy(x: Value, source: Value, *unused: Any, at: Place) -> Value:
    return of.expand(source, x.shape, at)


_UNARY = ("exp", "log", "sqrt", "rsqrt", "reciprocal", "neg", "abs", "tanh", "sin", "cos",
          "sigmoid", "relu", "silu", "square")  # fmt: skip
_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")

OPS: Mapping[str, Writer] = {
    **{f"{name}.default": _elementwise(name) for name in _UNARY},
    **{f"{name}.{kind}": _elementwise(name) for name in _COMPARED for kind in ("Tensor", "Scalar")},
    **{f"{name}.{kind}": write for kind in ("Tensor", "Scalar") for name, write in (
        ("add", _binary("add")), ("sub", _binary("sub")), ("rsub", _binary("sub", flipped=True)),
        ("mul", _elementwise("mul")), ("div", _div),
    )},
    **{f"{kind}_{name}": write for kind in ("bitwise", "logical") for name, write in (
        ("and.Tensor" if kind == "bitwise" else "and.default", _logical(logic.both)),
        ("or.Tensor" if kind == "bitwise" else "or.default", _logical(logic.either)),
        ("not.default", _logical(logic.negated)),
    )},
    "div.Tensor_mode": _div,
    "pow.Tensor_Scalar": _pow,
    "pow.Tensor_Tensor": _pow,
    "exp2.default": _elementwise("pow2"),
    "maximum.default": _elementwise("max"),
    "minimum.default": _elementwise("min"),
    "clamp.default": _clamp,
    "clamp_min.default": _clamp,
    "softplus.default": _softplus,
    "gelu.default": _gelu,
    "where.self": _elementwise("where"),
    "where.ScalarOther": _elementwise("where"),
    "where.ScalarSelf": _elementwise("where"),
    "masked_fill.Scalar": _masked_fill,
    "masked_fill.Tensor": _masked_fill,
    "linear.default": _linear,
    "addmm.default": _addmm,
    "mm.default": _matmul,
    "mv.default": _matmul,
    "bmm.default": _matmul,
    "matmul.default": _matmul,
    "softmax.int": _softmax,
    "_softmax.default": _softmax,
    "_safe_softmax.default": _softmax,
    "layer_norm.default": _layer_norm,
    "rms_norm.default": _rms_norm,
    "scaled_dot_product_attention.default": _sdpa,
    "embedding.default": _embedding,
    "view.default": _as_given(of.reshape),
    "reshape.default": _as_given(of.reshape),
    "_unsafe_view.default": _as_given(of.reshape),
    "permute.default": _as_given(of.permute),
    "transpose.int": _as_given(of.transpose),
    "t.default": _t,
    "numpy_T.default": _t,
    "unsqueeze.default": _as_given(of.unsqueeze),
    "squeeze.default": _squeeze,
    "squeeze.dim": _squeeze,
    "squeeze.dims": _squeeze,
    "flatten.using_ints": _flatten,
    "unflatten.int": _unflatten,
    "expand.default": _expand,
    "repeat_interleave.self_int": _repeat_interleave,
    "slice.Tensor": _slice,
    "narrow.default": lambda x, axis, start, length, *, at: of.slice_of(
        x, axis, start, start + length, 1, at),
    "select.int": _as_given(of.select),
    "split.Tensor": _split,
    "split.sizes": _split,
    "split_with_sizes.default": _split,
    "chunk.default": _chunk,
    "unbind.int": _unbind,
    "cat.default": _cat,
    "concat.default": _cat,
    "stack.default": _stack,
    "sum.dim_IntList": _reduced("sum"),
    "sum.default": _reduced("sum"),
    "mean.dim": _reduced("mean"),
    "mean.default": _reduced("mean"),
    "amax.default": _reduced("max"),
    "max.default": _reduced("max"),
    "slice_scatter.default": rows.slice_scatter,
    "select_scatter.default": rows.select_scatter,
    "index_copy.default": rows.index_copy,
    "index_put.default": rows.index_put,
    "index.Tensor": rows.index,
    "index_select.default": rows.index_select,
    "copy.default": _copy,
    "zeros_like.default": _filled(0.0),
    "ones_like.default": _filled(1.0),
    "full_like.default": _full_like,
    "var.dim": _var,
    "var.correction": lambda x, axes=None, *, correction=1, keepdim=False, at: _var(
        x, axes, keepdim=keepdim, correction=1 if correction is None else correction, at=at),
    "conv1d.default": windows.conv,
    "conv2d.default": windows.conv,
    "conv3d.default": windows.conv,
    "conv1d.padding": windows.conv,
    "conv2d.padding": windows.conv,
    "conv3d.padding": windows.conv,
    "convolution.default": windows.convolution,
    **{f"{kind}_pool{n}d.default": write for n in (1, 2, 3) for kind, write in (
        ("max", windows.max_pool(n)), ("avg", windows.avg_pool(n)),
        ("adaptive_avg", windows.adaptive("mean")), ("adaptive_max", windows.adaptive("max")),
    )},
    "pad.default": windows.pad,
    "constant_pad_nd.default": lambda x, pads, fill=0.0, *, at: windows.pad(
        x, pads, "constant", fill, at=at),
    "unfold.default": windows.unfold,
    "batch_norm.default": windows.batch_norm,
    "_native_batch_norm_legit_functional.default": windows.batch_norm_in_training,
    "_native_batch_norm_legit_no_training.default": windows.native_batch_norm,
    "cumsum.default": chosen.cumsum,
    "topk.default": chosen.topk,
    "max.dim": chosen.max_of_axis,
    "argmax.default": chosen.argmax,
    "argmin.default": chosen.argmin,
    "gather.default": chosen.gather,
    "scatter.src": chosen.scatter,
    "scatter.value": chosen.scatter,
    "scatter_add.default": chosen.scatter_add,
    "index_add.default": chosen.index_add,
    "one_hot.default": chosen.one_hot,
    "new_zeros.default": chosen.new_filled(0.0),
    "new_ones.default": chosen.new_filled(1.0),
    "new_full.default": chosen.new_filled(None),
    "dropout.default": _dropout,
    "native_dropout.default": _native_dropout,
    **{f"{name}.default": _same for name in (
        "alias", "clone", "contiguous", "detach", "lift_fresh_copy", "type_as", "_to_copy",
    )},
    "to.dtype": _same,
    "to.dtype_layout": _same,
    "to.device": _same,
}  # fmt: skip
"""Operators of the aten library by name and overload."""
