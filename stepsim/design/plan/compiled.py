"""``Compiled``: a plan, the passes that led to it, and its programs, laid out and run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepsim.deferred import deferred
from stepsim.design.choices import Choices
from stepsim.design.operators.models.sources import Source
from stepsim.design.passes.pipeline import Pass
from stepsim.design.plan.checking import TOLERANCE, Checked, checked
from stepsim.design.plan.model_times import model_milliseconds
from stepsim.design.plan.plan import Plan
from stepsim.design.programs.group_program import GroupProgram
from stepsim.graph import Wiring
from stepsim.other_names import method_hint
from stepsim.results import Result
from stepsim.simulation import Prepared, prepare
from stepsim.typed import typed

if TYPE_CHECKING:
    from stepsim import placement
    from stepsim.placement import FoundPlacement, PlaceChoice
    from stepsim.simulation import Case
    from stepsim.workloads import Data
else:
    placement = deferred("stepsim.placement")


def die_regions(plan: Plan, prepared: Prepared) -> dict[str, Any]:
    """The regions of a program of a plan, as `placed` takes them: of the operators of kernels that
    are on a die."""
    device = plan.machine.device
    dies = {one.name: one.die for one in plan.graph.kernels if one.die is not None}
    found = {
        unit.name: dies[unit.operator.label]
        for unit in prepared.wiring.units
        if unit.operator is not None and unit.operator.label in dies
    }
    if device is None or not found:
        return {}
    return {"regions": found, "region_count": device.dies}


def placed_case(place: PlaceChoice, case: Case, data: Data) -> Case:
    """The case with its operators placed; where a search places those of a compiled design, they
    are in the regions of their dies.

    Raises
    ------
    ArgError : as `PlaceChoice.of`.
    """
    plan = getattr(case.resolved.workload, "plan", None)
    if plan is None or not place.is_searched:
        return place.of(case, data)
    return place.of(case, data, **die_regions(plan, case.prepared))


class Compiled:
    """A compiled model. Made by :func:`compile`.

    Attributes
    ----------
    plan : all decisions, and the simulated cycles.
    passes : the steps in order, each with the graph before and after it.
    source, choices : what was compiled, with which options; None of a plan that was read from a
        file.
    """

    def __init__(
        self,
        plan: Plan,
        passes: tuple[Pass, ...] = (),
        source: Source | None = None,
        choices: Choices | None = None,
    ) -> None:
        self.plan = plan
        self.passes = passes
        self.source = source
        self.choices = choices

    @cached_property
    def programs(self) -> tuple[GroupProgram, ...]:
        """The programs of all groups, in the order in which they run."""
        return self.plan.programs()

    @cached_property
    def prepared(self) -> tuple[Prepared, ...]:
        """The programs of all groups, prepared for the machine with the depths of the plan."""
        return tuple(
            prepare(made.program, self.plan.machine, fifo_depth=group.depths)
            for made, group in zip(self.programs, self.plan.groups, strict=True)
        )

    @cached_property
    def wirings(self) -> Mapping[int, Wiring]:
        """Units and FIFOs of the program of every group, by its number."""
        return {
            made.group: prepared.wiring
            for made, prepared in zip(self.programs, self.prepared, strict=True)
        }

    @typed
    def place(
        self, *, per_tile: int = 1, seed: int = 0, effort: float = 1.0
    ) -> tuple[FoundPlacement, ...]:
        """Find places for the operators of every group on the network of the machine.

        Operators of a kernel on a die are in the region of that die. There is a search for every
        group, each with the arguments, and the limits of time, of `stepsim.place`.

        Raises
        ------
        ArgError : as `stepsim.place`.
        """
        return tuple(
            placement.placed(
                prepared, per_tile=per_tile, seed=seed, effort=effort,
                **die_regions(self.plan, prepared),
            )
            for prepared in self.prepared
        )  # fmt: skip

    def results(self) -> tuple[Result, ...]:
        """A run of every group."""
        return tuple(prepared.result() for prepared in self.prepared)

    @property
    def cycles(self) -> int:
        """Total cycles of all groups, one after another, by new runs."""
        return sum(prepared.run().cycles for prepared in self.prepared)

    @property
    def milliseconds(self) -> float | None:
        """Time of the plan by the clock of its machine; None if the machine states no clock."""
        cycles = self.plan.simulated
        return None if cycles is None else self.plan.machine.milliseconds(cycles)

    @typed
    def check(self, *, seed: int = 0, tolerance: float = TOLERANCE) -> Checked:
        """Compare the values that the programs compute with those of the model.

        Inputs, and weights that the model does not have, are drawn with the seed. The values of
        all tensors that groups store are compared with those of the operator graph, and results
        with PyTorch's where the model is one of PyTorch. Where the design is too large, a smaller
        copy of a named model is checked in its place.

        Parameters
        ----------
        tolerance : largest error, as a share of the largest value of a tensor.

        Raises
        ------
        ArgError : the seed is below 0, or the tolerance not between 0 and 1.
        CompileError : the design is too large and has no smaller copy, or an opaque operator.
        """
        return checked(self.plan, self.source, self.choices, seed=seed, tolerance=tolerance)

    def passes_text(self) -> str:
        """The graph before the first pass, and after every one that changed it."""
        if not self.passes:
            return f"{self.plan.name}: a plan read from a file has no passes\n"
        parts = [f"== before {self.passes[0].name}\n{self.passes[0].before.text()}"]
        parts += [
            f"== after {one.name}\n" + ("no change\n" if one.is_idle else one.after.text())
            for one in self.passes
        ]
        return "\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """The contents of the tables, as plain data for JSON."""
        from stepsim.design.plan.summary import (
            converter_rows,
            fifo_rows,
            group_rows,
            kernel_rows,
            memory_rows,
            prediction_error_of,
        )

        plan = self.plan
        return {
            "model": plan.name,
            "machine": plan.machine.name,
            "digest": plan.digest,
            "choices": dict(plan.choices),
            "status": plan.status,
            "infeasible": plan.infeasible,
            "kernels": kernel_rows(plan),
            "groups": group_rows(self),
            "converters": converter_rows(plan),
            "fifos": fifo_rows(self),
            "memory": memory_rows(plan),
            "predicted_cycles": plan.predicted,
            "prediction_error": None if plan.predicted is None else prediction_error_of(plan),
            "unbounded_cycles": plan.unbounded,
            "simulated_cycles": plan.simulated,
            "milliseconds": self.milliseconds,
            "model_milliseconds": model_milliseconds(plan),
            "provenance": dict(plan.provenance),
        }

    @typed
    def save(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write plan, FIFO depths and picture to a folder; all files are complete or absent.

        Raises
        ------
        OutputError : the folder cannot be written.
        """
        from stepsim.design.plan.files import write_files

        return write_files(self, Path(folder))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            hint = method_hint("Compiled", name)
            if hint:
                raise AttributeError(f"'Compiled' object has no attribute {name!r}{hint}")
            return super().__getattribute__(name)  # raises what a property raised

    def __repr__(self) -> str:
        return (
            f"<compiled {self.plan.name} on {self.plan.machine.name}: {self.plan.simulated} cycles>"
        )
