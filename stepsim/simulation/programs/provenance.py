"""The provenance of a result: program, bindings, machine, image and software."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stepsim.digests import sha256
from stepsim.graph import Bindings
from stepsim.lowering import software
from stepsim.machine import Machine


def provenance_of(
    image_hash: str, machine: Machine | None, program: Mapping[str, Any]
) -> dict[str, Any]:
    """The provenance of a run; ``program`` describes the program of the image, if there is one.

    ``machine`` is None for a network, whose own timing parameters are the machine.
    """
    return {
        **program,
        "image_hash": image_hash,
        "machine": None if machine is None else machine.to_dict(),
        **software(),
    }


def index_digests(indices: Bindings) -> dict[str, str]:
    """SHA-256 of shape and indices (int64) of every routing, by its name."""
    found = {}
    for table, array in indices.items():
        digest = sha256(repr(array.shape).encode())
        digest.update(np.ascontiguousarray(array).data)
        found[table.name] = digest.hexdigest()
    return found
