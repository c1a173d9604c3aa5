"""`RoutingTable`: which experts each token of one (model, layer, step) was sent to."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stepsim.arguments import Range, is_whole, label_of, shown, text_of
from stepsim.arrow import pa
from stepsim.errors import ArgError
from stepsim.trace_io.routing.validate import (
    Known,
    Place,
    array_of,
    check_experts,
    check_weights,
)
from stepsim.trace_io.schema import SCHEMA_VERSION, routing_schema
from stepsim.trace_io.writer import ParquetStream
from stepsim.typed import typed

_MAX_INDEX = int(np.iinfo(np.int32).max)
_EXPERTS = Range(1 << 24, "each of them has a count in memory")


@dataclass(frozen=True, eq=False)
class RoutingTable:
    """The expert choices of one layer in one step; checked, immutable, hashable by content.

    Attributes:
        experts: int32 [tokens, k], C-contiguous, read-only; distinct ids within a row.
        weights: float32 [tokens, k], read-only, or None when not recorded.
        layer: index of the MoE layer; 0 when the source does not say.
        step: index of the forward pass; 0 when the source does not say.
        model: name of the model; None when the source does not say.
        first_token: index of the first row's token; above 0 for a window of a longer trace.
        source: where the table comes from, for messages; not part of its content.

    Raises:
        TraceError: a value is invalid (see :func:`stepsim.trace_io.read_routing`).
        ArgError: `layer`, `step` or `first_token` is negative or above int32.
    """

    experts: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32] | None = None
    layer: int = 0
    step: int = 0
    model: str | None = None
    first_token: int = 0
    source: str = "array"

    def __post_init__(self) -> None:
        place = Place(self.source, self.layer, self.step, self.first_token, self.model)
        ids = array_of("expert ids", self.experts, self.source)
        weights = self.weights
        if weights is not None:
            weights = array_of("weights", weights, self.source)
        self._fill(place, ids, weights, Known())

    @classmethod
    def checked(
        cls,
        experts: npt.NDArray[Any],
        weights: npt.NDArray[Any] | None,
        place: Place,
        known: Known,
    ) -> RoutingTable:
        """The table of values that were read at ``place``, whose rows an error names.

        Raises:
            TraceError: a value is invalid.
            ArgError: an index is out of range.
        """
        table = object.__new__(cls)
        table._fill(place, experts, weights, known)
        return table

    def _fill(
        self,
        place: Place,
        experts: npt.NDArray[Any],
        weights: npt.NDArray[Any] | None,
        known: Known,
    ) -> None:
        labels: dict[str, Any] = {
            "model": label_of("RoutingTable: model", place.model),
            "source": text_of("RoutingTable: source", place.source),
        }
        for name in ("layer", "step", "first_token"):
            # NumPy integers would change the identity.
            value = getattr(place, name)
            if not is_whole(value) or not 0 <= value <= _MAX_INDEX:
                raise ArgError(
                    f"RoutingTable: {name} is {shown(value)}, expected 0..{_MAX_INDEX}; indices "
                    "count from 0"
                )
            labels[name] = int(value)
        ids = labels["experts"] = check_experts(experts, place, known)
        ids.flags.writeable = False
        gates = labels["weights"] = None
        if weights is not None:
            gates = labels["weights"] = check_weights(np.asanyarray(weights), ids.shape, place)
            gates.flags.writeable = False
        for name, value in labels.items():
            object.__setattr__(self, name, value)

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return int(self.experts.shape[0])

    @property
    def k(self) -> int:
        """Experts per token."""
        return int(self.experts.shape[1])

    @typed
    def counts(self, experts: int) -> npt.NDArray[np.int64]:
        """Tokens sent to each of the model's ``experts`` experts: int64 [experts].

        Raises:
            TraceError: the table holds an id that is not below ``experts``.
        """
        _EXPERTS.checked("counts: experts", experts)
        place = Place(self.source, self.layer, self.step, self.first_token, self.model)
        ids = check_experts(self.experts, place, Known(experts))
        return np.bincount(ids.ravel(), minlength=experts).astype(np.int64)

    @typed
    def identity(self) -> str:
        """SHA-256 (hex) of the content: labels, shape, ids and weights, but not the source.

        It is the same on every machine, and for every format the table was read from.
        """
        digest = hashlib.sha256()
        labels = (self.model, self.layer, self.step, self.first_token, self.tokens, self.k)
        digest.update(repr(("expert-routing", SCHEMA_VERSION, *labels)).encode())
        digest.update(self.experts.astype("<i4").tobytes())
        if self.weights is not None:
            digest.update(b"weights")
            digest.update(self.weights.astype("<f4").tobytes())
        return digest.hexdigest()

    @typed
    def to_arrow(self) -> pa.Table:
        """The table in the schema of :func:`stepsim.trace_io.routing_schema`."""
        schema = routing_schema(self.k, weights=self.weights is not None)
        last = self.first_token + self.tokens
        columns = [
            pa.repeat(pa.scalar(self.model, pa.string()), self.tokens),
            pa.array(np.full(self.tokens, self.layer, np.int32)),
            pa.array(np.full(self.tokens, self.step, np.int32)),
            pa.array(np.arange(self.first_token, last, dtype=np.int32)),
            _list_array(self.experts, schema.field("experts").type),
        ]
        if self.weights is not None:
            columns.append(_list_array(self.weights, schema.field("weights").type))
        return pa.Table.from_arrays(columns, schema=schema)

    @typed
    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the table to one Parquet file, completely or not at all.

        Raises:
            OutputError: the file cannot be written; an existing file is then left as it was.
        """
        write_routing([self], path)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """Export to any consumer of the Arrow PyCapsule interface."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RoutingTable):
            return NotImplemented
        return self.identity() == other.identity()

    def __hash__(self) -> int:
        return hash(self.identity())

    def __reduce__(self) -> tuple[Any, ...]:
        # Arrays come back writeable from a pickle; constructing it again freezes them.
        labels = (self.layer, self.step, self.model, self.first_token, self.source)
        return RoutingTable, (self.experts, self.weights, *labels)

    def __repr__(self) -> str:
        return (
            f"RoutingTable(tokens={self.tokens}, k={self.k}, layer={self.layer}, "
            f"step={self.step}, model={self.model!r}, source={self.source!r})"
        )


@typed
def write_routing(
    tables: Sequence[RoutingTable],
    path: str | os.PathLike[str],
    *,
    origin: dict[str, Any] | None = None,
) -> None:
    """Write several layer-steps to one Parquet file, completely or not at all.

    ``origin`` is kept in the file, see :func:`read_origin`.

    Raises:
        ArgError: no tables, two of the same (model, layer, step), or tables that differ in k or
            in having weights.
        OutputError: the file cannot be written; an existing file is then left as it was.
    """
    if not tables:
        raise ArgError("write_routing: no tables given, expected at least 1")
    keys = [(table.model, table.layer, table.step) for table in tables]
    if len(set(keys)) != len(keys):
        twice = next(key for i, key in enumerate(keys) if key in keys[:i])
        raise ArgError(
            f"write_routing: two tables are of (model, layer, step) {twice}, expected one of each; "
            "number the steps"
        )
    shapes = [_shape(table) for table in tables]
    for i, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ArgError(
                f"write_routing: table {i} has {shape}, table 0 has {shapes[0]}; one file has one "
                "k, and weights in all tables or in none"
            )
    with ParquetStream(path, origin=origin) as file:
        for table, key in zip(tables, keys, strict=True):
            file.write(table.to_arrow(), key)


def _shape(table: RoutingTable) -> str:
    return f"k = {table.k} {'without' if table.weights is None else 'with'} weights"


def _list_array(values: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), type=kind)
