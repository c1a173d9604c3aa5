"""llama.cpp style CSV: one row ``layer,expert`` per choice, in the order of computation.

The rows of one layer of one pass (ubatch) follow each other, k per token. A layer number that does
not increase begins the next pass, which becomes the next step. k is not in the file: by default,
it is the greatest common divisor of the lengths of all runs of a layer. This is right as soon as
the trace has a pass with a single token, as for every generated token. A run that was cut off
would make it smaller: so the last run must fit the others, and k = 1 requires a run of one row.

A model with a single routed layer does not show where a pass ends; all its rows are one step. The
last layer of a prompt pass may have fewer tokens, since only the outputs wanted are computed.

Source: https://github.com/ggml-org/llama.cpp/pull/28544 (examples/moe-trace: one ``layer,expert``
row per routed activation, from the tensors ``ffn_moe_topk``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stepsim.errors import TraceError
from stepsim.trace_io.formats.format import Content, Format
from stepsim.trace_io.formats.job import ImportJob
from stepsim.trace_io.routing.table import RoutingTable
from stepsim.trace_io.routing.validate import Place
from stepsim.trace_io.sources.text import first_fields, read_lines

_HEADER = ["layer", "expert"]
_MAX_INDEX = int(np.iinfo(np.int32).max)


@dataclass(frozen=True)
class _Stretch:
    """Consecutive rows of one layer; ``begins`` marks the first row of each run."""

    layer: int
    begins: bool
    lines: npt.NDArray[np.int64]
    experts: npt.NDArray[np.int64]


def _read(job: ImportJob) -> Iterator[RoutingTable]:
    inferred = job.k is None
    k = job.k if job.k is not None else _infer_k(job.path)
    if inferred:
        job.notes.append(f"k = {k}, from the lengths of the runs of a layer; --k overrides it")
    if not job.format_given and first_fields(job.path) != _HEADER:
        job.notes.append(
            "the file has no header, so its two columns are read as layer,expert; "
            "--format llamacpp confirms this"
        )
    step, token, last, rest = 0, 0, None, None
    for now in _stretches(job):
        if now.begins:
            if rest is not None:
                raise _cut_off(job.path, rest, k)
            step += last is not None and now.layer <= last
            token, last = 0, now.layer
        elif rest is not None:
            now = _joined(rest, now)
        whole = len(now.experts) // k * k
        rest = _tail(now, whole) if whole < len(now.experts) else None
        if whole:
            yield _table(job, now, whole, k, step, token, inferred)
            token += whole // k
    if rest is not None:
        raise _cut_off(job.path, rest, k)


def _table(
    job: ImportJob, rows: _Stretch, whole: int, k: int, step: int, token: int, inferred: bool
) -> RoutingTable:
    """The first ``whole`` rows, k per token."""
    source = f"{job.path}: lines {rows.lines[0]}..{rows.lines[whole - 1]}"
    try:
        ids = rows.experts[:whole].reshape(-1, k)
        return job.table(ids, Place(source, rows.layer, step, token))
    except TraceError as error:
        if not inferred:
            raise
        raise TraceError(
            f"{error} (k = {k} was inferred from the lengths of the runs; if the model "
            "chooses a different number, give --k)"
        ) from error


def _infer_k(path: Path) -> int:
    """k from the lengths of the runs, of which only the last may be incomplete."""
    divisor = shortest = length = first = layer = 0
    for rows in _stretches(ImportJob(path)):
        if rows.begins:
            divisor = math.gcd(divisor, length)
            shortest = min(shortest or length, length)
            length, first, layer = 0, int(rows.lines[0]), rows.layer
        length += len(rows.lines)
    if divisor and length % divisor:
        raise TraceError(
            f"{path}: line {first}: the last run of rows, of layer {layer}, has {length} rows, "
            f"expected a multiple of {divisor} like those before it, so k is not known; if the "
            "file is cut off, drop the rows of this run, otherwise give --k"
        )
    k = math.gcd(divisor, length)
    if k == 1 < (shortest or length):
        raise TraceError(
            f"{path}: the lengths of the runs of a layer have no common divisor, expected "
            f"multiples of k; rows may be missing, or give --k 1 (runs have {shortest or length} "
            "rows or more)"
        )
    return k


def _stretches(job: ImportJob) -> Iterator[_Stretch]:
    """The rows of the file, split where the layer changes and where the pieces of the file end."""
    expected = "a whole number that fits int32"
    header = first_fields(job.path) == _HEADER
    last = None
    for found in read_lines(job.path, 2, [0, 1], FORMAT.name, header=header):
        lines = found.take(found.filled())
        layers = lines.integers(0, "the layer", expected)
        experts = lines.integers(1, "the expert", expected, pattern="-?[0-9]{1,18}")
        for column, values in ((0, layers), (1, experts)):
            beyond = np.abs(values) > _MAX_INDEX
            if beyond.any():
                raise lines.wrong(
                    column, int(np.argmax(beyond)), f"the {_HEADER[column]}", expected
                )
        edges = np.flatnonzero(np.diff(layers, prepend=-1, append=-1)).tolist()
        for begin, end in pairwise(edges):
            layer = int(layers[begin])
            rows = slice(begin, end)
            yield _Stretch(layer, layer != last, lines.numbers[rows], experts[rows])
            last = layer
        job.done(lines.bytes_read)
    if last is None:
        raise TraceError(f"{job.path}: the trace is empty, it has 0 rows; record it again")


def _joined(first: _Stretch, second: _Stretch) -> _Stretch:
    return _Stretch(
        first.layer,
        first.begins,
        np.concatenate([first.lines, second.lines]),
        np.concatenate([first.experts, second.experts]),
    )


def _tail(rows: _Stretch, begin: int) -> _Stretch:
    return _Stretch(rows.layer, False, rows.lines[begin:], rows.experts[begin:])


def _cut_off(path: Path, rest: _Stretch, k: int) -> TraceError:
    return TraceError(
        f"{path}: line {rest.lines[0]}: layer {rest.layer} ends after {len(rest.lines)} of the "
        f"{k} experts of a token; check --k, or the file is cut off"
    )


def _recognizes(content: Content) -> bool:
    fields = content.fields
    numbers = len(fields) == 2 and all(text.isascii() and text.isdecimal() for text in fields)
    return fields == _HEADER or numbers


FORMAT = Format("llamacpp", "routing", _read, _recognizes, last=True)
