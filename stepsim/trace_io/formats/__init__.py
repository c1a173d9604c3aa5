"""Foreign trace formats: one module each, with a function ``read(job)`` that yields chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from stepsim.trace_io.formats import (
    azure,
    lengths,
    list_columns,
    llamacpp,
    megatron,
    mooncake,
    numpy_arrays,
    sglang,
    vllm,
)
from stepsim.trace_io.formats.job import ImportJob, RequestChunk, RoutingChunk

__all__ = ["FORMATS", "Format"]


@dataclass(frozen=True)
class Format:
    """A foreign format: what it holds and how it is read."""

    name: str
    holds: Literal["routing", "requests"]
    read: Callable[[ImportJob], Iterator[RoutingChunk | RequestChunk]]


FORMATS = {
    found.name: found
    for found in (
        Format("numpy", "routing", numpy_arrays.read),
        Format("vllm", "routing", vllm.read),
        Format("sglang", "routing", sglang.read),
        Format("megatron", "routing", megatron.read),
        Format("llamacpp", "routing", llamacpp.read),
        Format("parquet", "routing", list_columns.read),
        Format("azure", "requests", azure.read),
        Format("mooncake", "requests", mooncake.read),
        Format("lengths", "requests", lengths.read),
    )
}
"""All formats by name."""
