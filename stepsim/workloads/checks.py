"""Checks shared by several workloads; each returns the problem as text, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from math import isqrt
from typing import TYPE_CHECKING, Any

from stepsim.deferred import deferred

if TYPE_CHECKING:
    import numpy as np

    from stepsim.workloads import models
    from stepsim.workloads.models import Model
else:
    models = deferred("stepsim.workloads.models")

_SHOWN = 3


def divides(name: str, value: int, whole: int, what: str) -> Iterator[tuple[str, str]]:
    """A problem unless ``value`` divides ``whole``, which ``what`` describes.

    The text of the problem has the nearest divisors.
    """
    if whole % value:
        lower = [n for n in range(1, isqrt(whole) + 1) if whole % n == 0]
        divisors = {*lower, *(whole // n for n in lower)}
        near = sorted(sorted(divisors, key=lambda n: (abs(n - value), n))[:_SHOWN])
        nearest = "near ones are" if len(near) > 1 else "the nearest is"
        yield (
            name,
            f"expected a divisor of {what}, found {value}; {nearest} {', '.join(map(str, near))}",
        )


def reserved_tokens(
    max_length: int | None, lengths: np.ndarray[Any, Any], kv_tile: int
) -> Iterator[tuple[str, str]]:
    """A problem unless the cache of a request, a multiple of a tile, holds the longest request."""
    if max_length is None:
        return
    longest = int(lengths.max())
    if max_length % kv_tile or max_length < longest + 1:
        yield (
            "max_length",
            f"expected a multiple of the KV tile of {kv_tile} that holds the longest request of "
            f"{longest} tokens and the new one, found {max_length}; the smallest is "
            f"{-(-(longest + 1) // kv_tile) * kv_tile}",
        )


def windowed_layer(model: Model, layer: int | None) -> Iterator[tuple[str, str]]:
    """A problem if a layer is given that the model does not have, or that is as all others."""
    if layer is None:
        return
    if model.windows is None or model.windows.layers is None:
        yield (
            "attention_layer",
            f"expected no layer, since the attention of all layers of {model.name} is alike, found "
            f"{layer}; leave it out",
        )
    elif model.layers is not None and layer >= model.layers:
        yield (
            "attention_layer",
            f"expected one of the {model.layers} layers of {model.name} from 0, found {layer}",
        )


def attended(
    model: Model, layer: int | None, lengths: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """The cached tokens that requests of these lengths attend to in a layer.

    A window of ``w`` tokens has the new one and ``w - 1`` cached ones, as in the masks of
    transformers, where a key is seen if ``key > query - w``.
    """
    window = model.window(layer)
    # A bound on Python's ints: numpy would refuse one beyond the type of short lengths.
    if window is None or int(lengths.max(initial=0)) < window:
        return lengths
    return lengths.clip(max=window - 1)


def window_notes(model: Model, layer: int | None) -> list[str]:
    """What is simulated of a model whose layers attend to windows."""
    windows = model.windows
    if windows is None:
        return []
    window = windows.of(layer)
    if window is not None:
        which = "every layer" if windows.layers is None else f"layer {layer}"
        return [
            f"{which} of {model.name} attends to the last {window:,} tokens, the new one among them"
        ]
    which = f"layer {layer}" if layer is not None else f"layer {windows.first_full}"
    few = f"{len(windows.layers or ())} layers" + (f" of {model.layers}" if model.layers else "")
    return [
        f"{few} of {model.name} attend to the last {windows.tokens:,} tokens alone; this is "
        f"{which}, which attends to all; choose another with attention_layer"
    ]


def built_in_name(model: Model, names: Iterable[str]) -> str | None:
    """The name of the built-in model that it equals, whatever its own name; None if there is
    none."""
    return next(
        (name for name in names if replace(models.MODELS[name], name=model.name) == model), None
    )


def unlike(model: Model, names: Iterable[str]) -> str:
    """How it differs from the built-in model of the same name, if there is one."""
    if model.name not in names:
        return ""
    other = models.MODELS[model.name]
    differing = [
        field.name
        for field in fields(models.Model)
        if field.compare and getattr(model, field.name) != getattr(other, field.name)
    ]
    where = f" of {model.source}" if model.source else ""
    return f"; the one{where} has the same name, but another {', '.join(differing)}"
