"""Functions that other packages offer as entry points ``stepsim.functions``."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from stepsim.deferred import deferred
from stepsim.errors import ArgError
from stepsim.graph.functions.function import Function
from stepsim.graph.ops.flat_map.flat_maps import StreamFunction
from stepsim.plugins import Plugin, usable

if TYPE_CHECKING:
    import logging
else:
    logging = deferred("logging")

_named: set[str] = set()


def _own() -> Sequence[str]:
    # The module of all names looks functions of plugins up here, so it is not imported.
    names: Sequence[str] = importlib.import_module("stepsim.graph.fn").__all__
    return names


def offered_functions() -> dict[str, Plugin]:
    """Functions of other packages by name; those whose name is taken are logged once."""
    offered = {plugin.name: plugin for plugin in usable("stepsim.functions")}
    for name in offered.keys() & {*_own()}:
        plugin = offered.pop(name)
        if name not in _named:
            _named.add(name)
            logging.getLogger("stepsim").warning(
                "plugin '%s' of package %s is left out: st.fn.%s is a function of stepsim; offer "
                "it by another name",
                name, plugin.package, name,
            )  # fmt: skip
    return offered


def function_of_plugin(name: str) -> Function | StreamFunction:
    """The function that a package offers by this name.

    Raises
    ------
    AttributeError : there is none, with the nearest of all names.
    ArgError : what the package offers is not a function of tiles.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    offered = offered_functions()
    if name not in offered:
        # Layers are built on functions, so they are looked up here instead of imported.
        layers = importlib.import_module("stepsim.graph.nn").__all__
        near = get_close_matches(name, [*_own(), *offered], 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        if name in layers:
            hint = f"; st.nn.{name} is a layer"
        raise AttributeError(f"there is no function st.fn.{name}{hint}")
    function = offered[name].loaded
    if not isinstance(function, Function | StreamFunction):
        raise ArgError(
            f"plugin '{name}' of package {offered[name].package} is a {type(function).__name__}, "
            "expected a Function, as st.function makes it"
        )
    return function
