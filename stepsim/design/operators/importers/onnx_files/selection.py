"""Operators of ONNX whose whole numbers choose rows and entries."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from stepsim.design.operators.importers import selection, values as of
from stepsim.design.operators.importers.onnx_files.inputs import (
    Attributes,
    Inputs,
    first_input,
    given_inputs,
    input_at,
    whole_numbers,
)
from stepsim.design.operators.importers.values import Place, Unsupported, Value


def _reduction(attributes: Attributes) -> str:
    given = attributes.get("reduction", "none")
    return given.decode() if isinstance(given, bytes) else str(given)


def gather(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x, indices = given_inputs(inputs)
    return selection.take(x, attributes.get("axis", 0), indices, at)


def gather_nd(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x, indices = given_inputs(inputs)
    if attributes.get("batch_dims", 0) or indices.shape[-1] != 1:
        raise Unsupported("positions along several axes; give numbers along the first one")
    return selection.take(x, 0, _shaped(indices, indices.shape[:-1], at), at)


def _shaped(indices: Value, shape: tuple[int, ...], at: Place) -> Value:
    """Numbers with other axes; those that are known stay known."""
    if indices.is_constant:
        return of.constant(np.reshape(indices.array, shape), at)
    return of.reshape(indices, shape, at)


def gather_elements(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x, indices = given_inputs(inputs)
    return selection.gather(x, attributes.get("axis", 0), indices, at)


def scatter_elements(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x, indices, source = given_inputs(inputs)
    how = _reduction(attributes)
    if how not in ("none", "add"):
        raise Unsupported(f"reduction is '{how}'; known are 'none' and 'add'")
    return selection.scatter(x, attributes.get("axis", 0), indices, source, how == "add", at)


def scatter_nd(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x, indices, new = given_inputs(inputs)
    how, depth = _reduction(attributes), indices.shape[-1]
    if new.shape != (*indices.shape[:-1], *x.shape[depth:]):
        raise ValueError("updates are not one for each position")
    if how == "add" and depth == 1:
        rows = _shaped(indices, (prod(indices.shape),), at)
        return selection.add_rows(x, 0, rows, of.reshape(new, (*rows.shape, *x.shape[1:]), at), at)
    if how != "none":
        raise Unsupported(f"reduction is '{how}'; known are 'none', and 'add' of rows")
    if not indices.is_constant:
        raise Unsupported("positions that depend on an input; addresses are fixed when the graph "
                          "is made")  # fmt: skip
    # Whole planes in front, and one axis in which the positions are neighbors.
    places = indices.array.reshape(-1, depth)
    moving = [i for i in range(places.shape[1]) if len(set(places[:, i].tolist())) != x.shape[i]]
    axis = moving[-1] if moving else 0
    rows_of_axis = sorted(set(places[:, axis].tolist()))
    first, last = _neighbors(np.array(rows_of_axis), x.shape[axis])
    shape = [*x.shape[:axis], last - first, *x.shape[axis + 1 :]]
    if prod(shape[:depth]) != len(places):
        raise Unsupported("positions that are not rows of one axis")
    grid = np.meshgrid(
        *(np.arange(first, last) if i == axis else np.arange(x.shape[i])
          for i in range(places.shape[1])), indexing="ij",
    )  # fmt: skip
    if not np.array_equal(np.stack([part.ravel() for part in grid], 1), places):
        raise Unsupported("positions that are not rows of one axis")
    return of.replaced_rows(x, of.reshape(new, shape, at), axis, first, last, at)


def _neighbors(positions: Any, size: int) -> tuple[int, int]:
    rows = [int(row) % size for row in positions.reshape(-1)]
    if rows != list(range(rows[0], rows[0] + len(rows))):
        raise Unsupported("positions that are not adjacent")
    return rows[0], rows[0] + len(rows)


def top_k(inputs: Inputs, attributes: Attributes, at: Place) -> tuple[Value, Value]:
    count = whole_numbers(inputs[1], "a number of values")
    assert count is not None
    least = not attributes.get("largest", 1)
    return selection.largest(first_input(inputs), count[0], attributes.get("axis", -1), at, least)


def arg_max(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    if attributes.get("select_last_index", 0):
        raise Unsupported("the last of equal values; known is the first")
    x, axis = first_input(inputs), attributes.get("axis", 0)
    _, found = selection.largest(x, 1, axis, at)
    shape = [size for i, size in enumerate(x.shape) if i != of.axis_of(axis, len(x.shape))]
    return found if attributes.get("keepdims", 1) else of.reshape(found, shape, at)


def one_hot(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    indices, depth, numbers = given_inputs(inputs)
    count = whole_numbers(depth, "a number of classes")
    assert count is not None
    if not numbers.is_constant or attributes.get("axis", -1) not in (-1, len(indices.shape)):
        raise Unsupported("values that are an input, or an axis other than the last")
    off, on = (of.constant(float(number), at) for number in np.ravel(numbers.array))
    return of.elementwise("where", (selection.one_hot(indices, count[0], at), on, off), at)


def cum_sum(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x, axis = first_input(inputs), whole_numbers(input_at(inputs, 1), "an axis")
    assert axis is not None
    if attributes.get("exclusive", 0) or attributes.get("reverse", 0):
        raise Unsupported("sums without their own value, or from the end; known are plain ones")
    return of.made("cumsum", (x,), x.shape, at, axis=of.axis_of(axis[0], len(x.shape)))


def einsum(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    """A sum of products over named axes."""
    given = given_inputs(inputs)
    equation = attributes["equation"].decode().replace(" ", "")
    operands, arrow, output = equation.partition("->")
    labels = operands.split(",")
    if not arrow:
        joined = operands.replace(",", "")
        output = "".join(sorted(label for label in set(joined) if joined.count(label) == 1))
    if "." in equation or any(len(set(names)) != len(names) for names in labels):
        raise Unsupported(f"the equation {equation}; known are letters, each once in an operand")
    sizes = {name: n for x, names in zip(given, labels, strict=True)
             for name, n in zip(names, x.shape, strict=True)}  # fmt: skip
    shape = [sizes[name] for name in output]
    return of.made("einsum", given, shape, at, operands=tuple(labels), output=output)
