"""Rows that hold one token each: from Arrow columns to expert ids and weights per token.

All reading of tokens by rows goes through here: reading one layer, reading one window of it, and
importing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stepsim.arrow import pa
from stepsim.trace_io.columns import Lists, index_column, list_column, name_column
from stepsim.trace_io.routing.validate import Place
from stepsim.trace_io.schema import check_version
from stepsim.trace_io.sources.arrow import check_single

LABELS: Mapping[str, type] = {"model": str, "layer": int, "step": int, "token": int}
"""The columns that identify the part of a row, and the types of their values."""


@dataclass(frozen=True)
class Key:
    """The labels of the tokens of one layer in one step."""

    layer: int
    step: int
    model: str | None

    def __str__(self) -> str:
        head = "" if self.model is None else f"model {self.model!r} "
        return f"{head}layer {self.layer} step {self.step}"


@dataclass(frozen=True)
class Tokens:
    """Tokens of one key.

    Attributes:
        rows: int64 [tokens], the row of each in its source.
        numbers: int64 [tokens], the number of each, or None if they have none.
        experts, weights: a list per token; ``weights`` is None if the source has none.
    """

    rows: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64] | None
    experts: Lists
    weights: Lists | None

    @staticmethod
    def join(parts: Sequence[Tokens]) -> Tokens:
        """All tokens of the parts of one source, in the order of their numbers."""
        numbers = [part.numbers for part in parts if part.numbers is not None]
        weights = [part.weights for part in parts if part.weights is not None]
        found = Tokens(
            np.concatenate([part.rows for part in parts]),
            np.concatenate(numbers) if numbers else None,
            Lists.join([part.experts for part in parts]),
            Lists.join(weights) if weights else None,
        )
        if found.numbers is None or (found.numbers[1:] >= found.numbers[:-1]).all():
            return found
        return found._take(np.argsort(found.numbers, kind="stable"))

    def place(self, source: str, key: Key, first: int) -> Place:
        """Where the tokens come from; ``first`` is the number of the first one."""
        return Place(source, key.layer, key.step, first, key.model, self.rows)

    def values(self, place: Place) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
        """Ids and weights, [tokens, k]; no weights if all of them are null.

        Raises:
            TraceError: a value is missing, or tokens differ in k.
        """
        ids = self.experts.matrix(place)
        if self.weights is None or not self.weights.present.any():
            return ids, None
        return ids, self.weights.matrix(place)

    def _take(self, index: npt.NDArray[np.intp]) -> Tokens:
        return Tokens(
            self.rows[index],
            None if self.numbers is None else self.numbers[index],
            self.experts.take(index),
            None if self.weights is None else self.weights.take(index),
        )


class TokenRows:
    """Consecutive rows of a source, decoded and grouped.

    Args:
        table: columns as `token_columns` names them.
        source: its name, for messages.
        experts: the column of expert ids.
        first_row: where the table begins in the source.
        by_number: rows of a key are sorted by their token numbers, else they stay as they come.

    Attributes:
        numbers, groups: as `grouped` gives them.
    """

    def __init__(
        self,
        table: pa.Table,
        source: str,
        experts: str = "experts",
        *,
        first_row: int = 0,
        by_number: bool = True,
    ) -> None:
        self.numbers, self.groups = grouped(table, source, first_row, by_number=by_number)
        self._first_row = first_row
        self._experts = list_column(table, experts, source, what="expert ids")
        self._weights: Lists | None = None
        if "weights" in table.column_names:
            self._weights = list_column(
                table, "weights", source, what="gate weights", floating=True
            )

    def take(self, rows: npt.NDArray[np.int64]) -> Tokens:
        """The tokens in some of the rows, counted from the first one of the table."""
        return Tokens(
            rows + self._first_row,
            None if self.numbers is None else self.numbers[rows],
            self._experts.take(rows),
            None if self._weights is None else self._weights.take(rows),
        )


def grouped(
    table: pa.Table, source: str, first_row: int, *, by_number: bool = True
) -> tuple[npt.NDArray[np.int64] | None, dict[Key, npt.NDArray[np.int64]]]:
    """The numbers of the tokens, if they have any, and the rows of each key.

    Keys are in the order of model, layer and step; see `TokenRows` for the arguments.

    Raises:
        TraceError: a label is missing, or of another type or out of range.
    """
    zeros = np.zeros(table.num_rows, dtype=np.int64)
    layers, steps, tokens = (
        index_column(table, name, source, first_row) if name in table.column_names else None
        for name in ("layer", "step", "token")
    )
    names: list[str | None] = [None]
    codes = zeros
    if "model" in table.column_names:
        names, codes = name_column(table, "model", source)
    keys = [codes, zeros if layers is None else layers, zeros if steps is None else steps]
    order = keys[::-1]
    if by_number and tokens is not None:
        order = [tokens, *order]
    rows = np.lexsort(order).astype(np.int64)
    if not len(rows):
        return tokens, {}
    begins = np.zeros(len(rows) - 1, dtype=bool)
    for labels in keys:
        begins |= np.diff(labels[rows]) != 0
    groups = {}
    for part in np.split(rows, np.flatnonzero(begins) + 1):
        code, layer, step = (int(labels[part[0]]) for labels in keys)
        groups[Key(layer, step, names[code])] = part
    return tokens, groups


def token_columns(schema: pa.Schema, experts: str, source: str) -> list[str]:
    """The columns to read of a table with a row per token, whose ids are in ``experts``.

    Raises:
        TraceError: a column occurs twice, or the table is of a later version of the schema.
    """
    check_version(schema, source)
    known = [name for name in (*LABELS, experts, "weights") if name in schema.names]
    check_single(schema, known, source)
    if "weights" in known and pa.types.is_null(schema.field("weights").type):
        known.remove("weights")
    return known
