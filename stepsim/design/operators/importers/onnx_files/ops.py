"""The translation of each ONNX operator. The package onnx is not imported here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from stepsim.design.operators.importers import logic, values as of
from stepsim.design.operators.importers.onnx_files import norms, selection as chosen, windows
from stepsim.design.operators.importers.onnx_files.inputs import (
    Attributes,
    Inputs,
    Writer,
    first_input,
    given_inputs,
    input_at,
    type_of,
    whole_numbers,
)
from stepsim.design.operators.importers.values import Place, Unsupported, Value


def _elementwise(function: str) -> Writer:
    def write(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
        found = given_inputs(inputs)
        made = found[0]
        if len(found) != 2 and function in ("max", "min", "add"):
            for x in found[1:]:
                made = of.elementwise(function, (made, x), at)
            return made
        return of.elementwise(function, found, at)

    return write


def _same(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    return first_input(inputs)


def _div(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    if all(type_of(x) == "whole" for x in given_inputs(inputs)):
        raise Unsupported("a quotient of whole numbers, which is rounded")
    return of.elementwise("div", given_inputs(inputs), at)


def _dropout(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    training = input_at(inputs, 2)
    if training is not None and training.number != 0:
        raise Unsupported("it drops values at random; export the model for inference")
    return first_input(inputs)


def _pow(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x, power = given_inputs(inputs)
    return of.power(x, power.number, power.number, at)


def _gelu(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    exact = attributes.get("approximate", b"none") in (b"none", "none")
    return of.elementwise("gelu" if exact else "gelu_tanh", given_inputs(inputs), at)


def _swish(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    if attributes.get("alpha", 1.0) != 1.0:
        raise Unsupported(f"alpha is {attributes['alpha']}")
    return of.elementwise("silu", given_inputs(inputs), at)


def _clip(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    least, most = input_at(inputs, 1), input_at(inputs, 2)
    for name, bound in (("min", least), ("max", most)):
        if bound is not None and bound.shape:
            raise ValueError(f"{name} has shape {bound.shape}, expected a scalar")
    return of.clamp(first_input(inputs), least, most, at)


def _cast(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    floats = (1, 10, 11, 16)  # TensorProto: FLOAT, FLOAT16, DOUBLE, BFLOAT16
    if attributes["to"] not in floats:
        raise Unsupported("it converts to whole numbers or bools")
    return first_input(inputs)


def _matmul(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x, y = given_inputs(inputs)
    if len(x.shape) == 1 and len(y.shape) == 1:
        raise Unsupported("a product of two vectors")
    # A weight that is read transposed is a linear layer, as PyTorch writes it.
    turned = y.op == "permute" and y.inputs[0].op == "weight" and y.attributes["order"] == (1, 0)
    return of.linear(x, y.inputs[0], None, at) if turned else of.matmul(x, y, at)


def _gemm(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x, y = given_inputs(inputs)[:2]
    for name, operand in (("A", x), ("B", y)):
        if len(operand.shape) != 2:
            raise ValueError(f"{name} has shape {operand.shape}, expected two axes")
    if attributes.get("transA", 0):
        x = of.permute(x, (1, 0), at)
    made = of.linear(x, y, None, at) if attributes.get("transB", 0) else of.matmul(x, y, at)
    made = of.scaled(made, attributes.get("alpha", 1.0), at)
    bias, beta = input_at(inputs, 2), attributes.get("beta", 1.0)
    if bias is None:
        return made
    if np.broadcast_shapes(bias.shape, made.shape) != made.shape:
        raise ValueError(
            f"C has shape {bias.shape}, expected one that is broadcast to {made.shape}"
        )
    if beta == 0.0:
        return made
    return of.elementwise("add", (made, of.scaled(bias, beta, at)), at)


def _softmax(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x = first_input(inputs)
    axis = of.axis_of(attributes.get("axis", -1), len(x.shape))
    return of.made("softmax", (x,), x.shape, at, axis=axis)


def _mean(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    given = given_inputs(inputs)
    total = given[0]
    for x in given[1:]:
        total = of.elementwise("add", (total, x), at)
    return of.elementwise("mul", (total, of.constant(1 / len(given))), at)


def _logical(function: Callable[..., Value]) -> Writer:
    def write(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
        return function(*given_inputs(inputs), at)

    return write


def _reduced(function: str) -> Writer:
    def write(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
        x = first_input(inputs)
        axes = attributes.get("axes") or whole_numbers(input_at(inputs, 1), "axes")
        if not axes and attributes.get("noop_with_empty_axes", 0):
            return x
        return of.reduce(function, x, axes or (), bool(attributes.get("keepdims", 1)), at)

    return write


def _reshape(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x = first_input(inputs)
    sizes = whole_numbers(inputs[1], "sizes")
    assert sizes is not None
    if not attributes.get("allowzero", 0):
        sizes = [x.shape[i] if size == 0 else size for i, size in enumerate(sizes)]
    return of.reshape(x, sizes, at)


def _flatten(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x, axis = first_input(inputs), attributes.get("axis", 1)
    if axis != len(x.shape):
        axis = of.axis_of(axis, len(x.shape))
    return of.reshape(x, (prod(x.shape[:axis]), -1), at)


def _transpose(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x = first_input(inputs)
    order = list(attributes.get("perm") or range(len(x.shape))[::-1])
    if sorted(order) != list(range(len(x.shape))):
        raise ValueError(f"perm is {order}")
    return of.permute(x, order, at)


def _squeeze(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x = first_input(inputs)
    axes = attributes.get("axes") or whole_numbers(input_at(inputs, 1), "axes")
    if axes is None:
        axes = [i for i, n in enumerate(x.shape) if n == 1]
    gone = of.axes_of(axes, len(x.shape))
    return of.reshape(x, [n for i, n in enumerate(x.shape) if i not in gone], at)


def _unsqueeze(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x = first_input(inputs)
    axes = attributes.get("axes") or whole_numbers(input_at(inputs, 1), "axes") or []
    rank = len(x.shape) + len(axes)
    new = of.axes_of(axes, rank)
    own = iter(x.shape)
    return of.reshape(x, [1 if i in new else next(own) for i in range(rank)], at)


def _expand(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x = first_input(inputs)
    sizes = whole_numbers(inputs[1], "sizes")
    assert sizes is not None
    return of.expand(x, np.broadcast_shapes(x.shape, tuple(sizes)), at)


def _slice(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x = first_input(inputs)
    starts, stops = whole_numbers(inputs[1], "starts"), whole_numbers(inputs[2], "ends")
    assert starts is not None
    assert stops is not None
    axes = whole_numbers(input_at(inputs, 3), "axes") or list(range(len(starts)))
    steps = whole_numbers(input_at(inputs, 4), "steps") or [1] * len(starts)
    for axis, start, stop, step in zip(axes, starts, stops, steps, strict=True):
        if step < 1:
            raise Unsupported(f"it runs backward, in steps of {step}")
        kept = range(x.shape[axis])[start:stop]
        x = of.slice_of(x, axis, kept.start, kept.stop, min(step, max(len(kept), 1)), at)
    return x


def _split(inputs: Inputs, attributes: Attributes, at: Place) -> tuple[Value, ...]:
    x, axis = first_input(inputs), attributes.get("axis", 0)
    sizes = attributes.get("split") or whole_numbers(input_at(inputs, 1), "sizes")
    if not sizes:
        pieces = attributes["outputs"]
        if attributes.get("num_outputs", pieces) != pieces:
            raise ValueError(f"num_outputs is {attributes['num_outputs']} of {pieces} results")
        size = -(-x.shape[axis] // pieces)
        sizes = [min(size, x.shape[axis] - i * size) for i in range(pieces)]
    if len(sizes) != attributes["outputs"] or sum(sizes) != x.shape[axis] or min(sizes) < 0:
        raise ValueError(
            f"sizes are {[*sizes]}, expected {attributes['outputs']} with the sum {x.shape[axis]}"
        )
    return of.split(x, sizes, axis, at)


def _concat(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    kept = [x for x in given_inputs(inputs) if 0 not in x.shape]
    return of.concat(kept, attributes["axis"], at)


def _attention(inputs: Inputs, attributes: Attributes, at: Place) -> tuple[Value, ...]:
    q, k, v = (x for x in inputs[:3] if x is not None)
    if len(q.shape) not in (3, 4):
        raise ValueError(f"Q has shape {q.shape}, expected 3 or 4 axes")
    mask, past_k, past_v = (input_at(inputs, i) for i in (3, 4, 5))
    if attributes.get("softcap", 0.0) or attributes.get("qk_matmul_output_mode", 0):
        raise Unsupported("softcap and scores as a result are not known")
    if input_at(inputs, 6) is not None:
        raise Unsupported("lengths of the keys (nonpad_kv_seqlen); give a mask")
    if (past_k is None) != (past_v is None):
        raise ValueError("of past keys and values, one is given")
    if {"left_window_size", "right_window_size"} & set(attributes):
        raise Unsupported("windows of the keys by attributes; give a mask")
    flat = len(q.shape) == 3
    if flat:
        heads, groups = attributes["q_num_heads"], attributes["kv_num_heads"]
        q, k, v = (
            of.transpose(of.reshape(x, (*x.shape[:2], n, -1), at), 1, 2, at)
            for x, n in ((q, heads), (k, groups), (v, groups))
        )
    if past_k is not None and past_v is not None:
        k, v = (of.concat(pair, 2, at) for pair in ((past_k, k), (past_v, v)))
        for joined in (k, v):
            joined.attributes = {**joined.attributes, "cache": True}
    causal = bool(attributes.get("is_causal", 0))
    past = past_k.shape[2] if past_k is not None else 0
    operands, seen = [q, k, v], None
    if mask is not None:
        if mask.shape[-1] != k.shape[2]:
            raise Unsupported(f"a mask of {mask.shape[-1]} of {k.shape[2]} keys; give all columns")
        bools = type_of(mask) == "bool"
        if causal and (bools or mask.is_constant):
            # One mask, of which it is known, or found in a run, whether a query sees a key.
            mask = logic.with_causal(mask, bools, past, (q.shape[2], k.shape[2]), at)
            causal = False
        if bools and not mask.is_constant:
            seen, mask = mask, logic.added_mask(mask, at)
        operands.append(mask)
    made = of.made(
        "sdpa", operands, (*q.shape[:-1], v.shape[-1]), at,
        causal=causal, scale=attributes.get("scale"), enable_gqa=True,
        start=past if causal else None, window=None,
    )  # fmt: skip
    if seen is not None:
        made = logic.seen_rows(made, seen, at)
    if flat:
        turned = of.transpose(made, 1, 2, at)
        made = of.reshape(turned, (*turned.shape[:2], -1), at)
    return made, k, v


def _rotary(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x, cos, sin = (x for x in inputs[:3] if x is not None)
    if input_at(inputs, 3) is not None:
        raise Unsupported("tables with position_ids; give the rows of cos and sin")
    flat = len(x.shape) == 3
    if flat:
        x = of.reshape(x, (*x.shape[:2], attributes["num_heads"], -1), at)
    if attributes.get("rotary_embedding_dim", 0) not in (0, x.shape[-1]):
        raise Unsupported("it turns a part of the columns")
    # [batch, tokens, width / 2], beside [batch, heads, tokens, width] or with heads inside.
    axis = 2 if flat else 1
    tables = [of.reshape(t, (*t.shape[:axis], 1, *t.shape[axis:]), at) for t in (cos, sin)]
    pairs = "interleaved" if attributes.get("interleaved", 0) else "half"
    made = of.made("rotary", (x, *tables), x.shape, at, pairs=pairs)
    return of.reshape(made, (*x.shape[:2], -1), at) if flat else made


OPS: Mapping[str, Writer] = {
    **{name: _elementwise(function) for name, function in (
        ("Add", "add"), ("Sub", "sub"), ("Mul", "mul"), ("Neg", "neg"),
        ("Abs", "abs"), ("Exp", "exp"), ("Log", "log"), ("Sqrt", "sqrt"), ("Tanh", "tanh"),
        ("Sin", "sin"), ("Cos", "cos"),
        ("Reciprocal", "reciprocal"), ("Sigmoid", "sigmoid"), ("Relu", "relu"),
        ("Softplus", "softplus"), ("Max", "max"), ("Min", "min"), ("Sum", "add"),
        ("Where", "where"), ("Equal", "eq"), ("Less", "lt"), ("LessOrEqual", "le"),
        ("Greater", "gt"), ("GreaterOrEqual", "ge"),
    )},
    "And": _logical(logic.both),
    "Or": _logical(logic.either),
    "Not": _logical(logic.negated),
    "Mean": _mean,
    "Pow": _pow,
    "Gelu": _gelu,
    "Swish": _swish,
    "Clip": _clip,
    "Cast": _cast,
    "Identity": _same,
    "Div": _div,
    "Dropout": _dropout,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Softmax": _softmax,
    "LayerNormalization": norms.layer_norm,
    "RMSNormalization": norms.rms_norm,
    "SimplifiedLayerNormalization": norms.rms_norm,
    "ReduceSum": _reduced("sum"),
    "ReduceMean": _reduced("mean"),
    "ReduceMax": _reduced("max"),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Expand": _expand,
    "Slice": _slice,
    "Split": _split,
    "Concat": _concat,
    "Einsum": chosen.einsum,
    "Conv": windows.conv,
    "MaxPool": windows.max_pool,
    "AveragePool": windows.average_pool,
    "GlobalAveragePool": windows.of_all("mean"),
    "GlobalMaxPool": windows.of_all("max"),
    "BatchNormalization": norms.batch_norm,
    "Pad": windows.pad,
    "CumSum": chosen.cum_sum,
    "TopK": chosen.top_k,
    "ArgMax": chosen.arg_max,
    "OneHot": chosen.one_hot,
    "Gather": chosen.gather,
    "GatherElements": chosen.gather_elements,
    "GatherND": chosen.gather_nd,
    "ScatterElements": chosen.scatter_elements,
    "ScatterND": chosen.scatter_nd,
    "Attention": _attention,
    "RotaryEmbedding": _rotary,
}  # fmt: skip
"""Operators of the domains ai.onnx and com.microsoft, by name."""
