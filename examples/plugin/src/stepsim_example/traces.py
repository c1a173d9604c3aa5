"""A trace format: the text log of the server Tern."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice

import numpy as np

from stepsim.errors import TraceError
from stepsim.trace_io import Content, Format, ImportJob, Place, RoutingTable

CHUNK = 65_536  # tokens that are in memory at a time


def recognizes(content: Content) -> bool:
    return content.fields == ["tern 1"]


def read(job: ImportJob) -> Iterator[RoutingTable]:
    tokens: dict[tuple[int, int], int] = {}  # of each step and layer, read so far
    for (step, layer), rows in groupby(numbers(job), key=lambda row: (row[1][0], row[1][1])):
        while chunk := list(islice(rows, CHUNK)):
            lines, values = zip(*chunk, strict=True)
            first = tokens.get((step, layer), 0)
            place = Place(str(job.path), layer, step, first, rows=np.array(lines))
            ids = np.array([experts for _, _, *experts in values])
            yield job.table(ids, place)
            tokens[step, layer] = first + len(chunk)


def numbers(job: ImportJob) -> Iterator[tuple[int, list[int]]]:
    done, width = 0, None
    with job.path.open("rb") as file:
        for line, text in enumerate(file, 1):
            done += len(text)
            job.done(done)
            if line == 1:
                continue
            try:
                values = [int(field) for field in text.split()]
            except ValueError:
                values = []
            width = width or len(values)
            if len(values) < 3 or len(values) != width:
                raise TraceError(
                    f"{job.path}: line {line}: is {text.decode(errors='replace').strip()!r}, "
                    "expected a step, a layer and as many experts as in the first line; drop the "
                    "line"
                )
            yield line, values


FORMAT = Format("tern", "routing", read, recognizes)
