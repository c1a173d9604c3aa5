"""SGLang: routed experts in responses, one per line, as base64 of flat int32.

A line may also hold a list of responses, as the server returns for a list of prompts.

The ids are in ``meta_info.routed_experts`` (the /generate endpoint), or in each choice of the
OpenAI endpoints, as ``sgl_ext.routed_experts`` or ``routed_experts``. Their logical shape is
[tokens, layers, k], little-endian, for all tokens but the last. There are seqlen - 1 of them, which
is prompt_tokens + completion_tokens - 1, less ``routed_experts_start_len`` if the request set it
and the record has it. Layers and k are not in the response: k must be given, and the number of
layers too unless it follows from the token counts.

Each response becomes one step, as if its sequence had gone through the model in one pass.

Sources: https://github.com/sgl-project/sglang/pull/12162 (``meta_info.routed_experts``),
https://github.com/sgl-project/sglang/pull/17434 (the OpenAI endpoints),
docs/basic_usage/openai_api_completions.md of sgl-project/sglang (``sgl_ext``, base64 of int32,
logical shape, [0, seqlen - 1)), quoted in https://github.com/ai-dynamo/dynamo/pull/15114.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from stepsim.errors import TraceError
from stepsim.trace_io.formats.flat_ids import shaped_ids
from stepsim.trace_io.formats.format import Content, Format
from stepsim.trace_io.formats.job import ImportJob
from stepsim.trace_io.formats.sequences import Sequence
from stepsim.trace_io.routing.table import RoutingTable
from stepsim.trace_io.sources.json_lines import json_records

_FIELD = "routed_experts"
_START = "routed_experts_start_len"
_NPY_IN_BASE64 = "k05VTVBZ"


def _read(job: ImportJob) -> Iterator[RoutingTable]:
    if job.k is None:
        raise job.unsupported(
            "--k (experts per token) or --model", "SGLang does not record the shape of the ids"
        )
    step = 0
    bare: list[int] = []
    for line, record, read_bytes in json_records(job.path):
        where = f"{job.path}: line {line}"
        found = _payloads(record)
        if not found and job.drop_missing:
            bare.append(line)
        elif not found:
            raise TraceError(
                f"{where}: has no `meta_info.{_FIELD}` or `choices[i].sgl_ext.{_FIELD}`, expected "
                "base64 of int32; send return_routed_experts to a server started with "
                "--enable-return-routed-experts, or leave such responses out with --drop-missing"
            )
        for field, text, tokens in found:
            flat = _decode(text, where, field)
            if not flat.size:
                continue
            ids = shaped_ids(job, flat, where, field, tokens, job.k)
            yield from Sequence(job, ids, where, field).tables(step)
            step += 1
        job.done(read_bytes)
    if bare:
        job.notes.append(
            f"left out {len(bare)} responses without {_FIELD}, first in line {bare[0]}"
        )


def first_payload(records: list[dict[str, Any]]) -> object:
    """The first routed experts in responses; None if there are none."""
    return next((value for record in records for _, value, _ in _payloads(record)), None)


def is_flat(payload: object) -> bool:
    """Whether routed experts are flat int32 in base64, as SGLang sends them."""
    return isinstance(payload, str) and not payload.startswith(_NPY_IN_BASE64)


def _payloads(record: dict[str, Any]) -> list[tuple[str, object, int | None]]:
    """The routed experts of a response: (field, value, number of their tokens if known)."""
    meta = record.get("meta_info")
    if isinstance(meta, dict) and meta.get(_FIELD) is not None:
        return [(f"meta_info.{_FIELD}", meta[_FIELD], _tokens(meta, meta, record))]
    found = []
    choices = record.get("choices")
    usage = record.get("usage")
    if not isinstance(choices, list):
        return []
    for index, choice in enumerate(choices):
        if not isinstance(choice, dict):
            continue
        extra = choice.get("sgl_ext")
        place, name = choice, f"choices[{index}].{_FIELD}"
        if isinstance(extra, dict) and extra.get(_FIELD) is not None:
            place, name = extra, f"choices[{index}].sgl_ext.{_FIELD}"
        elif choice.get(_FIELD) is None:
            continue
        tokens = None
        # The usage of several completions is their sum, which says nothing about each.
        if isinstance(usage, dict) and len(choices) == 1:
            tokens = _tokens(usage, place, choice, record)
        found.append((name, place[_FIELD], tokens))
    return found


def _tokens(counts: dict[str, Any], *places: dict[str, Any]) -> int | None:
    """Tokens that have routed experts; the first of them may be given in one of ``places``."""
    prompt, completion = counts.get("prompt_tokens"), counts.get("completion_tokens")
    if not (isinstance(prompt, int) and isinstance(completion, int)):
        return None
    starts = (place[_START] for place in places if isinstance(place.get(_START), int))
    return prompt + completion - 1 - next(starts, 0)


def _decode(text: object, where: str, field: str) -> npt.NDArray[np.int32]:
    if not isinstance(text, str):
        raise TraceError(
            f"{where}: `{field}` is {type(text).__name__}, expected base64 of int32; nested lists "
            "come from vLLM: --format vllm"
        )
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise TraceError(
            f"{where}: `{field}` is not base64 ({error}); the line may be cut off, drop it"
        ) from error
    if len(data) % 4:
        raise TraceError(
            f"{where}: `{field}` has {len(data)} bytes, expected a multiple of 4 (int32); the "
            "line may be cut off, drop it"
        )
    return np.frombuffer(data, dtype="<i4")


def _recognizes(content: Content) -> bool:
    return is_flat(first_payload(content.records))


FORMAT = Format("sglang", "routing", _read, _recognizes, options=("layers", "drop_missing"))
