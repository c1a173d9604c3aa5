"""Reading expert-routing tables: NumPy files, Parquet, Arrow IPC, and Arrow objects.

Every source is first split into parts, one per (model, layer, step), without looking at the ids;
then the parts asked for, or windows of them, are read and checked. Of a Parquet file only the row
groups that hold them are read, of a .npy file only their bytes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from stepsim.arguments import Range, label_of, shown
from stepsim.data import locate
from stepsim.errors import ArgError, TraceError
from stepsim.trace_io.detection import detect_trace_format
from stepsim.trace_io.files import detect_format
from stepsim.trace_io.formats import trace_formats
from stepsim.trace_io.requests.decode_steps import refuse_decode_steps
from stepsim.trace_io.requests.trace import OWN_REQUESTS
from stepsim.trace_io.routing.parts import ArrowParts, Labels, RoutingPart, array_parts
from stepsim.trace_io.routing.rows import LABELS, Key
from stepsim.trace_io.routing.table import RoutingTable
from stepsim.trace_io.routing.validate import Known
from stepsim.trace_io.sources.arrow import (
    ARROW_KINDS,
    Pieces,
    arrow_table,
    open_pieces,
    table_pieces,
)
from stepsim.trace_io.sources.numpy import Array, open_routing
from stepsim.typed import typed

_SHOWN = 6
_COUNT = Range(2**62, "tokens or experts")
_LABEL = Range(2**31 - 1, "layers, steps and windows are counted from 0", low=0)
_FORMATS = "Parquet, Arrow IPC (file or stream), .npy and .npz"


@typed
def read_routing(
    source: object,
    *,
    experts: int | None = None,
    k: int | None = None,
    layer: int | None = None,
    step: int | None = None,
    model: str | None = None,
    tokens: int | None = None,
    window: int | None = None,
    owner: str | None = None,
) -> RoutingTable:
    """Read and check the expert choices of one layer in one step.

    Args:
        source: one of

            * a path to a .npy or .npz file: integers [tokens, k] or [tokens, layers, k]; an
              archive holds one array, or one called ``data`` or ``experts``, and may hold
              ``weights`` of the same shape;
            * a path to a Parquet or Arrow IPC (Feather 2) file, or any object with
              ``__arrow_c_stream__`` (pyarrow, polars, pandas, duckdb, ...): column ``experts``, a
              list of k ids, and, where known, the other columns of
              :func:`stepsim.trace_io.routing_schema`;
            * the name of a data set, see `stepsim.data`;
            * a NumPy array as in a .npy file.

            The content of a file decides its format, not its name.
        experts: number of experts of the model; ids must be below.
        k: experts the model chooses per token.
        owner: name of the model that these numbers are of, for messages.
        layer, step, model: which part to read. A part that the source does not label takes the
            label given here (else layer 0, step 0, no model).
        tokens: number of tokens expected; with ``window``, how many it has.
        window: read only this batch of ``tokens`` consecutive tokens, counted from 0; the
            remaining tokens at the end, too few for a batch, belong to no window.

    Rows of a table may be in any order: they are sorted by ``token``, which must then be
    consecutive (a gap is a token the recorder dropped). Without that column the order of the rows
    counts.

    Raises:
        TraceError: the source is unreadable, holds several parts and none is chosen, has fewer
            windows, or holds an invalid value; the message has the file, the row (from 0)
            and the value.
        ArgError: an argument is not a count, or ``window`` is given without ``tokens``.
    """
    known = replace(_known(experts, k, tokens), model=label_of("read_routing: owner", owner))
    if window is not None:
        _LABEL.checked("read_routing: window", window)
    parts = _select(source, Labels(layer, step, model), known)
    if len(parts) > 1:
        raise TraceError(
            f"{parts[0].source}: holds {len(parts)} routing tables "
            f"({_listed([part.key for part in parts])}), expected one; choose with "
            f"{_choice(parts)}"
        )
    if window is None:
        return parts[0].read()
    if tokens is None:
        raise ArgError(
            f"read_routing: the size of window {window} is not known; give tokens= as well"
        )
    return parts[0].read_window(window, tokens)


@typed
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

    The arguments are those of :func:`read_routing`; ``layer``, ``step`` and ``model`` restrict the
    choice. The source is opened at once, each table is checked when its turn comes.
    """
    parts = routing_parts(
        source, experts=experts, k=k, layer=layer, step=step, model=model, tokens=tokens
    )
    return (part.read() for part in parts)


def routing_parts(
    source: object,
    *,
    experts: int | None = None,
    k: int | None = None,
    layer: int | None = None,
    step: int | None = None,
    model: str | None = None,
    tokens: int | None = None,
    layers: Collection[int] | None = None,
    steps: Collection[int] | None = None,
) -> list[RoutingPart]:
    """As :func:`read_routing_batches`, but one bad layer-step leaves the others readable.

    Unlike ``layer`` and ``step``, the labels ``layers`` and ``steps`` need not occur in the source.
    """
    labels = Labels(
        layer,
        step,
        model,
        None if layers is None else frozenset(layers),
        None if steps is None else frozenset(steps),
    )
    return _select(source, labels, _known(experts, k, tokens))


def _known(experts: int | None, k: int | None, tokens: int | None) -> Known:
    for name, value in (("experts", experts), ("k", k), ("tokens", tokens)):
        if value is not None and not _COUNT.holds(value):
            raise ArgError(f"read_routing: {name} is {shown(value)}, expected at least 1 or None")
    return Known(experts, k, tokens)


def _checked(labels: Labels) -> Labels:
    for name, value in (("layer", labels.layer), ("step", labels.step)):
        if value is not None:
            _LABEL.checked(f"read_routing: {name}", value)
    label_of("read_routing: model", labels.model)
    return labels


def _select(source: object, labels: Labels, known: Known) -> list[RoutingPart]:
    """Open a source: the requested parts; at least one, unless several labels were given."""
    labels = _checked(labels)
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        name = f"{type(source).__module__}.{type(source).__qualname__}"
        return _found(table_pieces(arrow_table(source, name, "experts"), name), name, labels, known)
    if isinstance(source, np.ndarray):
        return array_parts(Array.in_memory(source), None, labels, known)
    if isinstance(source, str | os.PathLike):
        return _open_file(locate(source), labels, known)
    raise TraceError(
        f"{type(source).__name__}: cannot be read as a routing table, expected a path, a NumPy "
        "array or an object with __arrow_c_stream__; convert it to a NumPy array"
    )


def _open_file(path: Path, labels: Labels, known: Known) -> list[RoutingPart]:
    kind = None if path.is_dir() else detect_format(path)
    if kind is None:
        raise _not_read_here(path)
    if kind not in ARROW_KINDS:
        return array_parts(*open_routing(path, kind, rows=known.tokens), labels, known)
    pieces = open_pieces(path, kind, LABELS)
    refuse_decode_steps(pieces.schema, path)
    columns = pieces.schema.names
    if "context_tokens" in columns and "experts" not in columns:
        raise _requests(path, OWN_REQUESTS)
    return _found(pieces, str(path), labels, known)


def _not_read_here(path: Path) -> TraceError:
    """The error for a file or folder of a format that is not read without an import, if known."""
    try:
        found = detect_trace_format(path)
    except TraceError as error:
        if path.is_dir():
            return error
        return TraceError(
            f"{path}: the format is not known, its first bytes do not match any of {_FORMATS}; "
            "convert it to one of these"
        )
    if trace_formats()[found].holds == "requests":
        return _requests(path, found)
    return TraceError(
        f"{path}: is a {found} trace, expected one of {_FORMATS}; convert it with: stepsim trace "
        f"import {path} OUT.parquet"
    )


def _requests(path: Path, found: str) -> TraceError:
    return TraceError(
        f"{path}: is a request trace ({found}), expected one of expert routing; choose another, or "
        "take the lengths of its prompts with --kv-lengths (read_kv_lengths)"
    )


def _found(pieces: Pieces, name: str, labels: Labels, known: Known) -> list[RoutingPart]:
    source = ArrowParts(pieces, name)
    parts = source.find(labels, known)
    if not parts and labels.layers is None and labels.steps is None:
        every = source.find(Labels(), known)
        wanted = ", ".join(
            f"{field} {value!r}" for field, value in labels.single() if value is not None
        )
        raise TraceError(
            f"{name}: has no routing table for {wanted}; it holds "
            f"{_listed([part.key for part in every])}, choose one of them"
        )
    return parts


def _choice(parts: Sequence[RoutingPart]) -> str:
    """The arguments that distinguish the parts; those of the command line have the same names."""
    fields = [
        field
        for field in ("model", "layer", "step")
        if len({getattr(part, field) for part in parts}) > 1
    ]
    arguments = " and ".join(f"{field}=" for field in fields)
    unnamed = ""
    if "model" in fields and any(part.model is None for part in parts):
        unnamed = "; rows without a model cannot be chosen, name theirs in the column `model`"
    several = "" if fields == ["model"] else " (read_routing_batches of Python reads all of them)"
    return f"{arguments}{several}{unnamed}"


def _listed(keys: Sequence[Key]) -> str:
    shown = "; ".join(str(key) for key in keys[:_SHOWN])
    return shown if len(keys) <= _SHOWN else f"{shown}; ... up to {keys[-1]}"
