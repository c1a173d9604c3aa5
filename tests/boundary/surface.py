"""Every callable that users of stepsim can reach: functions, classes, and methods of both kinds.

A callable is named by its path behind ``st.``: ``simulate``, ``design.Plan``, ``design.Plan.load``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from types import FunctionType, ModuleType
from typing import Any

import stepsim as st

__all__ = ["INNER", "Subject", "subjects"]

INNER = {
    "Program": "register kept know_alike know_all record_assumption weighed place "
    "compare counts_of flops_of length_of",
    "Function": "cost weighted record",
    "Tile": "counted_anew",
    "Machine": "completed contradictions derived without_effect",
    "design.GraphBuilder": "axis fail",
    "design.Op": "refuse",
    "design.CompiledModel": "build build_for check checked implied presets program_key "
    "routing_shape operators",
    "design.CompiledWorkload": "build operators check",
    "ensembles.Disturbance": "drawn usual",
    "functional.TileValue": "integer unpadded",
    "graph.Dim": "counted_anew repeated",
    "graph.Operator": "memory traffic unit_params",
    "graph.StreamFunction": "infer",
    "graph.TupleType": "changed",
    "hardware.Machine": "contradictions completed derived without_effect",
    "machine.Chips": "contradictions",
    "machine.Dram": "contradictions completed derived",
    "machine.Energy": "contradictions",
    "machine.Hbm": "contradictions completed derived without_effect",
    "machine.Network": "contradictions completed derived without_effect",
    "machine.Rates": "contradictions",
    "machine.PortRates": "of",
    "simulation.Prepared": "check judge words",
    "sweep.LocalBackend": "submit result wait",
    "sweep.Plan": "differences groups",
    "traces.Format": "failed",
    "traces.RoutingTable": "checked",
    "workloads.Attention": "build check presets program_key attended",
    "workloads.Decoder": "build build_for check presets program_key attended implied needed "
    "unneeded",
    "workloads.Step": "build build_for check presets program_key implied needed unneeded",
    "workloads.Moe": "build check presets program_key routing_shape",
    "workloads.Swiglu": "build check presets program_key",
    "workloads.Workload": "build check",
    "workloads.Built": "bindings padded_flops published symbols tokens",
}
"""Methods that one part of stepsim calls for another, with what it has checked: those that classes
of operators, workloads, machines and backends override, and those that share what is worked out."""

RESULTS = (
    "Function", "Stream", "Result", "graph.Routing", "noc.ChipRun", "noc.CollectiveRun",
    "simulation.Case", "simulation.Prepared",
    "serving.FoundRate", "serving.ServeResult", "serving.ServiceComparison", "serving.ServiceWhy",
    "noc.NocRun", "noc.NocTrace", "sizing.FifoSizes",
    "sweep.LocalBackend", "sweep.SweepSpec", "sweep.TuneSpec",
)  # fmt: skip
"""Classes whose objects users get: their constructors take what only stepsim has. A specification
of a sweep is given as a mapping, which `load_spec` checks."""


@dataclass(frozen=True)
class Subject:
    """Something to call."""

    path: str
    thing: Callable[..., Any]
    """The function or class; a method of an instance is looked up on an example of its class."""
    owner: type | None = None
    """The class of a method that needs an instance."""

    @cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """What can be passed, without ``self``."""
        listed = list(inspect.signature(self.thing).parameters.items())
        return dict(listed[1:] if self.owner else listed)


def subjects() -> Iterator[Subject]:
    """All callables of ``st`` and its namespaces, each under the first of its names."""
    seen = set[int]()
    for path, thing in _offered(st, ""):
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, FunctionType):
            yield Subject(path, thing)
        if not isinstance(thing, type) or issubclass(thing, BaseException | Enum):
            continue
        if not getattr(thing, "_is_protocol", False) and path not in RESULTS:
            yield Subject(path, thing)
        for name in sorted(dir(thing)):
            member = inspect.getattr_static(thing, name)
            inside = getattr(member, "__func__", member)
            if name.startswith("_") or not isinstance(inside, FunctionType) or id(inside) in seen:
                continue
            seen.add(id(inside))
            if inside.__module__.startswith("stepsim") and name not in INNER.get(path, "").split():
                bound = isinstance(member, classmethod | staticmethod)
                yield Subject(f"{path}.{name}", getattr(thing, name), None if bound else thing)


def _offered(module: ModuleType, prefix: str) -> Iterator[tuple[str, Any]]:
    rooms = []
    for name in module.__all__:
        thing = getattr(module, name)
        if isinstance(thing, ModuleType):
            rooms.append((thing, f"{prefix}{name}."))
        else:
            yield prefix + name, thing
    for room, inner in rooms:
        yield from _offered(room, inner)
