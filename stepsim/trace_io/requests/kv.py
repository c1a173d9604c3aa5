"""KV-cache lengths: the number of cached tokens of each request of a batch, in arrival order.

A file holds one batch, or many: any consecutive requests of a request trace are a batch, and so is
each step of a replay.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stepsim.data import locate
from stepsim.errors import ArgError, TraceError
from stepsim.trace_io.detection import detect_trace_format
from stepsim.trace_io.files import detect_format
from stepsim.trace_io.formats import trace_formats
from stepsim.trace_io.formats.lengths import check_lengths, no_columns, open_lengths
from stepsim.trace_io.importing import load_context_tokens
from stepsim.trace_io.requests.decode_steps import DecodeStepFile
from stepsim.trace_io.routing.parts import Span, check_window
from stepsim.trace_io.sources.arrow import open_pieces
from stepsim.typed import typed

Lengths = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class KvFile:
    """Batches of KV-cache lengths, of which only the sizes have been read.

    Attributes:
        name: of the file.
        steps: int64 [batches], the decode step of each; None for a file without steps.
        sizes: int64 [batches], requests of each.
    """

    name: str
    steps: Lengths | None
    sizes: Lengths
    _read: Callable[[int, Span], npt.NDArray[Any]]

    def label(self, batch: int) -> str:
        """The batch as named in a message: ``step 3 has 64 requests``."""
        where = "it" if self.steps is None else f"step {int(self.steps[batch])}"
        return f"{where} has {int(self.sizes[batch])} requests"

    def read(
        self,
        batch: int = 0,
        *,
        requests: int | None = None,
        window: int | None = None,
        minimum: int = 0,
        maximum: int | None = None,
    ) -> Lengths:
        """The lengths of a batch, int64 [requests], or of a window; see `read_kv_lengths`.

        Raises:
            TraceError: another number of requests, no such window, or a length is out of bounds.
            ArgError: ``window`` is given without ``requests`` or out of range, or the bounds leave
                no length.
        """
        size = int(self.sizes[batch])
        if window is not None:
            if requests is None:
                raise ArgError(
                    f"{self.name}: the size of window {window} is not known; give requests= as well"
                )
            span = check_window(self.name, self.label(batch), size, window, requests)
        elif requests in (None, size):
            span = Span(0, size)
        else:
            raise TraceError(
                f"{self.name}: {size} lengths, expected {requests}; choose a file with this batch "
                "size, or one window of many with window="
            )
        values = self._read(batch, span)
        return check_lengths(
            values,
            self.name,
            first_row=span.first,
            step=None if self.steps is None else int(self.steps[batch]),
            minimum=minimum,
            maximum=maximum,
        )


def open_kv_lengths(
    source: str | os.PathLike[str], *, column: str | None = None, requests: int | None = None
) -> KvFile:
    """The batches of a file; see :func:`read_kv_lengths` for what it may be.

    ``requests`` is the number of lengths the caller expects, if there is one.

    Text and request traces are read at once, 8 bytes per request; from the steps of a replay and
    from arrays only the requested batch is read.

    Raises:
        TraceError: the file is unreadable, or holds no lengths.
    """
    path = locate(source)
    name, kind = str(path), detect_format(path)
    if kind in ("npy", "npz"):
        if column is not None:
            raise no_columns(name, column)
        array = open_lengths(path, kind, requests=requests)
        return KvFile(name, None, np.array(array.shape), lambda _, span: array.read(*span))
    if kind is not None:
        if column is not None:
            raise no_columns(name, column)
        return _arrow(path, kind)
    own = column is None and _is_request_trace(path)
    format = None if own else "lengths"
    return _in_memory(name, load_context_tokens(path, format=format, column=column))


@typed
def read_kv_lengths(
    source: str | os.PathLike[str] | npt.NDArray[Any],
    *,
    column: str | None = None,
    requests: int | None = None,
    step: int | None = None,
    window: int | None = None,
    minimum: int = 0,
    maximum: int | None = None,
) -> Lengths:
    """Read and check KV-cache lengths; the result is int64 [requests], C-contiguous, read-only.

    Args:
        source: a .npy file, a .npz file (its only array, or the one called ``lengths`` or
            ``data``), text with one length per line and an optional header, a request
            trace (the lengths of its prompts), the steps of a replay, the name of a data set
            (see `stepsim.data`), or a NumPy array.
        column: which column of a .csv file with a header to read.
        requests: number of lengths expected; with ``window``, how many it has.
        step: which step of a replay.
        window: read only this batch of ``requests`` consecutive requests, counted from 0; the
            remaining requests at the end, too few for a batch, belong to no window.
        minimum, maximum: bounds of a length, in tokens, inclusive.

    Raises:
        TraceError: the file is unreadable, is not one vector of integers, is empty, holds several
            steps and none is chosen, has fewer windows, or a length is out of bounds;
            the message has the file, the row (or line of a text file, or
            step and request of a replay, from 0) and the value.
        ArgError: ``window`` is given without ``requests`` or out of range, or the bounds leave no
            length.
    """
    if isinstance(source, np.ndarray):
        if column is not None:
            raise no_columns("array", column)
        file = _in_memory("array", check_lengths(source, "array", minimum=minimum, maximum=maximum))
    else:
        file = open_kv_lengths(source, column=column, requests=requests)
    batch = _batch_of(file, step)
    return file.read(batch, requests=requests, window=window, minimum=minimum, maximum=maximum)


def _batch_of(file: KvFile, step: int | None) -> int:
    if file.steps is None:
        if step is not None:
            raise TraceError(
                f"{file.name}: has no steps to choose {step} from, only files written by "
                "`stepsim trace replay` have steps; leave step= out"
            )
        return 0
    first, last = int(file.steps.min()), int(file.steps.max())
    found = np.arange(len(file.steps)) if step is None else np.flatnonzero(file.steps == step)
    if len(found) != 1:
        asked = "expected one" if step is None else f"{len(found)} of them are step {step}"
        raise TraceError(
            f"{file.name}: holds {len(file.steps)} steps from {first} to {last}, {asked}; choose "
            "one of them with step="
        )
    return int(found[0])


def _in_memory(name: str, lengths: Lengths) -> KvFile:
    if not len(lengths):
        check_lengths(lengths, name)
    sizes = np.array([len(lengths)])
    return KvFile(name, None, sizes, lambda _, span: lengths[span.first : span.first + span.size])


def _is_request_trace(path: Path) -> bool:
    try:
        return trace_formats()[detect_trace_format(path)].holds == "requests"
    except TraceError:
        return False


def _arrow(path: Path, kind: str) -> KvFile:
    source = open_pieces(path, kind)
    names = source.schema.names
    if "context_tokens" in names:
        return _in_memory(str(path), load_context_tokens(path))
    if "kv_lengths" in names and "step" in names:
        steps = DecodeStepFile(source, str(path))
        return KvFile(str(path), steps.steps, steps.sizes, steps.read)
    listed = ", ".join(f"`{name}`" for name in names) or "none"
    raise TraceError(
        f"{path}: has columns {listed}, expected `context_tokens` of a request trace, or `step` "
        "and `kv_lengths` of a replay; convert it with: stepsim trace import"
    )
