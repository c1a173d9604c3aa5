"""Reading expert-routing tables: NumPy files, Parquet, Arrow IPC, and Arrow objects.

Every source is first split into parts, one per (model, layer, step), without looking at the ids;
then the parts asked for, or windows of them, are read and checked. Of a Parquet file only the row
groups that hold them are read, of a .npy file only their bytes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from stepsim.data import locate
from stepsim.errors import ArgError, TraceError
from stepsim.trace_io.array_parts import array_parts, file_parts
from stepsim.trace_io.arrow_parts import LABELS, ArrowParts
from stepsim.trace_io.arrow_pieces import open_pieces, table_pieces
from stepsim.trace_io.decode_steps import refuse_decode_steps
from stepsim.trace_io.detection import OWN_REQUESTS, detect_trace_format
from stepsim.trace_io.files import detect_format
from stepsim.trace_io.formats import FORMATS
from stepsim.trace_io.parts import Checks, Key, Labels, Part, check_window
from stepsim.trace_io.table import RoutingTable

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
    window: int | None = None,
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
            * the name of a data set, see `stepsim.data`;
            * a NumPy array as in a .npy file.

            The content of a file decides its format, not its name.
        experts: number of experts of the model; ids must be below.
        k: experts the model chooses per token.
        layer, step, model: which part to read. A part that the source does not label takes the
            label given here (else layer 0, step 0, no model).
        tokens: number of tokens expected; with ``window``, how many it has.
        window: read only this batch of ``tokens`` consecutive tokens, counted from 0; the last
            tokens that make no whole batch belong to none.

    Rows of a table may be in any order: they are sorted by ``token``, which must then be
    consecutive (a gap is a token the recorder dropped). Without that column the order counts.

    Raises:
        TraceError: the source is unreadable, holds several parts of which none is chosen, has not
            so many windows, or holds an invalid value; the message has the file, the row (from 0)
            and the value.
        ArgError: an argument is not a count, or ``window`` is given without ``tokens``.
    """
    checks = Checks(experts=experts, k=k, tokens=tokens)
    name, parts = _select(source, Labels(layer, step, model))
    if len(parts) > 1:
        raise TraceError(
            f"{name}: holds {len(parts)} routing tables ({_listed([part.key for part in parts])}), "
            f"expected one; choose with {_choice(parts)}"
        )
    return _read(name, parts[0], checks, window)


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
    """One layer-step of a source, of which nothing but the labels was read.

    Attributes:
        layer, step, model: its labels.
        tokens: how many it has.
        first_row: where it begins in the source; parts read in this order are read fastest.
    """

    layer: int
    step: int
    model: str | None
    tokens: int
    first_row: int
    _name: str
    _part: Part
    _checks: Checks

    def read(self) -> RoutingTable:
        """All tokens.

        Raises:
            TraceError: a value is invalid.
        """
        return _read(self._name, self._part, self._checks, None)

    def read_window(self, window: int, tokens: int) -> RoutingTable:
        """Batch number ``window``, from 0, of ``tokens`` consecutive tokens each.

        Raises:
            ArgError: an argument is out of range.
            TraceError: there are not so many windows, or a value is invalid.
        """
        return _read(self._name, self._part, replace(self._checks, tokens=tokens), window)


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

    Unlike ``layer`` and ``step``, the labels ``layers`` and ``steps`` need not be there.
    """
    checks = Checks(experts=experts, k=k, tokens=tokens)
    labels = Labels(
        layer,
        step,
        model,
        None if layers is None else frozenset(layers),
        None if steps is None else frozenset(steps),
    )
    name, parts = _select(source, labels)
    return [
        RoutingPart(p.key.layer, p.key.step, p.key.model, p.tokens, p.first_row, name, p, checks)
        for p in parts
    ]


def _select(source: object, labels: Labels) -> tuple[str, list[Part]]:
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
        return name, _found(ArrowParts(table_pieces(table, name), name), name, labels)
    if isinstance(source, np.ndarray):
        return "array", array_parts(source, labels)
    if isinstance(source, str | os.PathLike):
        return _open_file(locate(source), labels)
    raise TraceError(
        f"{type(source).__name__}: cannot be read as a routing table, expected a path, a NumPy "
        "array or an object with __arrow_c_stream__; convert it to a NumPy array"
    )


def _open_file(path: Path, labels: Labels) -> tuple[str, list[Part]]:
    name = str(path)
    kind = None if path.is_dir() else detect_format(path)
    if kind is None:
        raise _not_read_here(path)
    if kind in ("npy", "npz"):
        return name, file_parts(path, kind, labels)
    pieces = open_pieces(path, kind, LABELS)
    refuse_decode_steps(pieces.schema, path)
    columns = pieces.schema.names
    if "context_tokens" in columns and "experts" not in columns:
        raise _requests(path, OWN_REQUESTS)
    return name, _found(ArrowParts(pieces, name), name, labels)


def _not_read_here(path: Path) -> TraceError:
    """The error for a file or folder of a format that is not read without an import, if known."""
    try:
        found = detect_trace_format(path)
    except TraceError as error:
        if path.is_dir():
            return error
        return TraceError(
            f"{path}: the format is not known, its first bytes are those of none of {_FORMATS}; "
            "convert it to one of these"
        )
    if FORMATS[found].holds == "requests":
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


def _found(source: ArrowParts, name: str, labels: Labels) -> list[Part]:
    parts = source.find(labels)
    if not parts and labels.layers is None and labels.steps is None:
        every = source.find(Labels())
        wanted = ", ".join(
            f"{field} {value!r}" for field, value in labels.single() if value is not None
        )
        raise TraceError(
            f"{name}: has no routing table for {wanted}; it holds "
            f"{_listed([part.key for part in every])}, choose one of them"
        )
    return parts


def _read(name: str, part: Part, checks: Checks, window: int | None) -> RoutingTable:
    """A part, or a window of as many tokens as ``checks`` says."""
    wanted = checks.tokens
    if window is None:
        if wanted is not None and part.tokens > wanted:
            # Told before all of them are read.
            raise TraceError(
                f"{name}: {part.tokens} tokens ({part.key}), expected {wanted}; the recorder may "
                "have padded some, or choose one window of many with --window (window=)"
            )
        return part.read(checks, None)
    if wanted is None:
        raise ArgError(
            f"read_routing: window {window} of what size is not known; give tokens= as well"
        )
    what = f"{part.key} has {part.tokens} tokens"
    return part.read(checks, check_window(name, what, part.tokens, window, wanted))


def _choice(parts: Sequence[Part]) -> str:
    """The options and arguments that tell the parts apart."""
    fields = [
        field
        for field in ("model", "layer", "step")
        if len({getattr(part.key, field) for part in parts}) > 1
    ]
    arguments = " and ".join(f"{field}=" for field in fields)
    # No option has the model of the rows: --model is the shape to simulate.
    options = " and ".join(f"--{field}" for field in fields if field != "model")
    all_of_them = "or all of them with read_routing_batches"
    unnamed = ""
    if "model" in fields and any(part.key.model is None for part in parts):
        unnamed = "; rows without a model cannot be chosen, name theirs in the column `model`"
    chosen = f"{options} ({arguments} in Python, {all_of_them})" if options else arguments
    return f"{chosen}{unnamed}"


def _listed(keys: Sequence[Key]) -> str:
    shown = "; ".join(str(key) for key in keys[:_SHOWN])
    return shown if len(keys) <= _SHOWN else f"{shown}; ... up to {keys[-1]}"
