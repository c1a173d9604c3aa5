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
    about: str


FORMATS = {
    found.name: found
    for found in (
        Format("numpy", "routing", numpy_arrays.read, "[tokens, k] or [tokens, layers, k]"),
        Format("vllm", "routing", vllm.read, "routed_experts in .npy, .npz or JSON responses"),
        Format("sglang", "routing", sglang.read, "responses with routed_experts in base64"),
        Format("megatron", "routing", megatron.read, "router_trace_rank*.jsonl, or their folder"),
        Format("llamacpp", "routing", llamacpp.read, "CSV with rows layer,expert"),
        Format("parquet", "routing", list_columns.read, "Parquet or Arrow with a list column"),
        Format("azure", "requests", azure.read, "CSV: TIMESTAMP,ContextTokens,GeneratedTokens"),
        Format("mooncake", "requests", mooncake.read, "JSONL: timestamp, input_length, ..."),
        Format("lengths", "requests", lengths.read, "one prompt length per request"),
    )
}
"""All formats by name."""
