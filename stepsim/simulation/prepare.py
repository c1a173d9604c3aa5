"""Many runs of one program: wire and lay it out once, then change only the routing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from stepsim.errors import LoweringError
from stepsim.graph import Program
from stepsim.graph.ops.sources import RoutingSource
from stepsim.kernels.driver import Execution, execute
from stepsim.kernels.layout import INFINITY
from stepsim.lowering import Image, lower
from stepsim.lowering.rebind import ImageTemplate
from stepsim.machine import Machine, load_machine
from stepsim.simulation.assumptions import channels_to_keep, check_assumptions
from stepsim.simulation.collect import unit_table
from stepsim.simulation.diagnose import diagnose
from stepsim.simulation.limits import Limits
from stepsim.simulation.totals import Totals, totals_of

__all__ = ["Prepared", "prepare"]


def prepare(
    program: Program, *, machine: Machine | str = "sda-1024", fifo_depth: int | None = None
) -> Prepared:
    """Wire and lay out a finished program for runs that differ in their routing only.

    Parameters are those of :func:`stepsim.simulation.simulate`, and so are cycles, accounts and
    image digests of the runs.

    Raises
    ------
    LoweringError
        A size does not fit.
    MachineError
        The machine is unknown or invalid.
    """
    return Prepared(program, machine if isinstance(machine, Machine) else load_machine(machine),
                    fifo_depth)  # fmt: skip


class Prepared:
    """A program laid out for a machine. Made by :func:`prepare`.

    Attributes
    ----------
    program, machine : what was prepared.
    program_hash : fingerprint of the program.
    fifo_depth : tokens in channels that do not state their own depth.
    """

    def __init__(self, program: Program, machine: Machine, fifo_depth: int | None) -> None:
        self.program = program
        self.machine = machine
        self.program_hash = program.fingerprint()
        self.fifo_depth = fifo_depth or program.fifo_depth or machine.fifo_depth
        anything = {
            table: np.tile(np.arange(table.k), (table.rows, 1)) for table in program.routings
        }
        wiring, network = lower(program, machine, anything, fifo_depth)
        self._wiring = wiring
        self._keep = channels_to_keep(wiring) if program.assumptions else frozenset[int]()
        self._timing = network.timing
        self._origins = [unit.source for unit in wiring.units]
        self._sources = {
            u: unit.operator
            for u, unit in enumerate(wiring.units)
            if isinstance(unit.operator, RoutingSource)
        }
        self._template = ImageTemplate(network, self._sources)

    def image(self, bindings: Mapping[Any, Any] | None = None) -> Image:
        """The image of one run, equal to the one that :func:`simulate` would run.

        Raises
        ------
        LoweringError
            A routing has no indices, or a key is no routing of the program.
        ArgError
            Indices are out of range or have the wrong shape.
        """
        given = dict(bindings or {})
        for key in given:
            if key not in self.program.routings:
                raise LoweringError(
                    f"program '{self.program.name}' has no {key!r}; bindings are keyed by its "
                    "routings"
                )
        return self._template.image(
            {u: op.unit_params(given)["selectors"] for u, op in self._sources.items()}
        )

    def run(
        self, bindings: Mapping[Any, Any] | None = None, *, limits: Limits | None = None
    ) -> Totals:
        """Simulate with the given routing; totals only."""
        return self._totals(*self._execute(bindings, limits), bindings)

    def run_with_units(
        self, bindings: Mapping[Any, Any] | None = None, *, limits: Limits | None = None
    ) -> tuple[Totals, Any]:
        """As :meth:`run`, with the Arrow table of the accounts of every unit."""
        image, execution = self._execute(bindings, limits)
        totals = self._totals(image, execution, bindings)
        return totals, unit_table(image, execution, totals.cycles)

    def _execute(
        self, bindings: Mapping[Any, Any] | None, limits: Limits | None
    ) -> tuple[Image, Execution]:
        image, bounds = self.image(bindings), limits or Limits()
        execution = execute(
            image,
            max_cycles=bounds.max_cycles or INFINITY,
            max_steps=bounds.max_steps or INFINITY,
            max_wall_seconds=bounds.max_wall_seconds or float("inf"),
            history=self._keep or False,
        )
        return image, execution

    def _totals(
        self, image: Image, execution: Execution, bindings: Mapping[Any, Any] | None
    ) -> Totals:
        totals = totals_of(execution, self._timing)
        reason = ""
        if totals.status == "ok" and self.program.assumptions:
            broken = check_assumptions(self._wiring, execution, bindings)
            if broken is not None:
                return replace(
                    totals, image_hash=image.digest(), status="failed", reason=str(broken)
                )
        if totals.status != "ok":
            found = diagnose(
                image, execution, totals.status, totals.limit, self._origins.__getitem__
            )
            reason = str(found)
        return replace(totals, image_hash=image.digest(), reason=reason)
