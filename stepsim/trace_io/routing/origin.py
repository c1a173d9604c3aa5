"""The origin of a routing file of ours: a note in the metadata of its schema."""

from __future__ import annotations

import json
import os
from typing import Any, Final

from stepsim.arguments import shown
from stepsim.arrow import pa, pq
from stepsim.data import locate
from stepsim.documents import parse_json
from stepsim.errors import ArgError, TraceError
from stepsim.paths import local_path

ORIGIN_KEY: Final = b"origin"


def with_origin(schema: pa.Schema, origin: dict[str, Any] | None) -> pa.Schema:
    """The schema with ``origin`` as JSON in its metadata.

    Raises:
        ArgError: JSON has no form for it.
    """
    if origin is None:
        return schema
    try:
        text = json.dumps(origin, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        raise ArgError(
            f"origin: expected texts, numbers, and lists and mappings of them, found "
            f"{shown(origin)}"
        ) from None
    return schema.with_metadata({**(schema.metadata or {}), ORIGIN_KEY: text})


def read_origin(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The origin recorded in a Parquet file; empty if none is recorded.

    Synthetic traces record ``generator``, ``seed``, ``skew`` and ``experts``, imported ones
    ``format`` and, if it was given, ``experts``.
    """
    try:
        metadata = pq.read_schema(local_path(locate(path))).metadata or {}
        text = metadata.get(ORIGIN_KEY, b"{}").decode()
        found = parse_json(text, str(path), TraceError).data
    except (OSError, ValueError, pa.ArrowException):
        return {}
    return found if isinstance(found, dict) else {}
