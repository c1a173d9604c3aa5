"""What a reader of a foreign format is given, and what it yields."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stepsim.errors import TraceError
from stepsim.trace_io.validate import Place, check_experts, check_weights

__all__ = [
    "CHUNK_BYTES",
    "MAX_EXPERTS",
    "MAX_GIVEN_EXPERTS",
    "ImportJob",
    "RequestChunk",
    "RoutingChunk",
    "Sequence",
    "id_too_high",
]

CHUNK_BYTES = 32 << 20
"""Bytes of input that a reader takes at a time; bounds the memory of an import."""

MAX_EXPERTS = 1 << 16
"""Experts a model may have when their number is not given; loads are counted in arrays."""

MAX_GIVEN_EXPERTS = 1 << 20
"""Experts that may be given."""


@dataclass(frozen=True)
class RoutingChunk:
    """Consecutive tokens of one (model, layer, step), checked.

    ``experts`` is int32 [tokens, k], ``weights`` float32 [tokens, k] or None; ``first_token`` is
    the index of the first row's token.
    """

    experts: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32] | None
    layer: int
    step: int
    first_token: int
    model: str | None


@dataclass(frozen=True)
class RequestChunk:
    """Consecutive requests, lengths checked; the fields are those of `RequestTrace`."""

    context_tokens: npt.NDArray[np.int64]
    generated_tokens: npt.NDArray[np.int64] | None = None
    arrival_seconds: npt.NDArray[np.float64] | None = None
    prefix_hashes: tuple[npt.NDArray[np.int64], ...] | None = None


@dataclass(frozen=True)
class Sequence:
    """The number of layers of a sequence [tokens, layers, k], and where it stands."""

    layers: int
    source: str
    field: str

    def __str__(self) -> str:
        return f"`{self.field}` of {self.source}"


@dataclass
class ImportJob:
    """One import: what to read, what the caller knows about it, how far it is.

    Attributes:
        path: the file or folder.
        experts, k: as in `read_routing`.
        layers: layers of the model, for flat formats.
        model: label of the rows.
        column: column to read, for formats that leave its name open.
        drop_missing: leave out tokens without recorded experts instead of refusing them.
        ranks: the files of a Megatron folder to read; None: all.
        format_given: the caller named the format; else it was told by the content.
        first_sequence: the first sequence that was read; all others have as many layers.
        notes: what the caller should know about the result, filled by the reader.
        done: calls back with the bytes of input read so far.
    """

    path: Path
    experts: int | None = None
    k: int | None = None
    layers: int | None = None
    model: str | None = None
    column: str | None = None
    drop_missing: bool = False
    ranks: Collection[int] | None = None
    format_given: bool = False
    first_sequence: Sequence | None = None
    notes: list[str] = field(default_factory=list)
    done: Callable[[int], None] = lambda _: None

    def chunk(
        self,
        ids: npt.NDArray[Any],
        *,
        source: str,
        layer: int,
        step: int,
        first_token: int,
        rows: npt.NDArray[np.int64] | None = None,
        first_row: int = 0,
        weights: npt.NDArray[Any] | None = None,
        model: str | None = None,
    ) -> RoutingChunk:
        """Check ids [tokens, k]; ``source``, ``rows`` and ``first_row`` are those of `Place`.

        Raises:
            TraceError: an invalid value.
        """
        model = self.model if model is None else model
        place = Place(source, layer, step, first_token, model, rows, first_row)
        checked = check_experts(ids, place, experts=self.experts, k=self.k)
        if self.experts is None and int(checked.max()) >= MAX_EXPERTS:
            row = int(np.argmax((checked >= MAX_EXPERTS).any(axis=1)))
            raise id_too_high(place.row(row), int(checked[row].max()))
        gates = None if weights is None else check_weights(weights, checked.shape, place)
        return RoutingChunk(checked, gates, layer, step, first_token, model)

    def unsupported(self, option: str, why: str) -> TraceError:
        """The error for input that needs an option the caller left out."""
        return TraceError(f"{self.path}: {why}; give {option}")


def id_too_high(where: str, value: int) -> TraceError:
    """The error for an id that would need more than `MAX_EXPERTS`, which nobody gave."""
    return TraceError(
        f"{where}: expert id {value} is out of range, expected 0..{MAX_EXPERTS - 1} when the "
        "number of experts is not given; give --experts, or check that these are expert ids"
    )
