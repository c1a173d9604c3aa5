"""The input of a reader of a trace format."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stepsim.errors import ArgError, TraceError
from stepsim.trace_io.routing.table import RoutingTable
from stepsim.trace_io.routing.validate import Known, Place
from stepsim.typed import typed, typed_fields

CHUNK_BYTES = 32 << 20
"""Bytes of input read at a time; this bounds the memory of an import."""

MAX_EXPERTS = 1 << 16
"""Most experts when their number is not given; loads are counted in arrays."""

MAX_GIVEN_EXPERTS = 1 << 20
"""Most experts that may be given."""


class _Sequence(NamedTuple):
    layers: int
    where: str


@typed_fields
@dataclass
class ImportJob:
    """One reading of a trace: what to read, what the caller knows about it, and its progress.

    Of ``column``, ``layers``, ``drop_missing`` and ``ranks``, a format sees only those named in
    its ``options``; the others are refused earlier.

    Attributes:
        path: the file or folder.
        experts, k: as in `read_routing`.
        layers: layers of the model.
        model: label of the rows.
        column: column to read, for formats that leave its name open.
        drop_missing: leave out tokens without recorded experts instead of refusing them.
        ranks: the files of a Megatron folder to read; None: all.
        format_given: the caller named the format; otherwise it was auto-detected.
        first_sequence: how many layers the first sequence had, and where it is.
        notes: what the caller should know about the result, filled by the reader.
        bytes_total: bytes of input, set by the reader of a folder.
        done: the reader calls it with the bytes of input read so far.

    Raises:
        ArgError: a number is out of range.
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
    first_sequence: _Sequence | None = None
    notes: list[str] = field(default_factory=list)
    bytes_total: int | None = None
    done: Callable[[int], None] = lambda _: None

    @typed
    def __post_init__(self) -> None:
        for name in ("experts", "k", "layers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ArgError(f"import_trace: {name} is {value}, expected at least 1 or None")

    @typed
    def table(
        self, ids: npt.NDArray[Any], place: Place, weights: npt.NDArray[Any] | None = None
    ) -> RoutingTable:
        """Check ids and weights [tokens, k] that were read at ``place``.

        Raises:
            TraceError: an invalid value.
        """
        if place.model is None:
            place = replace(place, model=self.model)
        table = RoutingTable.checked(
            ids, weights, place, Known(self.experts, self.k, model=self.model)
        )
        if self.experts is None and int(table.experts.max()) >= MAX_EXPERTS:
            row = int(np.argmax((table.experts >= MAX_EXPERTS).any(axis=1)))
            raise id_too_high(place.row(row), int(table.experts[row].max()))
        return table

    @typed
    def check_layers(self, layers: int, shape: tuple[int, ...], source: str, field: str) -> None:
        """Refuse a sequence whose number of layers differs from the model or the first sequence.

        Raises:
            TraceError: the number of layers differs.
        """
        head = f"{source}: `{field}` has {layers} layers (shape {shape}), expected"
        if self.layers not in (None, layers):
            raise TraceError(f"{head} {self.layers}; check that the trace belongs to this model")
        if self.first_sequence is None:
            self.first_sequence = _Sequence(layers, f"`{field}` of {source}")
        elif self.first_sequence.layers != layers:
            raise TraceError(
                f"{head} {self.first_sequence.layers} as in {self.first_sequence.where}; all "
                "sequences of a trace are of one model, put others into a separate file"
            )

    @typed
    def unsupported(self, option: str, why: str) -> TraceError:
        """The error for input that needs an option the caller did not give."""
        return TraceError(f"{self.path}: {why}; give {option}")


def id_too_high(where: str, value: int) -> TraceError:
    """The error for an id that would need more than `MAX_EXPERTS` experts without their number
    being given."""
    return TraceError(
        f"{where}: expert id {value} is out of range, expected 0..{MAX_EXPERTS - 1} when the "
        "number of experts is not given; give --experts, or check that these are expert ids"
    )
