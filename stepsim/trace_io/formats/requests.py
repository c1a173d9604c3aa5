"""Request traces in our own schema, in Parquet or Arrow IPC."""

from __future__ import annotations

from collections.abc import Iterator

from stepsim.trace_io.formats.format import Content, Format
from stepsim.trace_io.formats.job import ImportJob
from stepsim.trace_io.requests.trace import OWN_REQUESTS, RequestTrace, read_requests


def _read(job: ImportJob) -> Iterator[RequestTrace]:
    yield read_requests(job.path)


def _recognizes(content: Content) -> bool:
    return content.schema is not None and "context_tokens" in content.schema.names


FORMAT = Format(OWN_REQUESTS, "requests", _read, _recognizes)
