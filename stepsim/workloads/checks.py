"""Checks shared by several workloads; each returns the problem as text, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from math import isqrt
from typing import TYPE_CHECKING, Any

from stepsim.workloads.models import MODELS, Model

if TYPE_CHECKING:
    import numpy as np

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


def built_in_name(model: Model, names: Iterable[str]) -> str | None:
    """The name of the built-in model that it equals, whatever its own name; None if there is
    none."""
    return next((name for name in names if replace(MODELS[name], name=model.name) == model), None)


def unlike(model: Model, names: Iterable[str]) -> str:
    """How it differs from the built-in model of the same name, if there is one."""
    if model.name not in names:
        return ""
    other = MODELS[model.name]
    differing = [
        field.name
        for field in fields(Model)
        if field.compare and getattr(model, field.name) != getattr(other, field.name)
    ]
    where = f" of {model.source}" if model.source else ""
    return f"; the one{where} has the same name, but another {', '.join(differing)}"
