"""llama.cpp style CSV: one row ``layer,expert`` per choice, in the order of computation.

The rows of one layer of one pass (ubatch) follow each other, k per token. A layer number that does
not increase begins the next pass, which becomes the next step. k is not in the file: without it,
the greatest common divisor of the lengths of all runs of a layer is taken, which is right as soon
as the trace has a pass with a single token, as every generated token is. A run that was cut off
would make it smaller: the last run has to fit the others, and k = 1 a run of one row.

A model with a single routed layer gives no sign where a pass ends; all its rows are one step. The
last layer of a prompt pass may have fewer tokens, since only the outputs wanted are computed.

Source: https://github.com/ggml-org/llama.cpp/pull/28544 (examples/moe-trace: one ``layer,expert``
row per routed activation, from the tensors ``ffn_moe_topk``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from stepsim.errors import TraceError
from stepsim.trace_io.formats.azure import header_of
from stepsim.trace_io.formats.job import CHUNK_BYTES, ImportJob, RoutingChunk

__all__ = ["HEADER", "read"]

HEADER = ("layer", "expert")
_CHUNK_ROWS = CHUNK_BYTES // 64
_MAX_INDEX = int(np.iinfo(np.int32).max)


def read(job: ImportJob) -> Iterator[RoutingChunk]:
    """Read a trace of (layer, expert) rows.

    Raises:
        TraceError: the file is unreadable, a line is not two whole numbers, a run of rows is not
            a multiple of k, or k is not given and cannot be told.
    """
    inferred = job.k is None
    k = job.k if job.k is not None else _infer_k(job.path)
    if inferred:
        job.notes.append(f"k = {k}, from the lengths of the runs of a layer; --k says otherwise")
    step = 0
    last_layer = -1
    for layer, parts in _runs(job, k):
        if layer <= last_layer:
            step += 1
        last_layer = layer
        token = 0
        for line, experts in parts:
            if line == 1 and not job.format_given:
                job.notes.append(
                    "no header says what the two columns are, they were taken for layer,expert; "
                    "--format llamacpp confirms it"
                )
            if len(experts) % k:
                raise TraceError(
                    f"{job.path}: line {line}: layer {layer} ends after {len(experts) % k} of "
                    f"the {k} experts of a token; check --k, or the file is cut off"
                )
            ids = np.array(experts, dtype=np.int64).reshape(-1, k)
            try:
                chunk = job.chunk(
                    ids,
                    source=f"{job.path}: lines {line}..{line + len(experts) - 1}",
                    layer=layer,
                    step=step,
                    first_token=token,
                )
            except TraceError as error:
                if not inferred:
                    raise
                raise TraceError(
                    f"{error} (k = {k} was inferred from the lengths of the runs; if the model "
                    "chooses another number, give --k)"
                ) from error
            yield chunk
            token += len(ids)


def _infer_k(path: Path) -> int:
    """k from the lengths of the runs, all but the last of which are whole."""
    divisor = shortest = 0
    length, first, last = 0, 0, -1
    for line, layer, _, _ in _rows(path):
        if layer != last:
            divisor = math.gcd(divisor, length)
            shortest = min(shortest or length, length)
            length, first, last = 0, line, layer
        length += 1
    if not length:
        raise TraceError(f"{path}: the trace is empty, it has 0 rows; record it again")
    if divisor and length % divisor:
        raise TraceError(
            f"{path}: line {first}: the last run of rows, of layer {last}, has {length} rows, "
            f"expected a multiple of {divisor} as those before, so that k is not known; if the "
            "file is cut off, drop the rows of this run, else give --k"
        )
    k = math.gcd(divisor, length)
    if k == 1 < (shortest or length):
        raise TraceError(
            f"{path}: the lengths of the runs of a layer have no common divisor, expected "
            f"multiples of k; rows may be missing, or give --k 1 (runs have {shortest or length} "
            "rows or more)"
        )
    return k


def _runs(job: ImportJob, k: int) -> Iterator[tuple[int, Iterator[tuple[int, list[int]]]]]:
    """Runs of rows of one layer, each as parts (first line, experts) of bounded size."""
    rows = _rows(job.path)
    head = next(rows, None)
    if head is None:
        raise TraceError(f"{job.path}: the trace is empty, it has 0 rows; record it again")
    most = max(1, _CHUNK_ROWS // k) * k

    def parts(layer: int) -> Iterator[tuple[int, list[int]]]:
        nonlocal head
        while head is not None and head[1] == layer:
            first = head[0]
            experts: list[int] = []
            while head is not None and head[1] == layer and len(experts) < most:
                experts.append(head[2])
                job.done(head[3])
                head = next(rows, None)
            yield first, experts

    while head is not None:
        yield head[1], parts(head[1])


def _rows(path: Path) -> Iterator[tuple[int, int, int, int]]:
    """(line, layer, expert, bytes read so far) of each row, after an optional header."""
    read = 0
    try:
        with path.open("rb") as file:
            for line, text in enumerate(file, 1):
                read += len(text)
                fields = text.split(b",")
                try:
                    layer, expert = fields
                    yield line, _index(layer, 0), _index(expert, -_MAX_INDEX), read
                except ValueError:
                    shown = text.decode(errors="replace").strip().removeprefix("\ufeff")
                    if not shown or (line == 1 and tuple(header_of(text)) == HEADER):
                        continue
                    raise TraceError(
                        f"{path}: line {line}: is {shown!r}, expected `layer,expert`, two whole "
                        "numbers; mend or drop the line"
                    ) from None
    except OSError as error:
        raise TraceError(
            f"{path}: cannot be read ({error.strerror}); check the path and its permissions"
        ) from error


def _index(text: bytes, minimum: int) -> int:
    """The number, if int32 holds it."""
    value = int(text)
    if not minimum <= value <= _MAX_INDEX:
        raise ValueError(value)
    return value
