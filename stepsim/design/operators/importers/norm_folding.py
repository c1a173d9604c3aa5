"""Batch norms in inference: folded into the convolution in front of them, or an affine map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from stepsim.design.operators.importers import values as of
from stepsim.design.operators.importers.values import Value, values_before


def folded(outputs: Sequence[Value]) -> list[Value]:
    """The same outputs without batch norms.

    A norm is folded where the convolution has no other reader and known weights: these are scaled,
    and a bias is added, under the name of the weights with ``bias`` at its end.
    """
    order = list(values_before(outputs))
    readers = Counter(id(x) for value in order for x in value.inputs)
    readers.update(id(value) for value in outputs)
    found: dict[int, Value] = {}
    for value in order:
        inputs = tuple(found[id(x)] for x in value.inputs)
        if value.op == "batch_norm":
            x, scale, shift = inputs
            alone = x.op == "conv" and readers[id(value.inputs[0])] == 1
            known = all(part.array is not None for part in x.inputs[1:])
            found[id(value)] = _folded(value, x) if alone and known else of.elementwise(
                "add", (of.elementwise("mul", (x, scale), value.place), shift), value.place
            )  # fmt: skip
        elif any(a is not b for a, b in zip(inputs, value.inputs, strict=True)):
            found[id(value)] = Value(
                value.op, inputs, value.shape, value.attributes, value.place, value.array
            )
        else:
            found[id(value)] = value
    return [found[id(value)] for value in outputs]


def _folded(norm: Value, conv: Value) -> Value:
    x, w, *bias = conv.inputs
    scale, shift = (np.asarray(part.array).ravel() for part in norm.inputs[1:])
    gain = scale.reshape(-1, *(1,) * (len(w.shape) - 1))
    before = bias[0].array if bias else 0.0
    name = w.attributes.get("name")
    of_bias = bias[0].attributes.get("name") if bias else name and _bias_name(str(name))
    weight = Value(w.op, (), w.shape, w.attributes, w.place, (w.array * gain).astype(np.float32))
    total = (shift + before * scale).astype(np.float32)
    added = Value("weight", (), total.shape, {"name": of_bias}, norm.place, total)
    return Value("conv", (x, weight, added), conv.shape, conv.attributes, conv.place)


def _bias_name(weight: str) -> str:
    return f"{weight.removesuffix('weight')}bias" if weight.endswith("weight") else f"{weight}.bias"
