"""The memory models by name, and the kernels that pass an access to the one of the run.

A module in ``kernels/memory`` that declares a model is found by itself; other packages list theirs
under the entry-point group ``stepsim.memory_models``.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from stepsim.deferred import deferred
from stepsim.kernels import memory
from stepsim.kernels.build.generated import dispatcher
from stepsim.kernels.memory.declaration import MemoryModel
from stepsim.plugins import usable

if TYPE_CHECKING:
    import logging
else:
    logging = deferred("logging")


def _own() -> Iterator[MemoryModel]:
    for module in pkgutil.iter_modules(memory.__path__, f"{memory.__name__}."):
        if module.name != __name__:
            found = vars(import_module(module.name)).values()
            yield from (value for value in found if isinstance(value, MemoryModel))


def _models() -> dict[str, MemoryModel]:
    """Our own models, then those of plugins; what cannot be used is named in the log."""
    # Those of the common engine come first: its code is the same with and without the others.
    models = {model.name: model for model in sorted(_own(), key=lambda model: model.apart)}
    for plugin in usable("stepsim.memory_models"):
        model, problem = plugin.loaded, None
        if not isinstance(model, MemoryModel):
            problem = f"{plugin.value} is a {type(model).__name__}, expected a MemoryModel"
        elif "issue" not in model.kernels:
            problem = f"{plugin.value} has no kernel 'issue'"
        elif model.name in models:
            problem = f"the name '{model.name}' is taken; choose another"
        if problem is None:
            models[model.name] = model
        else:
            logging.getLogger("stepsim").warning(
                "memory model of package %s is left out: %s", plugin.package, problem
            )
    return models


ALL_MODELS: Final[Mapping[str, MemoryModel]] = _models()
"""Every memory model by the name that images have for it."""

MEMORY_MODELS: Final[Mapping[str, MemoryModel]] = {
    name: model for name, model in ALL_MODELS.items() if model.listed
}
"""Every memory model that a machine may name. The place of a model is its code."""


def code_of(name: str) -> int:
    """Number of a memory model in the globals of an image."""
    return list(MEMORY_MODELS).index(name)


def _chooser(kernel: str, arguments: str) -> Any:
    cases = [
        (code, model.name, f"chosen({arguments})", model.kernels[kernel])
        for code, model in enumerate(MEMORY_MODELS.values())
        if kernel in model.kernels and not model.apart
    ]
    selector = "state.globals[0].memory_model"
    return dispatcher(f"{kernel} of the memory", arguments, selector, cases, otherwise="None")


issue = _chooser("issue", "state, port, clock, requests")
advance = _chooser("advance", "state, limit")
