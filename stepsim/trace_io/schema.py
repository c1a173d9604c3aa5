"""The Arrow schemas of a routing trace, a row per token and layer, and of a request trace.

Definitions and units travel in the field metadata, the version in the schema metadata, so that a
file explains itself to any Arrow reader.
"""

from __future__ import annotations

from functools import cache

from stepsim.arrow import pa
from stepsim.errors import TraceError
from stepsim.typed import typed

SCHEMA_VERSION = 1
"""Version of the routing schema that is written, and the highest one that is read."""

REQUESTS_SCHEMA_VERSION = 1
"""The same for the request schema."""

NAME_KEY = b"stepsim.schema"
"""Key of the schema metadata that names the schema of a file."""

VERSION_KEY = b"stepsim.schema_version"
"""Key of the schema metadata that holds the version."""

_K_KEY = b"stepsim.experts_per_token"


@cache
def routing_schema(k: int, *, weights: bool = False) -> pa.Schema:
    """The schema of a routing table with ``k`` experts per token.

    ``weights`` adds the optional field of that name.
    """
    fields = [
        described("model", pa.string(), "name of the model; null when unknown", nullable=True),
        described("layer", pa.int32(), "index of the MoE layer, from 0"),
        described("step", pa.int32(), "index of the forward pass, from 0"),
        described(
            "token",
            pa.int32(),
            "index of the token within its (model, layer, step); consecutive",
        ),
        described(
            "experts",
            pa.list_(pa.field("item", pa.int32(), nullable=False), k),
            "ids of the experts the router chose for the token, from 0, all distinct, "
            "in the order of the router",
        ),
    ]
    if weights:
        fields.append(
            described(
                "weights",
                pa.list_(pa.field("item", pa.float32(), nullable=False), k),
                "gate weight of each chosen expert, in the order of `experts`; finite",
            )
        )
    metadata = {
        NAME_KEY: b"expert-routing",
        VERSION_KEY: str(SCHEMA_VERSION).encode(),
        _K_KEY: str(k).encode(),
    }
    return pa.schema(fields, metadata=metadata)


@typed
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


def schema_name(schema: pa.Schema) -> str | None:
    """The name of the schema declared in a table; None for tables from elsewhere."""
    name: bytes | None = (schema.metadata or {}).get(NAME_KEY)
    return None if name is None else name.decode(errors="replace")


def check_version(
    schema: pa.Schema, source: str, *, newest: int = SCHEMA_VERSION, what: str = "routing"
) -> None:
    """Refuse a table that a later, unknown version of the schema describes.

    ``newest`` is the highest version known, ``what`` the kind of schema for the message.

    Tables without the metadata come from elsewhere and are read by their columns.

    Raises:
        TraceError: the version is not a number, or newer than ``newest``.
    """
    text = (schema.metadata or {}).get(VERSION_KEY)
    if text is None:
        return
    version = text.decode(errors="replace")
    if not (version.isascii() and version.isdecimal()) or int(version) < 1:
        raise TraceError(
            f"{source}: schema metadata `{VERSION_KEY.decode()}` is {version!r}, expected a "
            f"version number 1..{newest}; remove the metadata or write the file again"
        )
    if int(version) > newest:
        raise TraceError(
            f"{source}: written with version {version} of the {what} schema, this stepsim reads "
            f"versions up to {newest}; upgrade stepsim or write the file with the older one"
        )


def described(
    name: str, kind: pa.DataType, meaning: str, *, unit: str | None = None, nullable: bool = False
) -> pa.Field:
    """A field that carries its definition, and its unit if it has one, in its metadata."""
    metadata = {b"description": meaning.encode()}
    if unit is not None:
        metadata[b"unit"] = unit.encode()
    return pa.field(name, kind, nullable=nullable, metadata=metadata)
