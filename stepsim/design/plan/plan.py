"""``Plan``: all decisions for a model on a machine, enough to build its programs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepsim.atomic import replacing
from stepsim.design.plan.document import plan_of, plan_text, read_plan
from stepsim.design.plan.parts import GroupPlan, Measured, PlanParts, operators_digest
from stepsim.design.programs.group_program import GroupProgram
from stepsim.design.programs.program import programs_of
from stepsim.errors import CompileError
from stepsim.typed import typed

if TYPE_CHECKING:
    from typing import Self

__all__ = ["GroupPlan", "Measured", "Plan", "operators_digest"]


@dataclass(frozen=True)
class Plan(PlanParts):
    """A compiled model; its fields are those of `PlanParts`."""

    @property
    def name(self) -> str:
        return self.graph.name

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the operator graph without tiles."""
        return operators_digest(self.graph.operators)

    @property
    def simulated(self) -> int | None:
        """Cycles of all groups, one after another; None where one has not been run."""
        return _sum([one.simulated for one in self.groups])

    @property
    def predicted(self) -> int | None:
        """As ``simulated``, by the model of stepping kernels."""
        return _sum([one.predicted for one in self.groups])

    @property
    def unbounded(self) -> int | None:
        """As ``simulated``, with unbounded FIFOs."""
        return _sum([one.unbounded for one in self.groups])

    @property
    def infeasible(self) -> str | None:
        """Why the design does not fit the machine, group by group; None if it does."""
        return "; ".join(one.infeasible for one in self.groups if one.infeasible) or None

    @property
    def status(self) -> str:
        """``ok``, or ``infeasible`` where a group does not fit the chip."""
        return "infeasible" if self.infeasible else "ok"

    @property
    def fifo_bytes(self) -> int | None:
        """Bytes of FIFO of the group that has most; groups are on the chip one after another."""
        sizes = [one.fifo_bytes for one in self.groups if one.fifo_bytes is not None]
        return max(sizes) if len(sizes) == len(self.groups) and sizes else None

    @typed
    def programs(self, values: Mapping[str, Any] | None = None) -> tuple[GroupProgram, ...]:
        """The programs of all groups; ``values`` as in `programs_of`."""
        return programs_of(self.graph, values)

    @typed
    def group(self, number: int | None) -> int:
        """Place of a group among all; None is the only one.

        Raises
        ------
        CompileError : there is no such group, or there are several and none is named; the message
            lists them.
        """
        numbers = [kernels[0].group for kernels in self.graph.groups]
        if number is None and len(numbers) == 1:
            return 0
        if number in numbers:
            return numbers.index(number)
        listed = "; ".join(
            f"{kernels[0].group}: {len(kernels)} kernels, {kernels[0].name} to {kernels[-1].name}"
            for kernels in self.graph.groups
        )
        what = "there are several groups" if number is None else f"there is no group {number}"
        raise CompileError(f"plan of {self.name}: {what}; name one of {listed}")

    def to_yaml(self) -> str:
        """A text that :meth:`from_yaml` reads back as an equal plan."""
        return plan_text(self)

    @classmethod
    @typed
    def from_yaml(cls, text: str, where: str = "plan") -> Self:
        """The plan of a text.

        Raises
        ------
        CompileError : it is damaged; the message has the line, what was expected and found.
        """
        return plan_of(text, where, cls)

    @typed
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as YAML.

        Raises
        ------
        OutputError : the file cannot be written.
        """
        with replacing(path) as (part,):
            part.write_text(self.to_yaml(), encoding="utf-8")

    @classmethod
    @typed
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the YAML of a plan.

        Raises
        ------
        CompileError : it cannot be read, or as :meth:`from_yaml`.
        """
        return read_plan(Path(path), cls)

    def __str__(self) -> str:
        return f"<plan of {self.name} on {self.machine.name}: {len(self.graph.groups)} groups>"


def _sum(numbers: list[int | None]) -> int | None:
    known = [one for one in numbers if one is not None]
    return sum(known) if known and len(known) == len(numbers) else None
