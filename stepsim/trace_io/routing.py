"""Reading expert-routing tables: NumPy files, Parquet, Arrow IPC, and Arrow objects.

Every source is first split into parts, one per (model, layer, step), without looking at the ids;
then the parts asked for are read and checked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stepsim.errors import ArgError, TraceError
from stepsim.trace_io.arrow_columns import index_column, list_column, name_column
from stepsim.trace_io.files import detect_format, read_arrow, read_numpy
from stepsim.trace_io.schema import check_version
from stepsim.trace_io.table import RoutingTable
from stepsim.trace_io.validate import Place, check_experts, check_integer_dtype, check_weights

__all__ = ["RoutingPart", "read_routing", "read_routing_batches", "routing_parts"]

_SHOWN = 6
_FORMATS = "Parquet, Arrow IPC (file or stream), .npy and .npz"


def read_routing(
    source: object,
    *,
    experts: int | None = None,
    k: int | None = None,
    layer: int | None = None,
    step: int | None = None,
    model: str | None = None,
    tokens: int | None = None,
) -> RoutingTable:
    """Read and check the expert choices of one layer in one step.

    Args:
        source: one of

            * a path to a .npy or .npz file: integers [tokens, k] or [tokens, layers, k]; an
              archive holds one array, or one called ``data`` or ``experts``, and may hold
              ``weights`` of the same shape;
            * a path to a Parquet or Arrow IPC (Feather 2) file, or any object with
              ``__arrow_c_stream__`` (pyarrow, polars, pandas, duckdb, ...): column ``experts``, a
              list of k ids, and as far as known the other columns of
              :func:`stepsim.trace_io.routing_schema`;
            * a NumPy array as in a .npy file.

            The content of a file decides its format, not its name.
        experts: number of experts of the model; ids must be below.
        k: experts the model chooses per token.
        layer, step, model: which part to read. A part that the source does not label takes the
            label given here (else layer 0, step 0, no model).
        tokens: number of tokens expected.

    Rows of a table may be in any order: they are sorted by ``token``, which must then be
    consecutive (a gap is a token the recorder dropped). Without that column the order counts.

    Raises:
        TraceError: the source is unreadable, holds several parts of which none is chosen, or holds
            an invalid value; the message has the file, the row (from 0) and the value.
        ArgError: an argument is not a count.
    """
    checks = _Checks(experts=experts, k=k, tokens=tokens)
    name, parts = _select(source, _Labels(layer, step, model))
    if len(parts) > 1:
        raise TraceError(
            f"{name}: holds {len(parts)} routing tables ({_listed([part.key for part in parts])}), "
            f"expected one; choose with {_differing(parts)}, or use read_routing_batches for all"
        )
    return parts[0].read(checks)


def read_routing_batches(
    source: object,
    *,
    experts: int | None = None,
    k: int | None = None,
    layer: int | None = None,
    step: int | None = None,
    model: str | None = None,
    tokens: int | None = None,
) -> Iterator[RoutingTable]:
    """Read all layer-steps of a source, in the order of model, layer, step.

    The arguments are those of :func:`read_routing`; ``layer``, ``step`` and ``model`` narrow the
    choice. The source is opened at once, each table is checked when its turn comes.
    """
    parts = routing_parts(
        source, experts=experts, k=k, layer=layer, step=step, model=model, tokens=tokens
    )
    return (part.read() for part in parts)


@dataclass(frozen=True)
class RoutingPart:
    """One layer-step of a source; ``read`` checks its values and raises TraceError for bad ones."""

    layer: int
    step: int
    model: str | None
    read: Callable[[], RoutingTable]


def routing_parts(
    source: object,
    *,
    experts: int | None = None,
    k: int | None = None,
    layer: int | None = None,
    step: int | None = None,
    model: str | None = None,
    tokens: int | None = None,
) -> list[RoutingPart]:
    """As :func:`read_routing_batches`, but one bad layer-step leaves the others readable."""
    checks = _Checks(experts=experts, k=k, tokens=tokens)
    _, parts = _select(source, _Labels(layer, step, model))
    return [
        RoutingPart(p.key.layer, p.key.step, p.key.model, partial(p.read, checks)) for p in parts
    ]


@dataclass(frozen=True)
class _Checks:
    """What the caller knows about every table."""

    experts: int | None
    k: int | None
    tokens: int | None

    def __post_init__(self) -> None:
        for name in ("experts", "k", "tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ArgError(f"read_routing: {name} is {value}, expected at least 1 or None")


@dataclass(frozen=True)
class _Labels:
    """The layer, step and model the caller asks for."""

    layer: int | None
    step: int | None
    model: str | None


@dataclass(frozen=True)
class _Key:
    """The labels of one table."""

    layer: int
    step: int
    model: str | None

    def __str__(self) -> str:
        head = "" if self.model is None else f"model {self.model!r} "
        return f"{head}layer {self.layer} step {self.step}"


@dataclass(frozen=True)
class _Part:
    """One table of a source: its labels, and how to get and check its values."""

    key: _Key
    read: Callable[[_Checks], RoutingTable]


def _select(source: object, labels: _Labels) -> tuple[str, list[_Part]]:
    """Open a source: its name for messages, and the parts that were asked for, at least one."""
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        kind = type(source)
        name = f"{kind.__module__}.{kind.__qualname__}"
        try:
            table = pa.table(source)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise TraceError(
                f"{name}: is not an Arrow table ({error}); pass a table with a column `experts`"
            ) from error
        return name, _table_parts(table, name, labels)
    if isinstance(source, np.ndarray):
        return "array", _array_parts({"experts": source}, "array", labels)
    if isinstance(source, str | os.PathLike):
        return _open_file(Path(source), labels)
    raise TraceError(
        f"{type(source).__name__}: cannot be read as a routing table, expected a path, a NumPy "
        "array or an object with __arrow_c_stream__; convert it to a NumPy array"
    )


def _open_file(path: Path, labels: _Labels) -> tuple[str, list[_Part]]:
    name = str(path)
    kind = detect_format(path)
    if kind is None:
        raise TraceError(
            f"{path}: the format is not known, its first bytes are those of none of {_FORMATS}; "
            "convert it to one of these"
        )
    if kind in ("npy", "npz"):
        arrays = read_numpy(path, kind, ("experts", "data"), extra=("weights",))
        return name, _array_parts(arrays, name, labels)
    return name, _table_parts(read_arrow(path, kind), name, labels)


def _array_parts(arrays: dict[str, npt.NDArray[Any]], name: str, labels: _Labels) -> list[_Part]:
    ids, weights = arrays["experts"], arrays.get("weights")
    step = 0 if labels.step is None else labels.step
    if ids.ndim != 3:
        key = _Key(0 if labels.layer is None else labels.layer, step, labels.model)
        return [_array_part(ids, weights, key, name)]

    check_integer_dtype(ids, name, "expert ids")
    layers = ids.shape[1]
    if weights is not None and weights.shape != ids.shape:
        raise TraceError(
            f"{name}: weights have shape {weights.shape}, the expert ids {ids.shape}; "
            "each expert id needs one weight"
        )
    wanted: Sequence[int] = range(layers) if labels.layer is None else [labels.layer]
    if not layers or not 0 <= wanted[0] < layers:
        raise TraceError(
            f"{name}: has no layer {labels.layer or 0}, its shape {ids.shape} is read as "
            f"[tokens, layers, k] with layers {f'0..{layers - 1}' if layers else 'none'}; "
            "choose one of them with layer="
        )
    return [
        _array_part(
            ids[:, i],
            None if weights is None else weights[:, i],
            _Key(i, step, labels.model),
            name,
        )
        for i in wanted
    ]


def _array_part(
    ids: npt.NDArray[Any], weights: npt.NDArray[Any] | None, key: _Key, name: str
) -> _Part:
    def read(checks: _Checks) -> RoutingTable:
        place = Place(name, key.layer, key.step, 0, key.model)
        return _checked(ids, weights, place, checks)

    return _Part(key, read)


def _table_parts(table: pa.Table, name: str, labels: _Labels) -> list[_Part]:
    check_version(table.schema, name)
    if "experts" not in table.column_names:
        listed = ", ".join(f"`{column}`" for column in table.column_names) or "none"
        raise TraceError(
            f"{name}: has no column `experts` (found {listed}), expected one with the list of the "
            "k expert ids of each token; rename or build it"
        )
    if table.num_rows == 0:
        raise TraceError(
            f"{name}: the trace is empty, it has 0 rows, expected one per token; record it again"
        )
    known = [
        column
        for column in ("model", "layer", "step", "token", "experts", "weights")
        if column in table.column_names
    ]
    for column in known:
        count = table.column_names.count(column)
        if count > 1:
            raise TraceError(
                f"{name}: {count} columns are called `{column}`, expected one; rename the others"
            )
    table = table.select(known)
    try:
        # Offsets and dictionary indices from outside are not trusted before this.
        table.validate(full=True)
    except pa.ArrowException as error:
        raise TraceError(f"{name}: the Arrow data is invalid ({error}); write it again") from error

    ids = list_column(table, "experts", name, floating=False)
    gates = None
    if "weights" in known and not pa.types.is_null(table.schema.field("weights").type):
        gates = list_column(table, "weights", name, floating=True)
    tokens = index_column(table, "token", name) if "token" in known else None

    def part(key: _Key, rows: npt.NDArray[np.int64]) -> _Part:
        def read(checks: _Checks) -> RoutingTable:
            first = _check_tokens(name, key, rows, tokens)
            place = Place(name, key.layer, key.step, first, key.model, rows)
            weights = None
            if gates is not None and gates.present[rows].any():
                weights = gates.gather(place)
            return _checked(ids.gather(place), weights, place, checks)

        return _Part(key, read)

    groups = _groups(table, name, labels, tokens)
    parts = [part(key, rows) for key, rows in groups if _matches(key, labels)]
    if not parts:
        wanted = ", ".join(
            f"{field} {value!r}" for field, value in vars(labels).items() if value is not None
        )
        raise TraceError(
            f"{name}: has no routing table for {wanted}; it holds "
            f"{_listed([key for key, _ in groups])}, choose one of them"
        )
    return parts


def _groups(
    table: pa.Table, name: str, labels: _Labels, tokens: npt.NDArray[np.int64] | None
) -> list[tuple[_Key, npt.NDArray[np.int64]]]:
    """The rows of each (model, layer, step), sorted by token or else as they come."""
    count = table.num_rows
    present = table.column_names

    def index(column: str, label: int | None) -> npt.NDArray[np.int64]:
        if column in present:
            return index_column(table, column, name)
        return np.full(count, label or 0, dtype=np.int64)

    names: list[str | None] = [labels.model]
    codes = np.zeros(count, dtype=np.int64)
    if "model" in present:
        names, codes = name_column(table, "model", name)
        if names == [None]:  # the source does not know its model
            names = [labels.model]
    layers, steps = index("layer", labels.layer), index("step", labels.step)
    order_keys = [steps, layers, codes] if tokens is None else [tokens, steps, layers, codes]
    rows = np.lexsort(order_keys).astype(np.int64)
    keys = np.stack([codes, layers, steps], axis=1)[rows]
    starts = np.flatnonzero((keys[1:] != keys[:-1]).any(axis=1)) + 1
    return [
        (_Key(int(layers[part[0]]), int(steps[part[0]]), names[int(codes[part[0]])]), part)
        for part in np.split(rows, starts)
    ]


def _check_tokens(
    name: str, key: _Key, rows: npt.NDArray[np.int64], tokens: npt.NDArray[np.int64] | None
) -> int:
    """Refuse repeated and missing tokens; return the first token."""
    if tokens is None:
        return 0
    numbers = tokens[rows]
    jumps = np.diff(numbers) != 1
    if jumps.any():
        at = int(np.argmax(jumps))
        here, there = int(numbers[at]), int(numbers[at + 1])
        places = f"rows {int(rows[at])} and {int(rows[at + 1])}"
        if here == there:
            raise TraceError(
                f"{name}: {places} ({key}) both hold token {here}, expected each token once; "
                "tell forward passes apart with a column `step`"
            )
        raise TraceError(
            f"{name}: {places} ({key}) hold tokens {here} and {there}, expected consecutive "
            f"tokens, {there - here - 1} are missing; the recorder may have dropped them, "
            "leave the column `token` out to take the rows as they are"
        )
    return int(numbers[0])


def _checked(
    ids: npt.NDArray[Any], weights: npt.NDArray[Any] | None, place: Place, checks: _Checks
) -> RoutingTable:
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


def _matches(key: _Key, labels: _Labels) -> bool:
    return all(
        value is None or getattr(key, field) == value for field, value in vars(labels).items()
    )


def _differing(parts: Sequence[_Part]) -> str:
    """The arguments that tell the parts apart."""
    fields = [
        field
        for field in ("model", "layer", "step")
        if len({getattr(part.key, field) for part in parts}) > 1
    ]
    return " and ".join(f"{field}=" for field in fields)


def _listed(keys: Sequence[_Key]) -> str:
    shown = "; ".join(str(key) for key in keys[:_SHOWN])
    return shown if len(keys) <= _SHOWN else f"{shown}; ... up to {keys[-1]}"
