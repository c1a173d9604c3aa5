"""What determines a run besides its program and machine: timing model, plugins and versions."""

from __future__ import annotations

import platform
from functools import cache
from typing import Any

from stepsim._version import MODEL_VERSION, __version__
from stepsim.graph import offered_functions
from stepsim.kernels import compiler_versions
from stepsim.plugins import identity_of, usable


def software() -> dict[str, Any]:
    """The part of the provenance of every run that says what computed it."""
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
    """The plugins that the times of a run may depend on, by group and name; see `identity_of`."""
    plugins = [*offered_functions().values(), *usable("stepsim.memory_models")]
    return {f"{plugin.group} {plugin.name}": identity_of(plugin) for plugin in plugins}
