"""The Arrow schema of a request trace: one row per request, in order of arrival.

Definitions and units travel in the field metadata, the version in the schema metadata.

Version 1
    ==================== ============ ======= ====================================================
    field                type         unit    meaning
    ==================== ============ ======= ====================================================
    ``request``          int64                index of the request in the trace, from 0
    ``arrival_seconds``  float64      s       time of arrival after the first request, never
                                              decreasing; left out when not recorded
    ``context_tokens``   int64        tokens  tokens of the prompt, that is the KV-cache length
                                              when decoding begins
    ``generated_tokens`` int64        tokens  tokens generated; left out when not recorded
    ``prefix_hashes``    list<int64>          ids of the blocks of the prompt; equal ids mean equal
                                              prompts up to the end of the block; left out when not
                                              recorded
    ==================== ============ ======= ====================================================

No field is nullable.
"""

from __future__ import annotations

import pyarrow as pa

from stepsim.trace_io.schema import NAME_KEY, VERSION_KEY, described

__all__ = ["REQUESTS_SCHEMA_VERSION", "requests_schema"]

REQUESTS_SCHEMA_VERSION = 1
"""Version written to, and highest version accepted in, the schema metadata."""


def requests_schema(
    *, arrival: bool = True, generated: bool = True, prefix_hashes: bool = False
) -> pa.Schema:
    """The schema of a request trace; the arguments say which optional fields it has."""
    fields = [described("request", pa.int64(), "index of the request in the trace, from 0")]
    if arrival:
        fields.append(
            described(
                "arrival_seconds",
                pa.float64(),
                "time of arrival after the first request of the trace; never decreasing",
                unit="s",
            )
        )
    fields.append(
        described(
            "context_tokens",
            pa.int64(),
            "tokens of the prompt, that is the KV-cache length when decoding begins",
            unit="tokens",
        )
    )
    if generated:
        fields.append(described("generated_tokens", pa.int64(), "tokens generated", unit="tokens"))
    if prefix_hashes:
        fields.append(
            described(
                "prefix_hashes",
                pa.list_(pa.field("item", pa.int64(), nullable=False)),
                "ids of the blocks of the prompt, in order; equal ids mean equal prompts up to "
                "the end of the block",
            )
        )
    metadata = {
        NAME_KEY: b"requests",
        VERSION_KEY: str(REQUESTS_SCHEMA_VERSION).encode(),
    }
    return pa.schema(fields, metadata=metadata)
