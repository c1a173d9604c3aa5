"""The one run path: a program is prepared, gets its image, is executed, and is collected.

Wiring and layout depend on the routing only through selectors. A prepared program is wired and laid
out once, and every run fills in the selectors of its own routing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from stepsim.arguments import Range, flag, shown
from stepsim.errors import ArgError, EvaluationError, LoweringError
from stepsim.functional import Decisions
from stepsim.graph import Program
from stepsim.graph.functions import Function
from stepsim.graph.operator import Bindings
from stepsim.graph.ops.compute import Compute
from stepsim.graph.program import check_program
from stepsim.graph.routing_table import RoutingSource, check_bindings
from stepsim.kernels.layout import Status
from stepsim.lowering import Image, default_depth, lower
from stepsim.lowering.rebind import ImageTemplate
from stepsim.machine import Machine, load_machine
from stepsim.results import Result
from stepsim.simulation.assumptions import check_assumptions, fifos_to_keep
from stepsim.simulation.decisions import decisions_of
from stepsim.simulation.heartbeat import expected_traffic, heartbeat
from stepsim.simulation.image_run import ImageRun, run_image
from stepsim.simulation.limits import Limits, Progress
from stepsim.simulation.provenance import index_digests, provenance_of
from stepsim.simulation.totals import Totals

__all__ = ["Prepared", "prepare"]

SEED = Range(2**128 - 1, "that inputs were made from", low=0)


def prepare(
    program: Program, machine: Machine | str = "sda-1024", *, fifo_depth: int | None = None
) -> Prepared:
    """Prepare a finished program for runs that differ only in their routing.

    Parameters are those of :func:`stepsim.simulation.simulate`.

    Raises
    ------
    LoweringError
        The program is still open, or a size does not fit.
    ArgError
        ``program`` is none, or ``fifo_depth`` is no positive int.
    MachineError
        The machine is unknown or invalid.
    """
    check_program("prepare", program)
    target = machine if isinstance(machine, Machine) else load_machine(machine)
    return Prepared(program, target, fifo_depth)


class Prepared:
    """A program laid out for a machine, to be run any number of times. Made by :func:`prepare`.

    Every method takes the ``bindings`` of one run: index arrays ``[rows, k]`` by routing, for the
    routings that were built from a shape only, or in place of those that the program was built
    with. Bindings that do not fit raise ArgError.

    Attributes
    ----------
    program, machine : what was prepared.
    program_hash : fingerprint of the program.
    fifo_depth : tokens in FIFOs that do not state their own depth.
    fifo_depth_from : who states it: "call", "machine", "program" or "default".
    """

    def __init__(self, program: Program, machine: Machine, fifo_depth: int | None) -> None:
        anything = {
            op.routing: np.tile(np.arange(op.routing.k), (op.routing.rows, 1))
            for op in program.operators
            if isinstance(op, RoutingSource)
        }
        self._wiring, network = lower(program, machine, anything, fifo_depth)
        self.program = program
        self.machine = machine
        self.program_hash = program.fingerprint()
        self.fifo_depth, self.fifo_depth_from = default_depth(program, machine, fifo_depth)
        self._keep = fifos_to_keep(self._wiring) if program.assumptions else frozenset[int]()
        self._timing = network.timing
        self._sources = {
            u: unit.operator
            for u, unit in enumerate(self._wiring.units)
            if isinstance(unit.operator, RoutingSource)
        }
        self._template = ImageTemplate(network, self._sources)

    def image(self, bindings: Mapping[Any, Any] | None = None) -> Image:
        """The arrays that the engine starts from; runs of equal images are equal."""
        return self._image(check_bindings(self.program, bindings))

    def execute(
        self,
        bindings: Mapping[Any, Any] | None = None,
        *,
        limits: Limits | None = None,
        progress: Callable[[Progress], None] | None = None,
        keep_tokens: bool = False,
    ) -> ImageRun:
        """Run once. ``keep_tokens`` keeps all tokens of all FIFOs in memory."""
        indices = check_bindings(self.program, bindings)
        return self._execute(indices, limits, progress, keep_tokens)

    def run(
        self, bindings: Mapping[Any, Any] | None = None, *, limits: Limits | None = None
    ) -> Totals:
        """Run once, for the totals only."""
        return self.execute(bindings, limits=limits).totals

    def run_with_units(
        self, bindings: Mapping[Any, Any] | None = None, *, limits: Limits | None = None
    ) -> tuple[Totals, pa.Table]:
        """As :meth:`run`, with the Arrow table of the stall breakdown of every unit."""
        done = self.execute(bindings, limits=limits)
        return done.totals, done.units()

    def result(
        self,
        bindings: Mapping[Any, Any] | None = None,
        *,
        limits: Limits | None = None,
        progress: Callable[[Progress], None] | None = None,
        seed: int | None = None,
    ) -> Result:
        """Run once and return the whole `Result`; parameters as in :func:`simulate`."""
        indices = check_bindings(self.program, bindings)
        if seed is not None:
            seed = SEED.checked(f"program '{self.program.name}': seed", seed)
        done = self._execute(indices, limits, progress)
        about = {
            "program_hash": self.program_hash,
            "flop_weights": dict(self.program.flop_weights),
            "bindings": index_digests(indices),
            "fifo_depth": self.fifo_depth,
            "fifo_depth_from": self.fifo_depth_from,
            "seed": seed,
        }
        provenance = provenance_of(done.totals.image_hash, self.machine, about)
        return replace(done.result(self.program.name, provenance), notes=self.machine.notes)

    def decisions(self, bindings: Mapping[Any, Any] | None = None) -> Decisions:
        """Run once and note who came first, wherever values depend on that.

        All tokens of the run are kept in memory.

        Raises
        ------
        EvaluationError
            The run failed or got stuck; :meth:`result` tells why.
        """
        done = self.execute(bindings, keep_tokens=True)
        failed = int((done.execution.units["state"] == Status.FAILED).sum())
        if failed or not done.execution.finished:
            state = f"{failed} failed units" if failed else "a deadlock"
            raise EvaluationError(
                f"program '{self.program.name}': the timing run ended with {state}, so that its "
                "decisions are incomplete. See the diagnosis of stepsim.simulate(program)"
            )
        return decisions_of(self._wiring, done, self.program_hash)

    def _image(self, indices: Bindings) -> Image:
        return self._template.image(
            {u: op.unit_params(indices)["selectors"] for u, op in self._sources.items()}
        )

    def _function(self, unit: int) -> Function | None:
        operator = self._wiring.units[unit].operator
        return operator.function if isinstance(operator, Compute) else None

    def _execute(
        self,
        indices: Bindings,
        limits: Limits | None,
        progress: Callable[[Progress], None] | None,
        keep_tokens: bool = False,
    ) -> ImageRun:
        where = f"program '{self.program.name}':"
        if limits is not None and not isinstance(limits, Limits):
            raise ArgError(f"{where} limits must be Limits or None, found {shown(limits)}")
        if progress is not None and not callable(progress):
            raise ArgError(f"{where} progress must be a function or None, found {shown(progress)}")
        keep_tokens = flag(f"{where} keep_tokens", keep_tokens)
        check = None
        if self.program.assumptions:
            check = functools.partial(check_assumptions, self._wiring, indices=indices)
        image = self._image(indices)
        try:
            return run_image(
                image,
                self._timing,
                limits=limits,
                on_pause=heartbeat(progress, lambda: expected_traffic(self.program, indices)),
                keep=keep_tokens or self._keep,
                check=check,
                source=lambda unit: self._wiring.units[unit].source,
                function=self._function,
            )
        except LoweringError as error:
            # An image has no name.
            raise LoweringError(f"{where} {error}") from error
