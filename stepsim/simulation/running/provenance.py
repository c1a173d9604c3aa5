"""What a result depended on: program, bindings, machine, image and versions."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from stepsim._version import MODEL_VERSION, __version__
from stepsim.graph import Bindings, offered_functions
from stepsim.kernels import compiler_versions
from stepsim.machine import Machine
from stepsim.plugins import Plugin, source_digest, usable

__all__ = ["engine_plugins", "index_digests", "provenance_of", "software", "told"]


def provenance_of(
    image_hash: str, machine: Machine | None, program: Mapping[str, Any]
) -> dict[str, Any]:
    """The provenance of a run; ``program`` tells of the program behind the image, if there is one.

    ``machine`` is None for a network, whose own timing parameters are the machine.
    """
    return {
        **program,
        "image_hash": image_hash,
        "machine": None if machine is None else machine.to_dict(),
        **software(),
    }


def software() -> dict[str, Any]:
    """What computes runs: the timing model, plugins and versions."""
    return {
        "model_version": MODEL_VERSION,
        "plugins": engine_plugins(),
        "versions": {
            "stepsim": __version__,
            "python": platform.python_version(),
            **compiler_versions(),
        },
    }


@cache
def engine_plugins() -> dict[str, str]:
    """The plugins that the times of a run may depend on, by group and name; see `told`."""
    plugins = [*offered_functions().values(), *usable("stepsim.memory_models")]
    return {f"{plugin.group} {plugin.name}": told(plugin) for plugin in plugins}


def told(plugin: Plugin) -> str:
    """Package, version and SHA-256 of the sources of a plugin."""
    return f"{plugin.package} {plugin.version} {source_digest(plugin)}"


def index_digests(indices: Bindings) -> dict[str, str]:
    """SHA-256 of shape and indices (int64) of every routing, by its name."""
    found = {}
    for table, array in indices.items():
        digest = hashlib.sha256(repr(array.shape).encode())
        digest.update(np.ascontiguousarray(array).data)
        found[table.name] = digest.hexdigest()
    return found
