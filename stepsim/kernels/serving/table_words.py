"""Profiled tables as the words and reals of :mod:`stepsim.kernels.serving.table`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepsim.kernels.serving import table
from stepsim.kernels.serving.table import Layer

_Words = NDArray[np.int64]

MOST_SKEW_BINS = table.R_END - table.R_SKEW_BINS
"""Bins of the skew of a table of corrections."""


class Line(NamedTuple):
    """A table: ascending keys, and the time in ns of each."""

    keys: _Words
    times: _Words


class LayerTime(NamedTuple):
    """A layer: what its time depends on, its table if it has one of its own, and when its weights
    are there, in ns after the start of the step."""

    kind: Layer
    line: Line | None = None
    weights_ns: int = 0


class AttentionTable(NamedTuple):
    """Times of attention, a row for each profiled case, sorted by the first four columns.

    Attributes
    ----------
    chunk, decodes, chunk_before, decode_before : tokens of prefills, number of decodes, and tokens
        before the prefills and before each decode. [rows]
    times : in ns. [rows]
    """

    chunk: _Words
    decodes: _Words
    chunk_before: _Words
    decode_before: _Words
    times: _Words


class SkewTable(NamedTuple):
    """Corrections for decodes of different lengths.

    Attributes
    ----------
    default : where there is none of its own.
    chunks : ascending lengths of prefills.
    decodes, skew, longest, before : ascending upper bounds of the bins.
    values : [chunks, decodes, skew, longest, before]
    """

    default: float
    chunks: _Words
    decodes: _Words
    skew: NDArray[np.float64]
    longest: _Words
    before: _Words
    values: NDArray[np.float64]


class ExpertTable(NamedTuple):
    """Times of the experts: a table over tokens for each of some numbers of active ones."""

    active: _Words
    lines: Sequence[Line]
    per_token: int
    experts: int


class Stage(NamedTuple):
    """Part of a collective: messages one after the other, bundles, those of them that add, and the
    part of the data that is a message, as a divisor."""

    messages: int
    bundles: int
    adding: int
    divisor: int


def table_words(
    *,
    prologue: Sequence[LayerTime],
    block: Sequence[LayerTime],
    blocks: int,
    head: Sequence[LayerTime],
    transfers_before: int,
    token_bytes: int,
    attention: AttentionTable,
    skew: SkewTable | None,
    experts: ExpertTable | None,
    collective: Sequence[Stage],
    host: float,
    memory: float,
    link: float,
    latency: float,
) -> tuple[_Words, NDArray[np.float64]]:
    """The words and reals of a table model; as `table` places them."""
    header = np.zeros(table.W_END, dtype=np.int64)
    parts: list[_Words] = [header]
    size = table.W_END

    def put(values: Sequence[int] | _Words) -> int:
        nonlocal size
        place = size
        parts.append(np.asarray(values, dtype=np.int64).ravel())
        size += len(parts[-1])
        return place

    layers = [word for layer in (*prologue, *block, *head) for word in _layer_words(layer, put)]
    header[table.W_BLOCKS] = blocks
    header[table.W_BEFORE] = transfers_before
    header[table.W_TOKEN_BYTES] = token_bytes
    header[table.W_PROLOGUE], header[table.W_BLOCK] = len(prologue), len(block)
    header[table.W_HEAD], header[table.W_LAYERS] = len(head), put(layers)
    header[table.W_STAGES] = len(collective)
    header[table.W_STAGE] = put([number for stage in collective for number in stage])
    _put_attention(header, attention, put)
    reals = [host, memory, link, latency, 0.0]
    if skew is not None:
        header[table.W_SKEW] = 1
        header[table.W_SKEW_CHUNKS], header[table.W_SKEW_CHUNK] = len(skew.chunks), put(skew.chunks)
        for axis, bounds in enumerate((skew.decodes, None, skew.longest, skew.before)):
            place = table.W_SKEW_BINS + 2 * axis
            header[place] = len(skew.skew if bounds is None else bounds)
            header[place + 1] = 0 if bounds is None else put(bounds)
        reals[table.R_SKEW] = skew.default
        reals += skew.skew.tolist()
    reals += [0.0] * (table.R_END - len(reals))
    if skew is not None:
        reals += skew.values.ravel().tolist()
    if experts is not None:
        header[table.W_EXPERTS], header[table.W_EXPERT] = len(experts.active), put(experts.active)
        rows = [(len(line.keys), put(line.keys), put(line.times)) for line in experts.lines]
        header[table.W_EXPERT_TABLE] = put([word for row in rows for word in row])
        header[table.W_MOST_EXPERTS] = experts.experts
        header[table.W_PER_TOKEN] = experts.per_token
    return np.concatenate(parts), np.array(reals, dtype=np.float64)


def _layer_words(layer: LayerTime, put: Any) -> tuple[int, int, int, int, int]:
    line = layer.line
    if line is None:
        return layer.kind, 0, 0, 0, layer.weights_ns
    return layer.kind, len(line.keys), put(line.keys), put(line.times), layer.weights_ns


def _put_attention(header: _Words, times: AttentionTable, put: Any) -> None:
    """A corner is one pair of chunk and number of decodes; its rows are those of equal tokens
    before the prefills."""
    chunks, decodes = np.unique(times.chunk), np.unique(times.decodes)
    header[table.W_CHUNKS], header[table.W_CHUNK] = len(chunks), put(chunks)
    header[table.W_DECODES], header[table.W_DECODE] = len(decodes), put(decodes)

    new_row = _changes(times.chunk, times.decodes, times.chunk_before)
    rows = np.flatnonzero(new_row)
    new_corner = _changes(times.chunk[rows], times.decodes[rows])
    corners = np.flatnonzero(new_corner)
    header[table.W_CORNER] = put([*corners, len(rows)])
    header[table.W_ROW_BEFORE] = put(times.chunk_before[rows])
    header[table.W_ROW] = put([*rows, len(times.times)])
    header[table.W_ENTRY_BEFORE] = put(times.decode_before)
    header[table.W_ENTRY] = put(times.times)

    pairs = times.chunk[rows[corners]], times.decodes[rows[corners]]
    grid = []
    for chunk in chunks:
        for count in decodes:
            # Without rows of its own it has those of the nearest pair, the first of several.
            grid.append(int(np.argmin((pairs[0] - chunk) ** 2 + (pairs[1] - count) ** 2)))
    header[table.W_GRID] = put(grid)


def _changes(*columns: _Words) -> NDArray[np.bool_]:
    """Rows in which any of the columns differs from the row before."""
    changed = np.ones(len(columns[0]), np.bool_)
    changed[1:] = np.any([np.diff(column) != 0 for column in columns], axis=0)
    return changed
