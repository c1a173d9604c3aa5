"""Norms of ONNX, with the rules of ONNX for the shapes of their weights."""

from __future__ import annotations

from stepsim.design.operators.importers import values as of, windows
from stepsim.design.operators.importers.onnx_files.inputs import (
    Attributes,
    Inputs,
    first_input,
    given_inputs,
    input_at,
)
from stepsim.design.operators.importers.values import Place, Unsupported, Value


def layer_norm(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x, axes, eps = _norm(inputs, attributes)
    scale, bias = _weight(x, inputs, 1, axes, "Scale", at), _weight(x, inputs, 2, axes, "B", at)
    return of.layer_norm(x, scale, bias, axes, eps, at)


def rms_norm(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    x, axes, eps = _norm(inputs, attributes)
    return of.rms_norm(x, _weight(x, inputs, 1, axes, "scale", at), axes, eps, at)


def batch_norm(inputs: Inputs, attributes: Attributes, at: Place) -> Value:
    if attributes.get("training_mode", 0):
        raise Unsupported("it computes statistics of the batch; export the model for inference")
    x, *parts = given_inputs(inputs)
    channels = x.shape[1] if len(x.shape) > 1 else 1
    for name, part in zip(("scale", "B", "input_mean", "input_var"), parts, strict=True):
        if part.shape != (channels,):
            raise ValueError(
                f"{name} has shape {part.shape}, expected one number per channel, ({channels},)"
            )
    scale, bias, mean, var = parts
    return windows.batch_norm(x, scale, bias, mean, var, attributes.get("epsilon", 1e-5), at)


def _norm(inputs: Inputs, attributes: Attributes) -> tuple[Value, int, float]:
    """The input, how many axes the norm is over, from ``axis`` to the last, and epsilon."""
    x = first_input(inputs)
    rank = len(x.shape)
    axes = rank - of.axis_of(attributes.get("axis", -1), rank)
    return x, axes, attributes.get("epsilon", 1e-5)


def _weight(x: Value, inputs: Inputs, number: int, axes: int, name: str, at: Place) -> Value | None:
    """A weight with the shape of the axes of the norm; None if it is left out.

    ONNX takes any shape that is broadcast to that of the input without changing it.
    """
    w = input_at(inputs, number)
    own = x.shape[len(x.shape) - axes :]
    if w is None or w.shape == own:
        return w
    padded = (*(1,) * (len(x.shape) - len(w.shape)), *w.shape)
    if len(padded) > len(x.shape) or any(
        size not in (1, whole) for size, whole in zip(padded, x.shape, strict=True)
    ):
        raise ValueError(
            f"{name} has shape {w.shape}, expected {own}, or one that is broadcast to the shape "
            f"{x.shape} of the input"
        )
    if padded[-axes:] != own or set(padded[:-axes]) - {1}:
        raise Unsupported(f"{name} has shape {w.shape}, which is broadcast; known is {own}")
    return of.reshape(w, own, at)
