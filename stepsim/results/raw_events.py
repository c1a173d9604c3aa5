"""The raw events of a recorded run as one Arrow table, and its file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stepsim.atomic import replacing
from stepsim.paths import local_path
from stepsim.results.columns import schema
from stepsim.results.events import Events
from stepsim.typed import typed

if TYPE_CHECKING:
    from stepsim.results.result import Result

_COLUMNS: Final = (
    "event", "name", "begin", "end", "wait_cause", "about", "seen", "requests", "nbytes",
)  # fmt: skip

EVENTS_SCHEMA: Final = schema("events", _COLUMNS, required=("event", "name", "begin", "end"))


def events_batches(events: Events) -> Iterator[pa.Table]:
    """The events kind by kind: work, waits, off-chip accesses, tokens, buffers, flits or
    messages."""
    units, fifos = pa.array(events.units), pa.array(events.fifos)
    waits, accesses, buffers = events.waits, events.accesses, events.buffers
    owner, begin, end = events.work()
    yield _table("work", _named(units, owner), begin, end)
    about = pa.array(waits["fifo"], mask=waits["fifo"] < 0)
    yield _table(
        "wait", _named(units, waits["unit"]), waits["begin"], waits["end"],
        wait_cause=_named(pa.array(events.causes, pa.string()), waits["cause"]),
        about=fifos.take(about),
    )  # fmt: skip
    yield _table(
        "access", _named(units, accesses["unit"]), accesses["begin"], accesses["end"],
        requests=accesses["requests"], nbytes=accesses["nbytes"],
    )  # fmt: skip
    for fifo, name in enumerate(events.fifos):
        own = events.tokens(fifo)
        freed = pa.array(events.freed[own])
        yield _table(
            "token", pa.repeat(name, len(freed)), events.sent[own], events.freed[own],
            seen=events.seen[own], nbytes=events.nbytes[own],
        )  # fmt: skip
    yield _table(
        "buffer", _named(units, buffers["unit"]), buffers["begin"], buffers["end"],
        nbytes=buffers["nbytes"],
    )  # fmt: skip
    passed = events.passed
    kind = "message" if events.chips else "flits"
    yield _table(
        kind, _named(pa.array(events.ports, pa.string()), passed["port"]), passed["begin"],
        passed["end"], about=fifos.take(pa.array(passed["fifo"])),
    )  # fmt: skip


@typed
def write_events(result: Result, path: str | os.PathLike[str]) -> int:
    """Write the raw events of a recorded run as Parquet; returns their number.

    Raises
    ------
    ArgError : the run was not recorded.
    OutputError : the file cannot be written; no partial file remains.
    """
    events = result.recorded("events")
    about = {
        "program": result.program,
        "status": result.status,
        "cycles": str(result.cycles),
        "provenance": json.dumps(result.provenance, sort_keys=True, default=str, allow_nan=False),
    }
    written = EVENTS_SCHEMA.with_metadata({**(EVENTS_SCHEMA.metadata or {}), **about})
    count = 0
    with (
        replacing(path) as (part,),
        pq.ParquetWriter(local_path(part), written, compression="zstd") as writer,
    ):
        waiting: list[pa.Table] = []
        for table in events_batches(events):
            waiting.append(table)
            count += len(table)
            if sum(map(len, waiting)) > _ROWS:
                writer.write_table(pa.concat_tables(waiting).cast(written))
                waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting).cast(written))
    return count


_ROWS: Final = 200_000
"""Approximate rows of a row group in a file."""


def _named(names: pa.Array, numbers: NDArray[Any]) -> pa.Array:
    return names.take(pa.array(numbers))


def _table(kind: str, names: Any, begin: Any, end: Any, **more: Any) -> pa.Table:
    """Events of one kind; missing fields are null."""
    rows = len(begin)
    columns = {"event": pa.repeat(kind, rows), "name": names, "begin": begin, "end": end, **more}
    return pa.table(
        [
            pa.array(columns[field.name], field.type)
            if isinstance(columns.get(field.name), np.ndarray)
            else columns.get(field.name, pa.nulls(rows, field.type))
            for field in EVENTS_SCHEMA
        ],
        schema=EVENTS_SCHEMA,
    )
