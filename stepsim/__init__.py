"""stepsim: simulate Streaming Tensor Programs on spatial dataflow accelerators.

``import stepsim as st`` gives the graph language (``st.Program``, ``st.linear_load``, ``st.map``,
..., functions in ``st.fn``), ``st.simulate`` and the results. Everything is imported on first use,
so that importing the package itself is free.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from stepsim._version import MODEL_VERSION, __version__

if TYPE_CHECKING:
    from stepsim.errors import *  # noqa: F403
    from stepsim.graph import *  # noqa: F403
    from stepsim.machine import Machine, list_machines, load_machine
    from stepsim.results import Result
    from stepsim.simulation import Limits, Prepared, Progress, prepare, simulate
    from stepsim.trace_io import read_routing, synthetic_routing
    from stepsim.workloads import moe_layer

_ROOMS = {
    "stepsim.machine": ("Machine", "list_machines", "load_machine"),
    "stepsim.results": ("Result",),
    "stepsim.simulation": ("Limits", "Prepared", "Progress", "prepare", "simulate"),
    "stepsim.trace_io": ("read_routing", "synthetic_routing"),
    "stepsim.workloads": ("moe_layer",),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "MODEL_VERSION",
    "Limits",
    "Machine",
    "Prepared",
    "Progress",
    "Result",
    "__version__",
    "list_machines",
    "load_machine",
    "moe_layer",
    "prepare",
    "read_routing",
    "simulate",
    "synthetic_routing",
]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    else:
        value = _from_language(name)
    globals()[name] = value
    return value


def _from_language(name: str) -> Any:
    """A name of the graph language or of the error hierarchy."""
    for room in ("stepsim.graph", "stepsim.errors"):
        module = importlib.import_module(room)
        if name in module.__all__:
            return getattr(module, name)
    raise AttributeError(f"module 'stepsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    graph = importlib.import_module("stepsim.graph")
    errors = importlib.import_module("stepsim.errors")
    return sorted({*__all__, *graph.__all__, *errors.__all__})
