"""Telling the format of a trace by its content; names of files count for nothing.

============================================= ===========================================
content                                       format
============================================= ===========================================
folder with ``router_trace_rank*.jsonl``      megatron
.npy with 1 dim                               lengths
.npy with 2 or 3 dims                         numpy
.npz with ``[prompt_]routed_experts``         vllm
.npz whose main array has 1 dim               lengths
other .npz                                    numpy
Parquet, Arrow IPC with ``context_tokens``    requests (our own schema)
Parquet, Arrow IPC with the steps of a replay refused
other Parquet, Arrow IPC                      parquet
JSON with ``top_indices``                     megatron
JSON with ``input_length``, ``output_length`` mooncake
JSON with ``meta_info.routed_experts``,       sglang
``choices[].sgl_ext.routed_experts``, or
``choices[].routed_experts`` in base64
other JSON with ``choices``                   vllm
CSV with the three columns of Azure           azure
CSV with two columns ``layer,expert``, or     llamacpp
two whole numbers in the first line
text with a single column                     lengths
============================================= ===========================================

Of JSON the first records are looked at until one tells, since the first responses may lack their
routed experts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from stepsim.data import locate
from stepsim.errors import TraceError
from stepsim.trace_io.array_files import archive_names, open_array
from stepsim.trace_io.decode_steps import refuse_decode_steps
from stepsim.trace_io.files import choose_array, damaged, detect_format, unreadable
from stepsim.trace_io.formats import FORMATS, azure, llamacpp, megatron, sglang, vllm
from stepsim.trace_io.formats.json_lines import first_records
from stepsim.trace_io.formats.list_columns import depth

__all__ = ["OWN_REQUESTS", "detect_trace_format", "is_routing_table"]

OWN_REQUESTS = "requests"
"""What `detect_trace_format` calls a request trace in our own schema."""

_NPY_IN_BASE64 = "k05VTVBZ"
_RECORDS = 16


def detect_trace_format(path: Path) -> str:
    """The name of the format of a file or data set, a key of `FORMATS` or `OWN_REQUESTS`.

    Raises:
        TraceError: the file is unreadable, holds the steps of a replay, or fits no format.
    """
    path = locate(path)
    if path.is_dir() and megatron.trace_files(path):
        return "megatron"
    kind = detect_format(path)
    if kind == "npy":
        return _by_dims(path, len(open_array(path, kind).shape))
    if kind == "npz":
        names = archive_names(path)
        if vllm.FIELD in names or vllm.PROMPT_FIELD in names:
            return "vllm"
        main = choose_array(path, names, ("experts", "lengths", "data"), ("weights",))
        return _by_dims(path, len(open_array(path, kind, main).shape))
    if kind is not None:
        schema = _schema(path, kind)
        refuse_decode_steps(schema, path)
        return OWN_REQUESTS if "context_tokens" in schema.names else "parquet"
    found = _by_text(path)
    if found is None:
        raise TraceError(
            f"{path}: the format is not known by its content, expected one of "
            f"{', '.join(FORMATS)}; name it with --format"
        )
    return found


def is_routing_table(path: Path) -> bool:
    """Whether :func:`stepsim.trace_io.read_routing` reads the file without an import.

    Raises:
        TraceError: as `detect_trace_format`.
    """
    path = locate(path)
    found = detect_trace_format(path)
    kind = detect_format(path) if found == "parquet" else None
    if kind is None:
        return found == "numpy"
    return any(field.name == "experts" and depth(field.type) == 1 for field in _schema(path, kind))


def _by_dims(path: Path, dims: int) -> str:
    if dims not in (1, 2, 3):
        raise TraceError(
            f"{path}: the array has {dims} dims, expected 1 (lengths), 2 [tokens, k] or 3 "
            "[tokens, layers, k]; reshape it"
        )
    return "lengths" if dims == 1 else "numpy"


def _schema(path: Path, kind: str) -> pa.Schema:
    try:
        if kind == "parquet":
            schema = pq.read_schema(path)
        else:
            with pa.OSFile(str(path)) as file:
                opened = pa.ipc.open_file(file) if kind == "ipc file" else pa.ipc.open_stream(file)
                schema = opened.schema
        _ = schema.names  # decodes them, which Arrow does not check
        return schema
    except (OSError, EOFError, ValueError, pa.ArrowException) as error:
        raise damaged(path, kind, error) from error


def _by_text(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            line = file.readline(1 << 16)
    except OSError as error:
        raise unreadable(path, error) from error
    text = line.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] in (b"{", b"["):
        return _by_records(first_records(path, _RECORDS))
    header = azure.header_of(line)
    if all(name in header for name in azure.COLUMNS):
        return "azure"
    numbers = [name.isascii() and name.isdecimal() for name in header]
    if tuple(header) == llamacpp.HEADER or (len(header) == 2 and all(numbers)):
        return "llamacpp"
    return "lengths" if len(header) == 1 and text.isascii() and header[0] else None


def _by_records(records: list[dict[str, Any]]) -> str | None:
    for record in records:
        if "top_indices" in record:
            return "megatron"
        if "input_length" in record and "output_length" in record:
            return "mooncake"
        for _, value, _ in sglang.payloads(record):
            if isinstance(value, str) and not value.startswith(_NPY_IN_BASE64):
                return "sglang"
            return "vllm"
    return "vllm" if any(isinstance(record.get("choices"), list) for record in records) else None
