"""ONNX models with changes that leave a whole file: other operators, wires, attributes, sizes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from stepsim.design.operators.importers.onnx_files.ops import OPS

__all__ = ["change"]

_NUMBERS = (0, 1, -1, 2, 3, 7, -7, 64, 2**31 - 1, -(2**31), 2**62, -(2**63))
_SIZES = (0, 1, 2, 3, 5, 8, 64, -1, 2**40)
_REALS = (0.0, -1.0, float("nan"), float("inf"), 1e30)
_TEXTS = (b"", b"none", b"add", b"\xff", b"tanh")
_TYPES = (np.float32, np.int64, np.int32, np.float16, np.bool_)


def change(rng: random.Random, onnx: Any, model: Any) -> None:
    """Change one to three things of a model."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        rng.choice(_CHANGES)(rng, onnx, model.graph)


def _operator(rng: random.Random, onnx: Any, graph: Any) -> None:
    rng.choice(list(graph.node)).op_type = rng.choice(sorted(OPS))


def _values(graph: Any) -> list[str]:
    made = [name for node in graph.node for name in node.output]
    return [*(one.name for one in [*graph.input, *graph.initializer]), *made, ""]


def _input(rng: random.Random, onnx: Any, graph: Any) -> None:
    node = rng.choice(list(graph.node))
    at = rng.randrange(len(node.input) + 1)
    if at == len(node.input):
        node.input.append(rng.choice(_values(graph)))
    elif rng.random() < 0.5:
        del node.input[at]
    else:
        node.input[at] = rng.choice(_values(graph))


def _result(rng: random.Random, onnx: Any, graph: Any) -> None:
    node = rng.choice(list(graph.node))
    if node.output:
        node.output[rng.randrange(len(node.output))] = rng.choice(_values(graph))


def _attribute(rng: random.Random, onnx: Any, graph: Any) -> None:
    node = rng.choice(list(graph.node))
    if not node.attribute:
        return
    at = rng.randrange(len(node.attribute))
    if rng.random() < 0.3:
        del node.attribute[at]
        return
    given, kinds = node.attribute[at], onnx.AttributeProto
    if given.type == kinds.INT:
        given.i = rng.choice(_NUMBERS)
    elif given.type == kinds.FLOAT:
        given.f = rng.choice(_REALS)
    elif given.type == kinds.STRING:
        given.s = rng.choice(_TEXTS)
    elif given.type == kinds.INTS and given.ints:
        given.ints[rng.randrange(len(given.ints))] = rng.choice(_NUMBERS)


def _shape(rng: random.Random, onnx: Any, graph: Any) -> None:
    sizes = rng.choice(list(graph.input)).type.tensor_type.shape.dim
    if sizes and rng.random() < 0.7:
        sizes[rng.randrange(len(sizes))].dim_value = rng.choice(_SIZES)
    elif sizes and rng.random() < 0.5:
        del sizes[-1]
    else:
        sizes.add().dim_value = rng.choice((1, 2, 3))


def _numbers(rng: random.Random, onnx: Any, graph: Any) -> None:
    if not graph.initializer:
        return
    held = rng.choice(list(graph.initializer))
    array = onnx.numpy_helper.to_array(held).copy()
    how = rng.randrange(5)
    if how == 0:
        array = array.reshape(-1)
    elif how == 1:
        array = array[np.newaxis]
    elif how == 2 and array.ndim:
        array = array[:-1]
    elif how == 3 and array.size:
        array = array.reshape(-1) if array.ndim == 0 else array
        array.flat[rng.randrange(array.size)] = (
            rng.choice(_NUMBERS) if array.dtype == np.int64 else rng.choice((0, 1))
        )
    else:
        array = array.astype(rng.choice(_TYPES))
    held.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(array), held.name))


_CHANGES: tuple[Callable[[random.Random, Any, Any], None], ...] = (
    _operator, _input, _input, _result, _attribute, _attribute, _shape, _numbers, _numbers,
)  # fmt: skip
