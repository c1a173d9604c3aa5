"""Workloads made of the folders that ``stepsim compile`` writes: ``stepsim run DIR``."""

from __future__ import annotations

import hashlib
import os
from dataclasses import make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from stepsim.errors import WorkloadError
from stepsim.workloads.parameters import Built, Data, Param, ParameterError
from stepsim.workloads.workload import Workload

if TYPE_CHECKING:
    from stepsim.compiler.plan import Plan

__all__ = ["PLAN", "PlanWorkload", "of_plan", "plan_digest", "plan_file"]

PLAN = "plan.yaml"
"""The file by which a folder is known as a plan."""


def plan_file(text: str, folder: Path | None = None) -> Path | None:
    """The plan of a folder that is named, or of a file named ``plan.yaml``; else None."""
    try:
        path = (folder or Path()) / text
        if path.name == PLAN and path.is_file():
            return path
        return path / PLAN if path.is_dir() and (path / PLAN).is_file() else None
    except (OSError, ValueError):  # no name of a file: too long, a null character
        return None


def plan_digest(path: Path) -> str:
    """SHA-256 of the file.

    Raises
    ------
    WorkloadError : it cannot be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError) as error:
        code = getattr(error, "errno", None)
        reason = os.strerror(code) if code else str(error)
        raise WorkloadError(f"{path}: cannot be read: {reason}; name a folder of a plan") from error


class PlanWorkload(Workload):
    """Base of workloads that are one plan."""

    plan: ClassVar[Any]

    def build(self, data: Data) -> Built:
        from stepsim.errors import CompileError

        plan: Plan = type(self).plan
        try:
            place = plan.group(self.values()["group"])
        except CompileError as error:
            raise ParameterError([("group", str(error))]) from None
        made = plan.programs()[place]
        depths = plan.groups[place].depths if plan.groups else None
        return Built(made.program, fifo_depths=depths)


_GROUP: Any = Annotated[
    int | None,
    Param("number of the group to be run, of several", otherwise="the only one", least=0),
]


def of_plan(path: Path) -> type[PlanWorkload]:
    """The workload of a plan; its machine is that of the plan unless another is given.

    Raises
    ------
    CompileError : the plan cannot be read.
    """
    from stepsim.compiler.plan import Plan

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
        },
    )
    return made
