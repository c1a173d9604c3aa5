"""Parts of a routing trace, one per (model, layer, step), before their ids are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy.typing as npt

from stepsim.errors import ArgError, TraceError
from stepsim.trace_io.table import RoutingTable
from stepsim.trace_io.validate import Place, check_experts, check_weights

__all__ = ["Checks", "Key", "Labels", "Part", "Span", "check_window", "checked_table"]


@dataclass(frozen=True)
class Labels:
    """The layer, step and model the caller asks for; of ``layers`` and ``steps``, any."""

    layer: int | None = None
    step: int | None = None
    model: str | None = None
    layers: frozenset[int] | None = None
    steps: frozenset[int] | None = None

    def single(self) -> list[tuple[str, int | str | None]]:
        """The labels of which there is one each, with their names."""
        return [("layer", self.layer), ("step", self.step), ("model", self.model)]

    def match(self, key: Key) -> bool:
        """Whether a part is asked for."""
        return (
            all(value in (None, getattr(key, name)) for name, value in self.single())
            and (self.layers is None or key.layer in self.layers)
            and (self.steps is None or key.step in self.steps)
        )

    def wanted(self, name: str) -> frozenset[int] | None:
        """Values of ``layer`` or ``step`` that are asked for; None for all."""
        one, several = (self.layer, self.layers) if name == "layer" else (self.step, self.steps)
        return several if one is None else frozenset([one])


@dataclass(frozen=True)
class Key:
    """The labels of one part."""

    layer: int
    step: int
    model: str | None

    def __str__(self) -> str:
        head = "" if self.model is None else f"model {self.model!r} "
        return f"{head}layer {self.layer} step {self.step}"


class Span(NamedTuple):
    """Tokens ``first`` to ``first + size - 1`` of a part, counted from its first one."""

    first: int
    size: int


@dataclass(frozen=True)
class Checks:
    """What the caller knows about every part."""

    experts: int | None
    k: int | None
    tokens: int | None

    def __post_init__(self) -> None:
        for name in ("experts", "k", "tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ArgError(f"read_routing: {name} is {value}, expected at least 1 or None")


@dataclass(frozen=True)
class Part:
    """One part of a source.

    Attributes:
        key: its labels.
        tokens: how many it has.
        first_row: where it begins in the source.
        read: gets and checks its tokens, all of them without a span.
    """

    key: Key
    tokens: int
    first_row: int
    read: Callable[[Checks, Span | None], RoutingTable]


def check_window(source: str, what: str, rows: int, window: int, size: int) -> Span:
    """The rows of a window: batch number ``window``, from 0, of ``size`` consecutive rows each.

    ``what`` names the rows for the message, as in ``layer 3 step 0 has 100 tokens``.

    Raises:
        ArgError: ``size`` or ``window`` is out of range.
        TraceError: the window ends after the last row.
    """
    if size < 1 or window < 0:
        wrong = f"window {window}" if window < 0 else f"a window of {size} rows"
        raise ArgError(f"{source}: {wrong} asked for, expected windows from 0 of at least 1 row")
    count = rows // size
    if count == 0:
        raise TraceError(
            f"{source}: {what}, fewer than the batch of {size} asked for; choose a smaller batch"
        )
    if window >= count:
        raise TraceError(
            f"{source}: {what}, which makes windows 0..{count - 1} of {size}, but window {window} "
            "is asked for; choose one of them"
        )
    return Span(window * size, size)


def checked_table(
    ids: npt.NDArray[Any], weights: npt.NDArray[Any] | None, place: Place, checks: Checks
) -> RoutingTable:
    """A table of values that were read.

    Raises:
        TraceError: a value is invalid.
    """
    checked = check_experts(ids, place, experts=checks.experts, k=checks.k, tokens=checks.tokens)
    return RoutingTable(
        experts=checked,
        weights=None if weights is None else check_weights(weights, checked.shape, place),
        layer=place.layer,
        step=place.step,
        model=place.model,
        first_token=place.first_token,
        source=place.source,
    )
