"""Routing in arrays [tokens, k] or [tokens, layers, k], in memory or in a NumPy file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stepsim.errors import TraceError
from stepsim.trace_io.array_files import ArrayFile, open_routing
from stepsim.trace_io.parts import Checks, Key, Labels, Part, Span, checked_table
from stepsim.trace_io.table import RoutingTable
from stepsim.trace_io.validate import Place, check_integer_dtype

__all__ = ["array_parts", "file_parts"]


def array_parts(ids: npt.NDArray[Any], labels: Labels) -> list[Part]:
    """The parts of an array in memory that were asked for, at least one.

    Raises:
        TraceError: it has no such layer, or no integers.
    """
    if ids.ndim == 3:
        check_integer_dtype(ids, "array", "expert ids")
    return _parts(_InMemory(ids), None, "array", labels)


def file_parts(path: Path, kind: str, labels: Labels) -> list[Part]:
    """The parts of a .npy or .npz file that were asked for, at least one; nothing is read yet.

    Raises:
        TraceError: as `open_routing` and `array_parts`.
    """
    return _parts(*open_routing(path, kind), str(path), labels)


@dataclass(frozen=True)
class _InMemory:
    """An array with the face of `ArrayFile`."""

    values: npt.NDArray[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def read(
        self, first: int = 0, count: int | None = None, layer: int | None = None
    ) -> npt.NDArray[Any]:
        if not self.shape:
            return self.values
        rows = self.values[first:] if count is None else self.values[first : first + count]
        return rows if layer is None else rows[:, layer]


_Array = _InMemory | ArrayFile


def _parts(ids: _Array, weights: ArrayFile | None, name: str, labels: Labels) -> list[Part]:
    step = 0 if labels.step is None else labels.step
    if len(ids.shape) != 3:
        key = Key(0 if labels.layer is None else labels.layer, step, labels.model)
        return [_part(ids, weights, key, name, None)] if labels.match(key) else []
    check_integer_dtype(np.empty(0, ids.dtype), name, "expert ids")
    layers = ids.shape[1]
    wanted: Sequence[int] = range(layers) if labels.layer is None else [labels.layer]
    if not layers or not 0 <= wanted[0] < layers:
        raise TraceError(
            f"{name}: has no layer {labels.layer or 0}, its shape {ids.shape} is read as "
            f"[tokens, layers, k] with layers {f'0..{layers - 1}' if layers else 'none'}; "
            "choose one of them with --layer (layer=)"
        )
    keys = [Key(i, step, labels.model) for i in wanted]
    return [_part(ids, weights, key, name, key.layer) for key in keys if labels.match(key)]


def _part(ids: _Array, weights: ArrayFile | None, key: Key, name: str, layer: int | None) -> Part:
    def read(checks: Checks, span: Span | None) -> RoutingTable:
        first, count = (0, None) if span is None else span
        place = Place(name, key.layer, key.step, first, key.model)
        gates = None if weights is None else weights.read(first, count, layer)
        return checked_table(ids.read(first, count, layer), gates, place, checks)

    # Arrays of other dims than 2 and 3 are refused when they are read.
    return Part(key, ids.shape[0] if ids.shape else 0, 0, read)
