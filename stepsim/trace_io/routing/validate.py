"""Checks of every value of a routing table; a failure names the file, the row and the value.

Rows are counted from 0, in the file or table the values come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stepsim.errors import TraceError
from stepsim.shown import shown
from stepsim.typed import typed

_MAX_ID = int(np.iinfo(np.int32).max)
_SHOWN_IDS = 64


@dataclass(frozen=True)
class Known:
    """What the caller knows about expert ids; None for what is not known.

    Attributes:
        experts: number of experts of the model; ids must be below.
        k: experts the model chooses per token.
        tokens: number of tokens expected.
        model: name of the model that has these experts.
    """

    experts: int | None = None
    k: int | None = None
    tokens: int | None = None
    model: str | None = None

    @property
    def owner(self) -> str:
        """The model as named in an error; rows may be labeled with another one."""
        return "the model" if self.model is None else f"model {self.model!r}"


@dataclass(frozen=True)
class Place:
    """Where the rows of one (layer, step) come from, to word an error.

    ``rows`` gives the row in the source of each token; None means that they are the same.
    ``first_row`` is added to it, for a piece of a longer source.
    """

    source: str
    layer: int = 0
    step: int = 0
    first_token: int = 0
    model: str | None = None
    rows: npt.NDArray[np.int64] | None = None
    first_row: int = 0

    @typed
    def source_row(self, index: int) -> int:
        """The row of the ``index``-th token in the source."""
        return self.first_row + (index if self.rows is None else int(self.rows[index]))

    @typed
    def row(self, index: int) -> str:
        """Name the row of the ``index``-th token."""
        return (
            f"{self.source}: row {self.source_row(index)} (layer {self.layer}, step {self.step}, "
            f"token {self.first_token + index})"
        )

    @property
    def labels(self) -> str:
        """The labels of the rows."""
        own = "" if self.model is None else f"model {self.model!r}, "
        return f"{own}layer {self.layer}, step {self.step}"


def array_of(what: str, values: object, source: str) -> npt.NDArray[Any]:
    """An array of whatever numpy takes for one.

    Raises:
        TraceError: lists of different lengths, or nested too deep.
    """
    try:
        return np.asanyarray(values)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise TraceError(
            f"{source}: {what} are {shown(values)}, expected an array of numbers; give all rows "
            "the same length"
        ) from None


def check_experts(values: npt.NDArray[Any], place: Place, known: Known) -> npt.NDArray[np.int32]:
    """Check a [tokens, k] array of expert ids and return a copy as int32, C-contiguous.

    Raises:
        TraceError: wrong dtype, shape, k or row count, an id out of range, or the same id twice
            in a token.
    """
    check_integer_dtype(values, place.source, "expert ids")
    _check_shape(values, place, known)
    experts = known.experts
    if experts is not None and values.shape[1] > experts:
        raise TraceError(
            f"{place.source}: {values.shape[1]} experts per token, but {known.owner} has only "
            f"{experts} experts; check that the trace belongs to this model"
        )
    _check_range(values, place, known)
    ids = values.astype(np.int32, order="C", subok=False)
    _check_distinct(ids, place)
    return ids


def check_weights(
    values: npt.NDArray[Any], shape: tuple[int, ...], place: Place
) -> npt.NDArray[np.float32]:
    """Check the gate weights that go with expert ids of ``shape`` and return a copy as float32.

    Raises:
        TraceError: not floating point, another shape than the ids, or a value that is not finite
            as float32.
    """
    if values.dtype.kind != "f":
        raise TraceError(
            f"{place.source}: weights are {values.dtype}, expected floating point; "
            "convert them with .astype(np.float32)"
        )
    check_weights_shape(values.shape, shape, place.source)
    with np.errstate(over="ignore"):
        weights = values.astype(np.float32, order="C", subok=False)
    bad = ~np.isfinite(weights)
    if bad.any():
        row, slot = _first(bad)
        raise TraceError(
            f"{place.row(row)}: weight {values[row, slot]} in slot {slot} is not a finite "
            f"float32{_more(bad)}; leave the weights out or record them again"
        )
    return weights


def check_weights_shape(found: tuple[int, ...], shape: tuple[int, ...], source: str) -> None:
    """Refuse gate weights of another shape than the expert ids.

    Raises:
        TraceError: the shapes differ.
    """
    if found != shape:
        raise TraceError(
            f"{source}: weights have shape {found}, the expert ids {shape}; each expert id needs "
            "one weight"
        )


def check_integer_dtype(values: npt.NDArray[Any], source: str, what: str) -> None:
    """Refuse any type but integers, with advice for the types that occur in practice.

    Raises:
        TraceError: the dtype is not an integer.
    """
    # Naming masked arrays imports them.
    if type(values) is not np.ndarray and np.ma.is_masked(values):
        raise TraceError(
            f"{source}: {what} are masked at {int(np.ma.getmaskarray(values).sum())} places, "
            "expected a value everywhere; drop these rows first"
        )
    kind = values.dtype.kind
    if kind in "iu":
        return
    head = f"{source}: {what} are {values.dtype}, expected integers"
    if kind == "f":
        missing = np.atleast_1d(np.isnan(values))
        found = ""
        if missing.any():
            where = _first(missing)
            found = f" (row {where[0]} holds nan{_more(missing)})"
        raise TraceError(f"{head}{found}; drop missing values, then convert with .astype(np.int32)")
    if kind == "b":
        raise TraceError(f"{head}; a mask is not a table of ids, convert it with np.nonzero")
    if kind == "O":
        raise TraceError(
            f"{head}; rows of different lengths or None produce an object array, correct them"
        )
    raise TraceError(f"{head}; convert them to int32 before saving")


def _check_shape(values: npt.NDArray[Any], place: Place, known: Known) -> None:
    shape, k, tokens = values.shape, known.k, known.tokens
    if values.ndim != 2:
        hint = {
            1: "for one expert per token reshape it to (tokens, 1)",
            3: "choose one layer of [tokens, layers, k]",
        }.get(values.ndim, "choose one layer and step")
        raise TraceError(
            f"{place.source}: expert ids have {values.ndim} dims, shape {shape}, "
            f"expected [tokens, k]; {hint}"
        )
    if shape[0] == 0:
        raise TraceError(
            f"{place.source}: the trace is empty, it has 0 tokens (shape {shape}), expected at "
            "least 1; record it again"
        )
    if shape[1] == 0:
        raise TraceError(
            f"{place.source}: tokens have 0 experts (shape {shape}), expected at least 1; "
            "record it again"
        )
    if k is not None and shape[1] != k:
        raise TraceError(
            f"{place.source}: {shape[1]} experts per token ({place.labels}), but "
            f"{known.owner} chooses k = {k}; check that the trace belongs to "
            "this model"
        )
    if tokens is not None and shape[0] != tokens:
        raise TraceError(
            f"{place.source}: {shape[0]} tokens (layer {place.layer}, step {place.step}), "
            f"expected {tokens}; the recorder may have dropped or padded some"
        )


def _check_range(values: npt.NDArray[Any], place: Place, known: Known) -> None:
    experts = known.experts
    limit = _MAX_ID if experts is None else experts - 1
    bad = (values < 0) | (values > limit)
    if not bad.any():
        return
    row, slot = _first(bad)
    value = int(values[row, slot])
    if experts is None:
        allowed = f"ids are int32 counted from 0 (0..{_MAX_ID})"
    else:
        allowed = f"{known.owner} has {experts} experts (ids 0..{experts - 1})"
    hint = (
        "negative ids often mark padding, drop these tokens"
        if value < 0
        else "check that the trace belongs to this model"
    )
    raise TraceError(
        f"{place.row(row)}: expert id {value} is out of range{_more(bad)}; {allowed}; {hint}"
    )


def _check_distinct(ids: npt.NDArray[np.int32], place: Place) -> None:
    ordered = np.sort(ids, axis=1)
    repeated = ordered[:, 1:] == ordered[:, :-1]
    if not repeated.any():
        return
    row, slot = _first(repeated)
    value, own = int(ordered[row, slot]), ids[row]
    among = str(own.tolist())
    if len(own) > _SHOWN_IDS:
        first, second = np.flatnonzero(own == value)[:2]
        among = f"{len(own)} ids, in slots {first} and {second}"
    raise TraceError(
        f"{place.row(row)}: expert id {value} occurs more than once in {among}"
        f"{_more(repeated)}; a token chooses each expert at most once, "
        "record the trace again or drop the token"
    )


def _first(bad: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    """Index of the first true element, in row-major order."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))


def _more(bad: npt.NDArray[np.bool_]) -> str:
    rows = int(bad.reshape(bad.shape[0], -1).any(axis=1).sum()) - 1
    if rows == 0:
        return ""
    return f" (and in {rows} more row{'s' if rows > 1 else ''})"
