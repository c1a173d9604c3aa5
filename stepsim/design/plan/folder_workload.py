"""Workloads made of the folders that ``stepsim compile`` writes: ``stepsim run DIR``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from stepsim.design.choices import group_param
from stepsim.design.operators.routed import ROUTED, bounds_of, routing_of
from stepsim.design.plan.plan import Plan
from stepsim.errors import CompileError
from stepsim.workloads import ROUTING, Built, Data, ParameterError, Workload

if TYPE_CHECKING:
    from stepsim.design.programs.group_program import GroupProgram


class PlanWorkload(Workload):
    """Base of workloads that run a plan; a plan with experts takes a routing as input."""

    plan: ClassVar[Any]

    @classmethod
    def routing_shape(cls, given: Mapping[str, Any]) -> tuple[int, int] | None:
        shape = _routing_of(cls.plan)
        return None if shape is None else (shape.experts, shape.k)

    def check(self, data: Data) -> Iterable[tuple[str, str]]:
        shape = _routing_of(type(self).plan)
        if shape is None or data.routing is None:
            return
        if data.routing.shape != (shape.rows, shape.k):
            rows, k = data.routing.shape
            yield (
                "routing",
                f"expected {shape.rows} tokens with {shape.k} experts each, which the plan was "
                f"compiled for, found {rows} with {k}; --batch {shape.rows} takes so many",
            )
            return
        loads = np.bincount(data.routing.ravel(), minlength=shape.experts)
        if len(loads) > shape.experts:
            yield "routing", f"expected experts below {shape.experts}, found {len(loads) - 1}"
        elif loads.max() > shape.most:
            expert = int(loads.argmax())
            yield (
                "routing",
                f"expected at most {shape.most} tokens for an expert, as the plan declares, found "
                f"{int(loads[expert])} for expert {expert}",
            )

    def build(self, data: Data) -> Built:
        plan: Plan = type(self).plan
        try:
            place = plan.group(self.values()["group"])
        except CompileError as error:
            raise ParameterError([("group", str(error))]) from None
        made = plan.programs()[place]
        depths = plan.groups[place].depths if plan.groups else None
        return _PlanBuilt(made, depths)


class _PlanBuilt(Built):
    """The program of a group, bound to a routing where it has one."""

    def __init__(self, made: GroupProgram, depths: Mapping[str, int] | None) -> None:
        super().__init__(made.program, fifo_depths=depths)
        self._made = made

    def bindings(self, data: Data) -> Mapping[Any, Any]:
        return self._made.bindings(dict.fromkeys(self._made.routings, data.routing))


@dataclass(frozen=True, slots=True)
class _RoutingShape:
    """The inputs of a plan with experts."""

    rows: int
    k: int
    experts: int
    most: int


def _routing_of(plan: Plan) -> _RoutingShape | None:
    """The routing of a plan; None without experts. All have one, as `compile` sizes no others."""
    graph = plan.graph.operators
    for op in graph.ops:
        if op.kind in ROUTED:
            name = routing_of(op)
            rows, k = graph.tensors[name].shape
            return _RoutingShape(rows, k, *bounds_of(graph, name))
    return None


_GROUP: Any = Annotated[int | None, group_param("the only one")]


def of_plan(path: Path) -> type[PlanWorkload]:
    """The workload of a plan; its machine is that of the plan unless another is given.

    Raises
    ------
    CompileError : the plan cannot be read.
    """
    plan = Plan.load(path)
    made: type[PlanWorkload] = make_dataclass(
        "CompiledPlan",
        [("group", _GROUP, None)],
        bases=(PlanWorkload,),
        frozen=True,
        kw_only=True,
        namespace={
            "__doc__": f"Plan of {plan.name} for {plan.machine.name}.",
            "name": path.parent.name or path.stem,
            "plan": plan,
            "own_machine": plan.machine,
            "inputs": () if _routing_of(plan) is None else (ROUTING,),
        },
    )
    return made
