"""Operators of ONNX over windows: convolutions, pooling, padding."""

from __future__ import annotations

from stepsim.design.operators.importers import values as of, windows
from stepsim.design.operators.importers.onnx_files.inputs import (
    Attributes,
    Inputs,
    Writer,
    first_input,
    given_inputs,
    input_at,
    whole_numbers,
)
from stepsim.design.operators.importers.values import Place, Unsupported, Value


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _shaped(
    x: Value, attributes: Attributes, widths: list[int]
) -> tuple[list[int], list[tuple[int, int]], list[int]]:
    """Strides, padding and dilations, with the defaults of ONNX."""
    axes = len(widths)
    steps = list(attributes.get("strides") or [1] * axes)
    apart = list(attributes.get("dilations") or [1] * axes)
    kind = _text(attributes.get("auto_pad", "NOTSET"))
    if kind in ("SAME_UPPER", "SAME_LOWER"):
        late = kind == "SAME_LOWER"
        return steps, windows.same_pads(x.shape[2:], widths, steps, apart, late), apart
    given = list(attributes.get("pads") or [0] * 2 * axes)
    pads = [(0, 0)] * axes if kind == "VALID" else list(
        zip(given[:axes], given[axes:], strict=True)
    )  # fmt: skip
    return steps, pads, apart


def conv(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x, w = given_inputs(inputs)[:2]
    if not len(x.shape) == len(w.shape) > 2:
        raise ValueError("input and weight have two axes and those of the window")
    steps, pads, apart = _shaped(x, attributes, list(w.shape[2:]))
    return windows.conv(x, w, input_at(inputs, 2), steps, pads, apart, attributes.get("group", 1),
                        at)  # fmt: skip


def max_pool(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x, widths = first_input(inputs), list(attributes["kernel_shape"])
    if attributes["outputs"] > 1:
        raise Unsupported("places of the largest values; write the model without this result")
    steps, pads, apart = _shaped(x, attributes, widths)
    ceil = bool(attributes.get("ceil_mode", 0))
    return windows.pool(x, "max", widths, steps, pads, apart, ceil, at)


def average_pool(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x, widths = first_input(inputs), list(attributes["kernel_shape"])
    steps, pads, apart = _shaped(x, attributes, widths)
    if set(apart) != {1}:
        raise Unsupported(f"dilations are {apart}; known are windows of adjacent places")
    ceil, padding = (bool(attributes.get(name, 0)) for name in ("ceil_mode", "count_include_pad"))
    return windows.average(x, widths, steps, pads, ceil, padding, None, at)


def of_all(combine: str) -> Writer:
    def write(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
        x = first_input(inputs)
        return of.reduce(combine, x, range(2, len(x.shape)), True, at)

    return write


def pad(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x, given = first_input(inputs), whole_numbers(inputs[1], "pads")
    assert given is not None
    mode = _text(attributes.get("mode", "constant"))
    fill = input_at(inputs, 2)
    number = 0.0 if fill is None else fill.number
    if mode != "constant" or number is None:
        raise Unsupported(f"mode is '{mode}', or the number depends on an input; known is "
                          "'constant' with a number of the file")  # fmt: skip
    axes = whole_numbers(input_at(inputs, 3), "axes")
    if axes is None:
        axes = list(range(len(x.shape)))
    pads = [(0, 0)] * len(x.shape)
    for i, axis in enumerate(axes):
        pads[axis] = given[i], given[i + len(axes)]
    return windows.padded(x, pads, number, at)
