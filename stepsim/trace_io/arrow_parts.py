"""Routing in Arrow data, piece by piece: which parts there are, and the rows of one of them.

Looking for parts reads the labels only, and of a Parquet row group with a single label nothing.
Reading a part decodes the pieces that hold it, and of a window only those that hold its tokens.
The pieces decoded last are kept, since parts and windows are mostly asked for in order.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stepsim.errors import TraceError
from stepsim.trace_io.arrow_columns import ListColumn, index_column, list_column, name_column
from stepsim.trace_io.arrow_pieces import Piece, Pieces, check_single, empty_table
from stepsim.trace_io.parts import Checks, Key, Labels, Part, Span, checked_table
from stepsim.trace_io.schema import check_version
from stepsim.trace_io.table import RoutingTable
from stepsim.trace_io.validate import Place

__all__ = ["LABELS", "ArrowParts"]

LABELS: Mapping[str, type] = {"model": str, "layer": int, "step": int, "token": int}
"""The columns that tell where a row belongs, and the types of their values."""

_KEPT_ROWS = 1 << 19
"""Rows of decoded pieces that are kept, about 40 MB with k = 8; but always two pieces."""


@dataclass(frozen=True)
class _Run:
    """The rows of one part in one piece; their tokens are ``low`` to ``high``, if numbered."""

    piece: int
    first_row: int
    rows: int
    low: int | None
    high: int | None


@dataclass(frozen=True)
class _Decoded:
    """A piece in memory; ``groups`` has the rows of each key, sorted by token."""

    tokens: npt.NDArray[np.int64] | None
    experts: ListColumn
    weights: ListColumn | None
    groups: dict[Key, npt.NDArray[np.int64]]


class ArrowParts:
    """The parts of a source.

    Args:
        source: the pieces.
        name: of the source, for messages.

    Raises:
        TraceError: a column is missing, there twice or of another type, or there are no rows.
    """

    def __init__(self, source: Pieces, name: str) -> None:
        self._pieces = source.pieces
        self._name = name
        self._columns = _columns(source, name)
        self._labels = [column for column in LABELS if column in self._columns]
        self._decoded: OrderedDict[int, _Decoded] = OrderedDict()
        self._lock = threading.Lock()
        with suppress(pa.ArrowNotImplementedError):  # types of which no empty array can be made
            self._lists(empty_table(source.schema, name))

    def find(self, labels: Labels) -> list[Part]:
        """The parts that match, in the order of model, layer and step."""
        found: dict[Key, list[_Run]] = {}
        for number, piece in enumerate(self._pieces):
            if piece.rows and _may_hold(piece, labels):
                for key, run in self._runs(number, piece):
                    found.setdefault(key, []).append(run)
        parts = []
        for own in sorted(found, key=_order):
            key, runs = self._labelled(own, labels), found[own]
            if labels.match(key):
                tokens = sum(run.rows for run in runs)
                first_row = min(run.first_row for run in runs)
                parts.append(Part(key, tokens, first_row, partial(self._read, own, key, runs)))
        return parts

    def _labelled(self, key: Key, labels: Labels) -> Key:
        """With the labels given in place of those that the source does not have."""
        layer = key.layer if "layer" in self._columns else labels.layer or 0
        step = key.step if "step" in self._columns else labels.step or 0
        model = key.model if labels.model is None or self._names_models else labels.model
        return Key(layer, step, model)

    @cached_property
    def _names_models(self) -> bool:
        """Whether any row has a model."""
        if "model" not in self._columns:
            return False
        for piece in self._pieces:
            if "model" in piece.bounds:
                if piece.bounds["model"][0] is not None:
                    return True
            elif piece.rows and piece.read(["model"]).column(0).null_count < piece.rows:
                return True
        return False

    def _runs(self, number: int, piece: Piece) -> Iterator[tuple[Key, _Run]]:
        constant = _constant_key(piece, self._labels)
        if constant is not None and ("token" not in self._labels or "token" in piece.bounds):
            low, high = piece.bounds.get("token", (None, None))
            yield constant, _Run(number, piece.first_row, piece.rows, low, high)
            return
        tokens, groups = self._grouped(piece, piece.read(self._labels))
        for key, rows in groups.items():
            low = high = None
            if tokens is not None:
                low, high = int(tokens[rows[0]]), int(tokens[rows[-1]])
            first = piece.first_row + int(rows.min())
            yield key, _Run(number, first, len(rows), low, high)

    def _grouped(
        self, piece: Piece, table: pa.Table
    ) -> tuple[npt.NDArray[np.int64] | None, dict[Key, npt.NDArray[np.int64]]]:
        """The tokens, and the rows of each key, sorted by token or else as they come."""
        present, zeros = self._labels, np.zeros(piece.rows, dtype=np.int64)
        layers, steps, tokens = (
            index_column(table, name, self._name, piece.first_row) if name in present else None
            for name in ("layer", "step", "token")
        )
        names: list[str | None] = [None]
        codes = zeros
        if "model" in present:
            names, codes = name_column(table, "model", self._name)
        keys = [codes, zeros if layers is None else layers, zeros if steps is None else steps]
        order = keys[::-1] if tokens is None else [tokens, *keys[::-1]]
        rows = np.lexsort(order).astype(np.int64)
        ordered = np.stack(keys, axis=1)[rows]
        starts = np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1)) + 1
        groups = {}
        for part in np.split(rows, starts):
            code, layer, step = (int(column[part[0]]) for column in keys)
            groups[Key(layer, step, names[code])] = part
        return tokens, groups

    def _lists(self, table: pa.Table) -> tuple[ListColumn, ListColumn | None]:
        experts = list_column(table, "experts", self._name, what="expert ids")
        if "weights" not in self._columns:
            return experts, None
        return experts, list_column(
            table, "weights", self._name, what="gate weights", floating=True
        )

    def _decode(self, number: int) -> _Decoded:
        with self._lock:
            if number not in self._decoded:
                piece = self._pieces[number]
                table = piece.read(self._columns)
                tokens, groups = self._grouped(piece, table)
                self._decoded[number] = _Decoded(tokens, *self._lists(table), groups)
                self._forget()
            self._decoded.move_to_end(number)
            return self._decoded[number]

    def _forget(self) -> None:
        rows = sum(self._pieces[number].rows for number in self._decoded)
        while len(self._decoded) > 2 and rows > _KEPT_ROWS:
            oldest, _ = self._decoded.popitem(last=False)
            rows -= self._pieces[oldest].rows

    def _read(
        self, own: Key, key: Key, runs: Sequence[_Run], checks: Checks, span: Span | None
    ) -> RoutingTable:
        """The table of ``key``, which the source calls ``own``."""
        found = _Rows(self._name, key)
        begin, count = 0, sum(run.rows for run in runs)
        if span is not None:
            numbers = [run.low for run in runs if run.low is not None]
            begin, count = min(numbers, default=0) + span.first, span.size
        before = 0
        for run in runs:
            low, high = (before, before + run.rows - 1) if run.low is None else (run.low, run.high)
            before += run.rows
            if span is None or (low < begin + count and begin <= (high or 0)):
                piece = self._decode(run.piece)
                rows = piece.groups.get(own, np.empty(0, np.int64))
                if span is not None:
                    order = np.arange(len(rows)) + low
                    numbered = order if piece.tokens is None else piece.tokens[rows]
                    rows = rows[slice(*np.searchsorted(numbered, [begin, begin + count]))]
                found.add(piece, rows, self._pieces[run.piece].first_row)
        return found.table(checks, count, None if span is None else begin)


class _Rows:
    """Collects the rows of one table from the pieces that hold them."""

    def __init__(self, name: str, key: Key) -> None:
        self._name = name
        self._key = key
        self._rows: list[npt.NDArray[np.int64]] = []
        self._tokens: list[npt.NDArray[np.int64]] = []
        self._ids: list[npt.NDArray[Any]] = []
        self._weights: list[npt.NDArray[Any]] = []
        self._bare: tuple[ListColumn, Place] | None = None

    def add(self, piece: _Decoded, rows: npt.NDArray[np.int64], first_row: int) -> None:
        """The rows ``rows`` of a piece that begins at ``first_row``."""
        if not len(rows):
            return
        key, first = self._key, sum(map(len, self._rows))
        if piece.tokens is not None:
            first = int(piece.tokens[rows[0]])
            self._tokens.append(piece.tokens[rows])
        place = Place(self._name, key.layer, key.step, first, key.model, rows, first_row)
        ids = piece.experts.gather(place)
        if self._ids and ids.shape[1] != self._ids[0].shape[1]:
            raise TraceError(
                f"{place.row(0)}: `experts` has {ids.shape[1]} values, but row "
                f"{int(self._rows[0][0])} has {self._ids[0].shape[1]}; all tokens of a layer have "
                "the same k"
            )
        self._ids.append(ids)
        self._rows.append(rows + first_row)
        gates = piece.weights
        if gates is not None and gates.present[rows].any():
            self._weights.append(gates.gather(place))
        elif gates is not None:
            self._bare = gates, place

    def table(self, checks: Checks, count: int, begin: int | None) -> RoutingTable:
        """What was collected: ``count`` tokens from token ``begin``, if that is known."""
        key = self._key
        rows = np.concatenate([np.empty(0, np.int64), *self._rows])
        first, order = begin or 0, None
        if self._tokens:
            tokens = np.concatenate(self._tokens)
            if (tokens[1:] < tokens[:-1]).any():
                order = np.argsort(tokens, kind="stable")
                rows, tokens = rows[order], tokens[order]
            _check_tokens(self._name, key, rows, tokens)
            first = int(tokens[0])
        if len(rows) != count or begin not in (None, first):
            raise TraceError(
                f"{self._name}: {key} has {len(rows)} of {count} tokens from token "
                f"{begin or first}; the recorder may have dropped some, leave the column `token` "
                "out to take the rows as they are"
            )
        if self._weights and self._bare is not None:
            column, place = self._bare
            column.gather(place)  # raises, with the row that has none
        place = Place(self._name, key.layer, key.step, first, key.model, rows)
        weights = _joined(self._weights, order) if self._weights else None
        return checked_table(_joined(self._ids, order), weights, place, checks)


def _columns(source: Pieces, name: str) -> list[str]:
    """The columns to read."""
    names = source.schema.names
    check_version(source.schema, name)
    if "experts" not in names:
        listed = ", ".join(f"`{column}`" for column in names) or "none"
        raise TraceError(
            f"{name}: has no column `experts` (found {listed}), expected one with the list of the "
            "k expert ids of each token; rename or build it"
        )
    if source.rows == 0:
        raise TraceError(
            f"{name}: the trace is empty, it has 0 rows, expected one per token; record it again"
        )
    known = [column for column in (*LABELS, "experts", "weights") if column in names]
    check_single(source.schema, known, name)
    if "weights" in known and pa.types.is_null(source.schema.field("weights").type):
        known.remove("weights")
    return known


def _order(key: Key) -> tuple[object, ...]:
    return key.model is not None, key.model or "", key.layer, key.step


def _may_hold(piece: Piece, labels: Labels) -> bool:
    """Whether a piece may have rows of the layers and steps asked for."""
    for name in ("layer", "step"):
        wanted, (low, high) = labels.wanted(name), piece.bounds.get(name, (None, None))
        if wanted is not None and low is not None and not any(low <= i <= high for i in wanted):
            return False
    return True


def _constant_key(piece: Piece, labels: Sequence[str]) -> Key | None:
    """The key of all rows of a piece, when its bounds tell that there is one."""
    found: dict[str, Any] = {"model": None, "layer": 0, "step": 0}
    for name in labels:
        if name in found:
            low, high = piece.bounds.get(name, (0, 1))
            # Negative and missing labels are refused when they are read.
            if low != high or (name != "model" and (low is None or low < 0)):
                return None
            found[name] = low
    return Key(found["layer"], found["step"], found["model"])


def _check_tokens(
    name: str, key: Key, rows: npt.NDArray[np.int64], tokens: npt.NDArray[np.int64]
) -> None:
    """Refuse repeated and missing tokens."""
    jumps = np.diff(tokens) != 1
    if jumps.any():
        at = int(np.argmax(jumps))
        here, there = int(tokens[at]), int(tokens[at + 1])
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


def _joined(
    parts: Sequence[npt.NDArray[Any]], order: npt.NDArray[np.intp] | None
) -> npt.NDArray[Any]:
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return whole if order is None else whole[order]
