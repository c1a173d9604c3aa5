"""Tokens of sources: a value and a form each; tokens that differ only in value share a form.

A form is the slot of a token without its value: sides, width and kind of the payload, and the stop
level. Sources have few forms, so the engine needs only 16 bytes per token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import LoweringError
from stepsim.kernels import TOKEN
from stepsim.lowering.network import Network, UnitSpec

_Row = tuple[int, ...]
_LISTS: Final = ("tokens", "selectors", "values")
_NEEDED: Final = ("rows", "cols", "bytes", "rd", "valid")
_OPTIONAL: Final = ("level", "value")


class SourceTokens:
    """The tokens of all sources, in one array that grows as they are added.

    Parameters
    ----------
    network : determines how much space the tokens need.
    encode : the row of a slot for one token of a unit, its value first.
    slots : rows of slots, to which forms are appended.
    """

    def __init__(
        self, network: Network, encode: Callable[[UnitSpec, Mapping[str, Any]], _Row],
        slots: list[_Row],
    ) -> None:  # fmt: skip
        # The operating system commits memory as it is filled; growing would copy it.
        given = [spec.params for spec in network.units]
        lists = [params[name] for params in given for name in _LISTS if name in params]
        room = sum(len(one) for one in lists if isinstance(one, Sequence | np.ndarray))
        self._records = np.empty(max(room, 1), TOKEN)
        self._count = 0
        self._encode, self._slots = encode, slots
        self._forms: dict[_Row, int] = {}

    def add(self, spec: UnitSpec, tokens: Sequence[Mapping[str, Any]] | NDArray[np.void]) -> int:
        """Append the tokens of a source; index of the first.

        Raises
        ------
        LoweringError
            For tokens that do not fit, and columns that are missing or unknown.
        """
        if isinstance(tokens, np.ndarray):
            return self.add_tiles(spec, _columns(spec, tokens), len(tokens))
        tokens = list(tokens)  # a sequence may create new token objects on every access
        first, which = _distinct(tokens)
        rows = [self._row(spec, tokens[i], i) for i in first]
        values = np.array([value for value, *_ in rows], np.int64)
        forms = np.array([self._form(row) for row in rows], np.int64)
        return self._append(values[which], forms[which], len(tokens))

    def add_tiles(self, spec: UnitSpec, columns: Mapping[str, NDArray[Any]], count: int) -> int:
        """Append ``count`` tiles, given as columns of their numbers; index of the first."""
        if count == 0:
            return self._append(0, 0, 0)

        def form(row: int) -> int:
            return self._form(self._row(spec, _token(columns, row), row))

        forms = _forms(columns, form)
        values = columns.get("value", np.zeros(1, np.int64))
        for row in (int(values.argmin()), int(values.argmax())):
            form(row)  # refuses a value out of range
        return self._append(values, forms, count)

    def records(self) -> NDArray[np.void]:
        """All tokens."""
        return self._records[: self._count]

    def _append(self, values: Any, forms: Any, count: int) -> int:
        first, self._count = self._count, self._count + count
        if self._count > len(self._records):
            grown = np.empty(2 * self._count, TOKEN)
            grown[:first] = self._records[:first]
            self._records = grown
        new = self._records[first : self._count]
        new["value"], new["form"] = values, forms
        return first

    def _row(self, spec: UnitSpec, token: Mapping[str, Any], row: int) -> _Row:
        try:
            return self._encode(spec, token)
        except LoweringError as error:
            raise LoweringError(f"{error} (row {row} of the tokens)") from None

    def _form(self, row: _Row) -> int:
        """The slot that holds everything in a token but its value."""
        key = row[1:]
        if key not in self._forms:
            self._forms[key] = len(self._slots)
            self._slots.append((0, *key))
        return self._forms[key]


def _distinct(tokens: Sequence[Any]) -> tuple[list[int], NDArray[np.int64]]:
    """The first index of each distinct object of a list, and for each entry which object it is."""
    identities = np.fromiter(map(id, tokens), np.int64, len(tokens))
    _, first, which = np.unique(identities, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return [int(i) for i in first[order]], rank[which]


def _columns(spec: UnitSpec, tokens: NDArray[np.void]) -> dict[str, NDArray[Any]]:
    """The columns of tiles given as a structured array.

    Raises
    ------
    LoweringError
        A column is missing or unknown.
    """
    names = tokens.dtype.names or ()
    if missing := [name for name in _NEEDED if name not in names]:
        raise LoweringError(
            f"{spec.op} '{spec.name}': the array of tokens has no column {missing[0]!r}; it needs "
            f"{', '.join(_NEEDED)} and may have {', '.join(_OPTIONAL)}"
        )
    if unknown := [name for name in names if name not in (*_NEEDED, *_OPTIONAL)]:
        raise LoweringError(
            f"{spec.op} '{spec.name}': unknown column {unknown[0]!r} of the array of tokens; known "
            f"are {', '.join((*_NEEDED, *_OPTIONAL))}"
        )
    return {name: tokens[name] for name in names}


def _token(columns: Mapping[str, NDArray[Any]], row: int) -> dict[str, Any]:
    """One row of the columns as an equivalent dict."""
    found = {name: np.asarray(column[row]).item() for name, column in columns.items()}
    token: dict[str, Any] = {"tile": [found[name] for name in _NEEDED]}
    return token | {name: found[name] for name in _OPTIONAL if name in found}


def _forms(
    columns: Mapping[str, NDArray[Any]], form: Callable[[int], int]
) -> NDArray[np.int64] | int:
    """The form of every row; ``form`` is called once for each set of equal rows."""
    which: NDArray[np.int64] | None = None
    for name, column in columns.items():
        if name == "value" or bool((column == column[0]).all()):
            continue
        _, codes = np.unique(column, return_inverse=True)
        if which is None:
            which = codes
        else:
            _, which = np.unique(which * (int(codes.max()) + 1) + codes, return_inverse=True)
    if which is None:
        return form(0)
    _, first = np.unique(which, return_index=True)
    return np.array([form(int(row)) for row in first], np.int64)[which]
