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
    from stepsim import dram, hardware, itensor
    from stepsim.compiler.plan import Plan
    from stepsim.errors import *  # noqa: F403
    from stepsim.explain import (
        CriticalPath,
        DeadlockFix,
        FifoSizes,
        WhatIf,
        Why,
        critical_path,
        fix_deadlock,
        size_fifos,
        what_if,
        why,
    )
    from stepsim.flow import Compiled, compile, request
    from stepsim.functional import FunctionalResult
    from stepsim.graph import *  # noqa: F403
    from stepsim.machine import Machine, list_machines, load_machine
    from stepsim.report.perfetto import TimelineFile, write_perfetto
    from stepsim.results import Result
    from stepsim.results.raw_events import write_events
    from stepsim.simulation import (
        Case,
        Ensemble,
        Limits,
        Prepared,
        Progress,
        Variant,
        ensemble,
        make_case,
        prepare,
        run_functional,
        simulate,
        simulate_many,
    )
    from stepsim.trace_io import read_routing, synthetic_routing
    from stepsim.workloads import (
        KV_LENGTHS,
        ROUTING,
        Attention,
        Built,
        Data,
        Decoder,
        Model,
        Moe,
        Param,
        Swiglu,
        Workload,
    )

_ROOMS = {
    "stepsim.explain": (
        "CriticalPath", "DeadlockFix", "FifoSizes", "WhatIf", "Why", "critical_path",
        "fix_deadlock", "size_fifos", "what_if", "why",
    ),
    "stepsim.compiler.plan": ("Plan",),
    "stepsim.flow": ("Compiled", "compile", "request"),
    "stepsim.functional": ("FunctionalResult",),
    "stepsim.machine": ("Machine", "list_machines", "load_machine"),
    "stepsim.report.perfetto": ("TimelineFile", "write_perfetto"),
    "stepsim.results": ("Result",),
    "stepsim.results.raw_events": ("write_events",),
    "stepsim.simulation": (
        "Case", "Ensemble", "Limits", "Prepared", "Progress", "Variant", "ensemble", "make_case",
        "prepare", "run_functional", "simulate", "simulate_many",
    ),
    "stepsim.trace_io": ("read_routing", "synthetic_routing"),
    "stepsim.workloads": (
        "KV_LENGTHS", "ROUTING", "Attention", "Built", "Data", "Decoder", "Model", "Moe", "Param",
        "Swiglu", "Workload",
    ),
}  # fmt: skip
_MODULES = ("dram", "hardware", "itensor")
"""Rooms that are reached whole, as ``st.itensor.converter``."""
_HOME = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "KV_LENGTHS",
    "MODEL_VERSION",
    "ROUTING",
    "Attention",
    "Built",
    "Case",
    "Compiled",
    "CriticalPath",
    "Data",
    "DeadlockFix",
    "Decoder",
    "Ensemble",
    "FifoSizes",
    "FunctionalResult",
    "Limits",
    "Machine",
    "Model",
    "Moe",
    "Param",
    "Plan",
    "Prepared",
    "Progress",
    "Result",
    "Swiglu",
    "TimelineFile",
    "Variant",
    "WhatIf",
    "Why",
    "Workload",
    "__version__",
    "compile",
    "critical_path",
    "dram",
    "ensemble",
    "fix_deadlock",
    "hardware",
    "itensor",
    "list_machines",
    "load_machine",
    "make_case",
    "prepare",
    "read_routing",
    "request",
    "run_functional",
    "simulate",
    "simulate_many",
    "size_fifos",
    "synthetic_routing",
    "what_if",
    "why",
    "write_events",
    "write_perfetto",
]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _MODULES:
        return importlib.import_module(f"stepsim.{name}")
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
    rooms = (importlib.import_module(f"stepsim.graph.{room}") for room in ("fn", "nn"))
    owners = [
        f"st.{room.__name__.rsplit('.')[-1]}.{name}" for room in rooms if name in room.__all__
    ]
    hint = f"; there is {' and '.join(owners)}"
    if not owners:
        hint = importlib.import_module("stepsim.errors").did_you_mean(name, __dir__())
    raise AttributeError(f"module 'stepsim' has no attribute {name!r}{hint.removesuffix('.')}")


def __dir__() -> list[str]:
    graph = importlib.import_module("stepsim.graph")
    errors = importlib.import_module("stepsim.errors")
    return sorted({*__all__, *graph.__all__, *errors.__all__})
