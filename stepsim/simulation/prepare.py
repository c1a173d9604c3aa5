"""The one run path: a program is prepared, gets its image, is executed, and is collected.

Wiring and layout depend on the routing only through selectors. A prepared program is wired and laid
out once, and every run fills in the selectors of its own routing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import Range, flag, shown
from stepsim.errors import ArgError, EvaluationError, LoweringError, StepSimError
from stepsim.graph import Program, Wiring, wire
from stepsim.graph.functions import Function
from stepsim.graph.many_bindings import check_many_bindings
from stepsim.graph.operator import Bindings
from stepsim.graph.ops.compute import Compute
from stepsim.graph.program import check_program
from stepsim.graph.routing_table import Routing, RoutingSource, check_bindings
from stepsim.kernels.driver import Execution
from stepsim.kernels.layout import Status
from stepsim.lowering import Image, default_depth, network_of
from stepsim.lowering.rebind import ImageTemplate
from stepsim.machine import Machine, load_machine
from stepsim.results import Diagnosis, Result
from stepsim.simulation.heartbeat import expected_traffic, heartbeat
from stepsim.simulation.image_run import ImageRun, run_image, verdict
from stepsim.simulation.limits import Limits, Progress
from stepsim.simulation.many_runs import THREADS, ManyRuns, run_all
from stepsim.simulation.provenance import index_digests, provenance_of
from stepsim.simulation.totals import Totals

if TYPE_CHECKING:
    import pyarrow as pa

    from stepsim.functional import Decisions
    from stepsim.simulation.assumptions import AssumptionCheck

__all__ = ["Prepared", "check_limits", "kept_prepared", "prepare"]

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


def kept_prepared(
    program: Program,
    machine: Machine | str,
    fifo_depth: int | None,
    wiring: Wiring | None = None,
) -> Prepared:
    """The program prepared for a machine, kept with the program for its next run.

    ``wiring`` is that of the program, where it is known.
    """
    check_program("prepare", program)
    target = machine if isinstance(machine, Machine) else load_machine(machine)
    # Values that are equal may be of types that are refused.
    depth, origin = default_depth(program, target, fifo_depth)
    name = ("prepared", target, depth, origin)
    return program.kept(name, lambda: Prepared(program, target, fifo_depth, wiring))


class Prepared:
    """A program laid out for a machine, to be run any number of times. Made by :func:`prepare`.

    Every method takes the ``bindings`` of one run: index arrays ``[rows, k]`` by routing, for the
    routings that were built from a shape only, or in place of those that the program was built
    with. Bindings that do not fit raise ArgError.

    Attributes
    ----------
    program, machine : what was prepared.
    fifo_depth : tokens in FIFOs that do not state their own depth.
    fifo_depth_from : who states it: "call", "machine", "program" or "default".
    wiring, timing, template, keep : units and FIFOs of the program, the numbers of the machine, the
        image without its routing, and FIFOs whose tokens every run keeps.
    """

    def __init__(
        self,
        program: Program,
        machine: Machine,
        fifo_depth: int | None,
        wiring: Wiring | None = None,
    ) -> None:
        self.wiring = wiring or _wired(program)
        network = network_of(self.wiring, machine, fifo_depth)
        self.program = program
        self.machine = machine
        self.fifo_depth, self.fifo_depth_from = default_depth(program, machine, fifo_depth)
        self.timing = network.timing
        self._assumptions: AssumptionCheck | None = None
        if program.assumptions:
            from stepsim.simulation.assumptions import AssumptionCheck

            self._assumptions = AssumptionCheck(self.wiring)
        self.keep = self._assumptions.keep if self._assumptions else frozenset[int]()
        sources = {
            u: unit.operator
            for u, unit in enumerate(self.wiring.units)
            if isinstance(unit.operator, RoutingSource)
        }
        keys = {u: (op.routing, op.encoding) for u, op in sources.items()}
        self._sources = {keys[u]: op for u, op in sources.items()}
        self.template = ImageTemplate(network, keys)

    @cached_property
    def program_hash(self) -> str:
        """Fingerprint of the program."""
        return self.program.fingerprint()

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

    def run_many(
        self, bindings: Any, *, limits: Limits | None = None, threads: int = 1
    ) -> list[Totals]:
        """Run once for each of many bindings, for the totals only.

        ``bindings`` and ``threads`` are those of :func:`stepsim.simulation.simulate_many`, which
        makes a table.
        """
        where = f"program '{self.program.name}':"
        check_limits(where, limits)
        threads = THREADS.checked(f"{where} threads", threads)
        count, indices = check_many_bindings(self.program, bindings)
        many = ManyRuns(self, count, indices, limits, units=False)
        (outcomes,) = run_all([many], threads)
        return [many.totals(outcomes, run) for run in range(count)]

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
        from stepsim.simulation.decisions import decisions_of

        return decisions_of(self.wiring, done, self.program_hash)

    def words(self, indices: Mapping[Routing, NDArray[np.int64]]) -> NDArray[np.int64]:
        """What the template takes for checked indices ``[..., rows, k]`` of one or several runs."""
        return self.template.words(
            {key: op.chosen(indices[op.routing]) for key, op in self._sources.items()}
        )

    def judge(
        self, image: Image, execution: Execution, indices: Bindings
    ) -> tuple[Totals, Diagnosis | None]:
        """Totals of a run of these indices, and why it did not end well."""
        check = self.check(indices)
        return verdict(image, execution, self.timing, check, self._source, self._function)

    def check(self, indices: Bindings) -> Callable[[Execution], StepSimError | None] | None:
        """What tells whether a run agrees with the assumptions of the program, if it has any."""
        if self._assumptions is None:
            return None
        return functools.partial(self._assumptions.error, indices=indices)

    def _image(self, indices: Bindings) -> Image:
        return self.template.image(self.words(indices))

    def _source(self, unit: int) -> str:
        return self.wiring.units[unit].source

    def _function(self, unit: int) -> Function | None:
        operator = self.wiring.units[unit].operator
        return operator.function if isinstance(operator, Compute) else None

    def _execute(
        self,
        indices: Bindings,
        limits: Limits | None,
        progress: Callable[[Progress], None] | None,
        keep_tokens: bool = False,
    ) -> ImageRun:
        where = f"program '{self.program.name}':"
        check_limits(where, limits)
        if progress is not None and not callable(progress):
            raise ArgError(f"{where} progress must be a function or None, found {shown(progress)}")
        keep_tokens = flag(f"{where} keep_tokens", keep_tokens)
        image = self._image(indices)
        try:
            return run_image(
                image,
                self.timing,
                limits=limits,
                on_pause=heartbeat(progress, lambda: expected_traffic(self.program, indices)),
                keep=keep_tokens or self.keep,
                check=self.check(indices),
                source=self._source,
                function=self._function,
            )
        except LoweringError as error:
            # An image has no name.
            raise LoweringError(f"{where} {error}") from error


def check_limits(where: str, limits: object) -> None:
    """Refuse limits that are none."""
    if limits is not None and not isinstance(limits, Limits):
        raise ArgError(f"{where} limits must be Limits or None, found {shown(limits)}")


def _wired(program: Program) -> Wiring:
    """Units and FIFOs for any routing: what is bound here is a placeholder."""
    return wire(
        program,
        {
            op.routing: np.tile(np.arange(op.routing.k), (op.routing.rows, 1))
            for op in program.operators
            if isinstance(op, RoutingSource)
        },
    )
