"""The Arrow schema of an expert-routing trace: one row per (model, layer, step, token).

Definitions and units travel in the field metadata, the version in the schema metadata, so that a
file explains itself to any Arrow reader.

Version 1
    ============ ========================== ======== ===============================================
    field        type                       nullable meaning
    ============ ========================== ======== ===============================================
    ``model``    string                     yes      name of the model; null when unknown
    ``layer``    int32                      no       index of the MoE layer, from 0
    ``step``     int32                      no       index of the forward pass, from 0
    ``token``    int32                      no       index of the token within (model, layer, step)
    ``experts``  fixed_size_list<int32>[k]  no       ids of the k experts of the token, all distinct
    ``weights``  fixed_size_list<float32>[k] no      gate weight of each of these experts; the field
                                                     is left out when the source has no weights
    ============ ========================== ======== ===============================================
"""

from __future__ import annotations

import pyarrow as pa

from stepsim.errors import TraceError

__all__ = [
    "NAME_KEY",
    "SCHEMA_VERSION",
    "VERSION_KEY",
    "check_version",
    "described",
    "routing_schema",
    "schema_name",
]

SCHEMA_VERSION = 1
"""Version written to, and highest version accepted in, the schema metadata."""

NAME_KEY = b"stepsim.schema"
"""Key of the schema metadata that names the schema of a file."""

VERSION_KEY = b"stepsim.schema_version"
"""Key of the schema metadata that holds the version."""

_K_KEY = b"stepsim.experts_per_token"


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


def schema_name(schema: pa.Schema) -> str | None:
    """The name of the schema a table says it follows; None for tables from elsewhere."""
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
