"""Functions for higher-order operators, under one short name: ``st.fn.matmul``.

They are listed in ``fn.pyi``. Functions that other packages offer as entry points
``stepsim.functions`` are here as well.
"""

from typing import Any

from stepsim.deferred import door
from stepsim.graph.plugin_functions import function_of_plugin, offered_functions

_lookup, _, __all__ = door(__name__, __file__)


def __getattr__(name: str) -> Any:
    return _lookup(name) if name in __all__ else function_of_plugin(name)


def __dir__() -> list[str]:
    return sorted([*__all__, *offered_functions()])
