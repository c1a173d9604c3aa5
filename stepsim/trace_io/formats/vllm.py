"""vLLM: routed experts as arrays [len, layers, k], in NumPy files or in API responses.

``prompt_routed_experts`` of the response holds the prompt tokens, ``choices[i].routed_experts`` the
tokens of a completion: nested lists (vLLM 0.21) or a base64 .npy file (later, then often prompt and
completion in one). A file holds one response per line, or a single response. ``CompletionOutput``
saved with NumPy is a .npy file, or an archive with arrays of these two names.

Each completion becomes one step, as if its sequence had gone through the model in one pass; the
prompt comes before the first completion only, since it is processed once. Tokens that came from
the prefix cache are marked -1; `ImportJob.drop_missing` leaves them out.

Sources: docs/training/routed_experts_replay.md of vllm-project/vllm (field names, shapes, int16,
-1 marks), https://github.com/vllm-project/vllm/pull/28284 (``CompletionOutput.routed_experts``),
https://github.com/vllm-project/vllm/pull/51906 (base64 of NumPy, int32),
https://github.com/PrimeIntellect-ai/verifiers/pull/1363 (a client of the base64 form).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import numpy.typing as npt

from stepsim.errors import TraceError
from stepsim.trace_io.files import detect_format
from stepsim.trace_io.formats.format import Content, Format
from stepsim.trace_io.formats.job import CHUNK_BYTES, ImportJob
from stepsim.trace_io.formats.sequences import Sequence, check_shape, nested_ids
from stepsim.trace_io.formats.sglang import first_payload, is_flat
from stepsim.trace_io.routing.table import RoutingTable
from stepsim.trace_io.routing.validate import check_integer_dtype
from stepsim.trace_io.sources.json_lines import json_records
from stepsim.trace_io.sources.numpy import archive_names, array_of_bytes, open_array

_FIELD = "routed_experts"
_PROMPT_FIELD = "prompt_routed_experts"


def _read(job: ImportJob) -> Iterator[RoutingTable]:
    kind = detect_format(job.path)
    if kind == "npy":
        yield from _arrays(job, kind, [(None, _FIELD)])
    elif kind == "npz":
        names = archive_names(job.path)
        present = [name for name in (_PROMPT_FIELD, _FIELD) if name in names]
        if not present:
            listed = ", ".join(f"`{name}`" for name in names) or "none"
            raise TraceError(
                f"{job.path}: holds no array `{_FIELD}` or `{_PROMPT_FIELD}` (found {listed}); "
                "rename it, or read it with --format numpy"
            )
        yield from _arrays(job, kind, [(name, name) for name in present])
    else:
        yield from _responses(job)


def _arrays(
    job: ImportJob, kind: str, members: list[tuple[str | None, str]]
) -> Iterator[RoutingTable]:
    """The arrays ``members`` (name in the archive, name in messages), one after the other."""
    token = done = 0
    for name, field in members:
        array = open_array(job.path, kind, name)
        array.check_integers(f"`{field}`")
        check_shape(array.shape, str(job.path), field)
        row = 0
        for block in array.blocks(CHUNK_BYTES):
            part = Sequence(job, block, str(job.path), field, first_row=row)
            yield from part.tables(0, token)
            token += part.tokens
            row += len(block)
            done += len(block) * array.row_bytes
            job.done(done)


def _responses(job: ImportJob) -> Iterator[RoutingTable]:
    step = 0
    for line, record, read_bytes in json_records(job.path):
        where = f"{job.path}: line {line}"
        choices = record.get("choices")
        if not isinstance(choices, list) or not choices:
            raise TraceError(
                f"{where}: `choices` is {type(choices).__name__}, expected the list of "
                "completions of a vLLM response; check the format, or drop the line"
            )
        prompt = record.get(_PROMPT_FIELD)
        for index, choice in enumerate(choices):
            parts = [(_PROMPT_FIELD, prompt)] if index == 0 and prompt is not None else []
            value = choice.get(_FIELD) if isinstance(choice, dict) else None
            if value is not None:
                parts.append((f"choices[{index}].{_FIELD}", value))
            elif job.drop_missing:
                job.notes.append(f"line {line}: choices[{index}] has no {_FIELD}")
            else:
                raise TraceError(
                    f"{where}: `choices[{index}].{_FIELD}` is missing, expected "
                    "[tokens, layers, k]; serve with --enable-return-routed-experts, or leave "
                    "such completions out with --drop-missing (a preempted request has none)"
                )
            token = 0
            for name, array in parts:
                part = Sequence(job, _decode(array, where, name), where, name)
                yield from part.tables(step, token)
                token += part.tokens
            step += 1 if token else 0
        job.done(read_bytes)


def _decode(value: object, where: str, field: str) -> npt.NDArray[Any]:
    if not isinstance(value, str):
        return nested_ids(value, where, field)
    try:
        ids = array_of_bytes(base64.b64decode(value, validate=True))
    except ValueError as error:
        raise TraceError(
            f"{where}: `{field}` is text, but not a .npy file in base64 ({error}); the line may "
            "be cut off, or it is flat int32 from SGLang: --format sglang"
        ) from error
    check_integer_dtype(ids, where, f"`{field}`")
    return ids


def _recognizes(content: Content) -> bool:
    if content.kind is not None:
        return _FIELD in content.array_names or _PROMPT_FIELD in content.array_names
    payload = first_payload(content.records)
    if payload is None:
        return any(isinstance(record.get("choices"), list) for record in content.records)
    return not is_flat(payload)


FORMAT = Format("vllm", "routing", _read, _recognizes, options=("layers", "drop_missing"))
