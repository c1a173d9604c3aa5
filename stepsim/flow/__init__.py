"""From a model to a sized, simulated design: the compiler's passes and runs of what they make.

Everything is imported on first use: help lists the workloads declared here, without an engine.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepsim.flow.compiled import Compiled
    from stepsim.flow.compiling import compile
    from stepsim.flow.model_times import request
    from stepsim.flow.requests import RequestTimes
    from stepsim.flow.routed import CompiledExperts, compile_over_traces
    from stepsim.flow.routed_sizing import TracedSizes, size_over_traces
    from stepsim.flow.workload import CompiledModel, CompiledWorkload

__all__ = [
    "Compiled", "CompiledExperts", "CompiledModel", "CompiledWorkload", "RequestTimes",
    "TracedSizes", "compile", "compile_over_traces", "request", "size_over_traces",
]  # fmt: skip

_MODULES = {
    "Compiled": "compiled",
    "CompiledExperts": "routed",
    "CompiledModel": "workload",
    "CompiledWorkload": "workload",
    "RequestTimes": "requests",
    "TracedSizes": "routed_sizing",
    "compile": "compiling",
    "compile_over_traces": "routed",
    "request": "model_times",
    "size_over_traces": "routed_sizing",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
