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

__all__ = ["SCHEMA_VERSION", "check_version", "routing_schema"]

SCHEMA_VERSION = 1
"""Version written to, and highest version accepted in, the schema metadata."""

_NAME_KEY = b"stepsim.schema"
_VERSION_KEY = b"stepsim.schema_version"
_K_KEY = b"stepsim.experts_per_token"


def routing_schema(k: int, *, weights: bool = False) -> pa.Schema:
    """The schema of a routing table with ``k`` experts per token.

    ``weights`` adds the optional field of that name.
    """
    fields = [
        _field("model", pa.string(), "name of the model; null when unknown", nullable=True),
        _field("layer", pa.int32(), "index of the MoE layer, from 0"),
        _field("step", pa.int32(), "index of the forward pass, from 0"),
        _field(
            "token",
            pa.int32(),
            "index of the token within its (model, layer, step); consecutive",
        ),
        _field(
            "experts",
            pa.list_(pa.field("item", pa.int32(), nullable=False), k),
            "ids of the experts the router chose for the token, from 0, all distinct, "
            "in the order of the router",
        ),
    ]
    if weights:
        fields.append(
            _field(
                "weights",
                pa.list_(pa.field("item", pa.float32(), nullable=False), k),
                "gate weight of each chosen expert, in the order of `experts`; finite",
            )
        )
    metadata = {
        _NAME_KEY: b"expert-routing",
        _VERSION_KEY: str(SCHEMA_VERSION).encode(),
        _K_KEY: str(k).encode(),
    }
    return pa.schema(fields, metadata=metadata)


def check_version(schema: pa.Schema, source: str) -> None:
    """Refuse a table that a later, unknown version of the schema describes.

    Tables without the metadata come from elsewhere and are read by their columns.

    Raises:
        TraceError: the version is not a number, or newer than :data:`SCHEMA_VERSION`.
    """
    text = (schema.metadata or {}).get(_VERSION_KEY)
    if text is None:
        return
    version = text.decode(errors="replace")
    if not (version.isascii() and version.isdecimal()) or int(version) < 1:
        raise TraceError(
            f"{source}: schema metadata `{_VERSION_KEY.decode()}` is {version!r}, expected a "
            f"version number 1..{SCHEMA_VERSION}; remove the metadata or write the file again"
        )
    if int(version) > SCHEMA_VERSION:
        raise TraceError(
            f"{source}: written with version {version} of the routing schema, this stepsim reads "
            f"versions up to {SCHEMA_VERSION}; upgrade stepsim or write the file with the older one"
        )


def _field(name: str, kind: pa.DataType, meaning: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={b"description": meaning.encode()})
