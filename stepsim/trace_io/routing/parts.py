"""Parts of a routing trace, one per (model, layer, step), before their ids are read.

Finding the parts reads only labels: no values of an array, and none of a Parquet row group whose
statistics show a single label. Reading a part of Arrow data decodes the pieces that hold it;
reading a window decodes only the pieces that hold its tokens. The pieces decoded last are kept,
since parts and windows are mostly read in order.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from stepsim.arrow import pa
from stepsim.errors import ArgError, TraceError
from stepsim.trace_io.routing.rows import LABELS, Key, TokenRows, Tokens, grouped, token_columns
from stepsim.trace_io.routing.table import RoutingTable
from stepsim.trace_io.routing.validate import Known, Place
from stepsim.trace_io.sources.arrow import Piece, Pieces, empty_table
from stepsim.trace_io.sources.numpy import Array

_KEPT_ROWS = 1 << 19
"""Rows of decoded pieces that are kept, about 40 MB with k = 8; but always two pieces."""


@dataclass(frozen=True)
class Labels:
    """The layer, step and model the caller asks for; any of ``layers`` and ``steps``."""

    layer: int | None = None
    step: int | None = None
    model: str | None = None
    layers: frozenset[int] | None = None
    steps: frozenset[int] | None = None

    def single(self) -> list[tuple[str, int | str | None]]:
        """The labels that take a single value, with their names."""
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


class Span(NamedTuple):
    """Tokens ``first`` to ``first + size - 1`` of a part, counted from its first one."""

    first: int
    size: int


@dataclass(frozen=True)
class RoutingPart:
    """One layer-step of a source, of which only the labels have been read.

    Attributes:
        source: its name, for messages.
        key: the labels; also as ``layer``, ``step`` and ``model``.
        tokens: how many it has.
        first_row: where it begins in the source; parts read in this order are read fastest.
        known: what the caller knows about it.
    """

    source: str
    key: Key
    tokens: int
    first_row: int
    known: Known
    _load: Callable[[Span | None, Known], RoutingTable]

    @property
    def layer(self) -> int:
        """Index of the layer."""
        return self.key.layer

    @property
    def step(self) -> int:
        """Index of the forward pass."""
        return self.key.step

    @property
    def model(self) -> str | None:
        """Name of the model."""
        return self.key.model

    def read(self) -> RoutingTable:
        """All tokens.

        Raises:
            TraceError: a value is invalid.
        """
        wanted = self.known.tokens
        if wanted is not None and self.tokens > wanted:
            # Checked before all of them are read.
            raise TraceError(
                f"{self.source}: {self.tokens} tokens ({self.key}), expected {wanted}; the "
                "recorder may have padded some, or choose one window of many with "
                "window="
            )
        return self._load(None, self.known)

    def read_window(self, window: int, tokens: int) -> RoutingTable:
        """Batch number ``window``, from 0, of ``tokens`` consecutive tokens each.

        Raises:
            ArgError: an argument is out of range.
            TraceError: there are fewer windows, or a value is invalid.
        """
        what = f"{self.key} has {self.tokens} tokens"
        span = check_window(self.source, what, self.tokens, window, tokens)
        return self._load(span, replace(self.known, tokens=tokens))


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


def array_parts(
    ids: Array, weights: Array | None, labels: Labels, known: Known
) -> list[RoutingPart]:
    """The parts of an array [tokens, k] or [tokens, layers, k] that were asked for.

    Raises:
        TraceError: it has no such layer, or does not hold integers.
    """
    step = 0 if labels.step is None else labels.step
    shape = ids.shape
    if len(shape) != 3:
        # Arrays with a number of dims other than 2 and 3 are refused when they are read.
        keys: dict[Key, int | None] = {
            Key(0 if labels.layer is None else labels.layer, step, labels.model): None
        }
    else:
        ids.check_integers("expert ids")
        wanted = range(shape[1]) if labels.layer is None else [labels.layer]
        if not shape[1] or not 0 <= wanted[0] < shape[1]:
            raise TraceError(
                f"{ids.name}: has no layer {labels.layer or 0}, its shape {shape} is read as "
                "[tokens, layers, k] with layers "
                f"{f'0..{shape[1] - 1}' if shape[1] else 'none'}; choose one of them with layer="
            )
        keys = {Key(layer, step, labels.model): layer for layer in wanted}

    def load(key: Key, layer: int | None, span: Span | None, known: Known) -> RoutingTable:
        first, count = (0, None) if span is None else span
        gates = None if weights is None else weights.read(first, count, layer)
        place = Place(ids.name, key.layer, key.step, first, key.model)
        return RoutingTable.checked(ids.read(first, count, layer), gates, place, known)

    tokens = shape[0] if shape else 0
    return [
        RoutingPart(ids.name, key, tokens, 0, known, partial(load, key, layer))
        for key, layer in keys.items()
        if labels.match(key)
    ]


@dataclass(frozen=True)
class _Run:
    """The rows of one part in one piece; their tokens are ``low`` to ``high``."""

    piece: int
    first_row: int
    rows: int
    low: int
    high: int


class ArrowParts:
    """The parts of Arrow data.

    Args:
        source: the pieces.
        name: of the source, for messages.

    Raises:
        TraceError: a column is missing, duplicated or of another type, or there are no rows.
    """

    def __init__(self, source: Pieces, name: str) -> None:
        self._pieces = source.pieces
        self._name = name
        self._columns = _columns(source, name)
        self._labels = [column for column in LABELS if column in self._columns]
        self._decoded: OrderedDict[int, TokenRows] = OrderedDict()
        self._lock = threading.Lock()
        with suppress(pa.ArrowNotImplementedError):  # types of which no empty array can be made
            TokenRows(empty_table(source.schema, name).select(self._columns), name)

    def find(self, labels: Labels, known: Known) -> list[RoutingPart]:
        """The parts that match, in the order of model, layer and step."""
        found: dict[Key, list[_Run]] = {}
        for number, piece in enumerate(self._pieces):
            if piece.rows and _may_hold(piece, labels):
                for key, first_row, rows, numbers in self._runs(piece):
                    runs = found.setdefault(key, [])
                    before = sum(run.rows for run in runs)
                    low, high = numbers or (before, before + rows - 1)
                    runs.append(_Run(number, first_row, rows, low, high))
        named = any(key.model is not None for key in found)
        parts = []
        for own in sorted(found, key=_order):
            # Rows without a label take the given one.
            key = Key(
                own.layer if "layer" in self._columns else labels.layer or 0,
                own.step if "step" in self._columns else labels.step or 0,
                own.model if named else labels.model,
            )
            if labels.match(key):
                runs = found[own]
                tokens = sum(run.rows for run in runs)
                first_row = min(run.first_row for run in runs)
                load = partial(self._load, own, key, runs)
                parts.append(RoutingPart(self._name, key, tokens, first_row, known, load))
        return parts

    def _runs(self, piece: Piece) -> Iterator[tuple[Key, int, int, tuple[int, int] | None]]:
        """For each key in a piece: the first row, the number of rows, and the lowest and highest
        token."""
        constant = _constant_key(piece, self._labels)
        if constant is not None and ("token" not in self._labels or "token" in piece.bounds):
            yield constant, piece.first_row, piece.rows, piece.bounds.get("token")
            return
        tokens, groups = grouped(piece.read(self._labels), self._name, piece.first_row)
        for key, rows in groups.items():
            numbers = None if tokens is None else (int(tokens[rows[0]]), int(tokens[rows[-1]]))
            yield key, piece.first_row + int(rows.min()), len(rows), numbers

    def _decode(self, number: int) -> TokenRows:
        with self._lock:
            if number not in self._decoded:
                piece = self._pieces[number]
                table = piece.read(self._columns)
                self._decoded[number] = TokenRows(table, self._name, first_row=piece.first_row)
                self._forget()
            self._decoded.move_to_end(number)
            return self._decoded[number]

    def _forget(self) -> None:
        rows = sum(self._pieces[number].rows for number in self._decoded)
        while len(self._decoded) > 2 and rows > _KEPT_ROWS:
            oldest, _ = self._decoded.popitem(last=False)
            rows -= self._pieces[oldest].rows

    def _load(
        self,
        own: Key,
        key: Key,
        runs: Sequence[_Run],
        span: Span | None,
        known: Known,
    ) -> RoutingTable:
        """The table of ``key``, labeled ``own`` in the source."""
        count = sum(run.rows for run in runs)
        begin = min(run.low for run in runs)
        if span is not None:
            begin, count = begin + span.first, span.size
        taken = []
        for run in runs:
            if span is None or (run.low < begin + count and begin <= run.high):
                piece = self._decode(run.piece)
                rows = piece.groups.get(own, np.empty(0, np.int64))
                if span is not None:
                    order = run.low + np.arange(len(rows))
                    numbers = order if piece.numbers is None else piece.numbers[rows]
                    rows = rows[slice(*np.searchsorted(numbers, [begin, begin + count]))]
                taken.append(piece.take(rows))
        found = sum(len(part.rows) for part in taken)
        if found:
            tokens = Tokens.join(taken)
            _check_numbers(self._name, key, tokens)
            if found == count and (tokens.numbers is None or tokens.numbers[0] == begin):
                place = tokens.place(self._name, key, begin)
                return RoutingTable.checked(*tokens.values(place), place, known)
        raise TraceError(
            f"{self._name}: {key} has {found} of {count} tokens from token {begin}; the recorder "
            "may have dropped some, leave the column `token` out to take the rows as they are"
        )


def _columns(source: Pieces, name: str) -> list[str]:
    """The columns to read."""
    names = source.schema.names
    known = token_columns(source.schema, "experts", name)
    if "experts" not in known:
        listed = ", ".join(f"`{column}`" for column in names) or "none"
        raise TraceError(
            f"{name}: has no column `experts` (found {listed}), expected one with the list of the "
            "k expert ids of each token; rename or build it"
        )
    if source.rows == 0:
        raise TraceError(
            f"{name}: the trace is empty, it has 0 rows, expected one per token; record it again"
        )
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
    """The key of all rows of a piece, if its bounds show that there is only one."""
    found: dict[str, Any] = {"model": None, "layer": 0, "step": 0}
    for name in labels:
        if name in found:
            low, high = piece.bounds.get(name, (0, 1))
            # Negative and missing labels are refused when they are read.
            if low != high or (name != "model" and (low is None or low < 0)):
                return None
            found[name] = low
    return Key(found["layer"], found["step"], found["model"])


def _check_numbers(name: str, key: Key, tokens: Tokens) -> None:
    """Refuse repeated and missing tokens."""
    if tokens.numbers is None or not (jumps := np.diff(tokens.numbers) != 1).any():
        return
    at = int(np.argmax(jumps))
    here, there = (int(number) for number in tokens.numbers[at : at + 2])
    places = f"rows {int(tokens.rows[at])} and {int(tokens.rows[at + 1])}"
    if here == there:
        raise TraceError(
            f"{name}: {places} ({key}) both hold token {here}, expected each token once; "
            "distinguish forward passes by a column `step`"
        )
    raise TraceError(
        f"{name}: {places} ({key}) hold tokens {here} and {there}, expected consecutive "
        f"tokens, {there - here - 1} are missing; the recorder may have dropped them, "
        "leave the column `token` out to take the rows as they are"
    )
