"""A program laid out for a machine, to be run any number of times."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import Range, flag, shown
from stepsim.deferred import deferred
from stepsim.errors import ArgError, EvaluationError, LoweringError, StepSimError
from stepsim.graph import (
    Bindings,
    Compute,
    Function,
    Program,
    Routing,
    RoutingSource,
    Wiring,
    check_bindings,
    check_many_bindings,
    wire,
)
from stepsim.kernels import Execution, Status
from stepsim.lowering import (
    AddressMap,
    Image,
    ImageTemplate,
    Place,
    address_map,
    default_depth,
    depths_of,
    network_of,
)
from stepsim.machine import Machine
from stepsim.processes import THREADS
from stepsim.results import Diagnosis, Result
from stepsim.simulation.outcome.totals import Totals
from stepsim.simulation.outcome.verdict import (
    energy_account,
    fit_of,
    kept_fifos,
    verdict,
    with_accounts,
)
from stepsim.simulation.programs.changes import (
    checked_depths,
    depth_of,
    scaled_compute,
    with_depth,
    with_depths,
    with_image,
    with_machine,
    with_named_depths,
    with_placement,
    with_places,
    with_regions,
    with_widths,
)
from stepsim.simulation.programs.fix_file import Fix, SizedFor
from stepsim.simulation.programs.fixes import with_fix
from stepsim.simulation.programs.on_chip import (
    NetworkLoads,
    Place as PlaceOfProgram,
    on_chip,
)
from stepsim.simulation.programs.several_chips import Crossing, chips_of, on_chips
from stepsim.simulation.running.image_run import ImageRun, Recording, run_image
from stepsim.simulation.running.limits import Limits, check_limits
from stepsim.simulation.running.progress import Progress, expected_traffic, heartbeat
from stepsim.typed import typed

if TYPE_CHECKING:
    import pyarrow as pa

    from stepsim import noc
    from stepsim.functional import Decisions
    from stepsim.simulation.outcome import assumptions
    from stepsim.simulation.outcome.energy import EnergyAccount
    from stepsim.simulation.outcome.fit import Fit
    from stepsim.simulation.programs import message_loads, whole_result
    from stepsim.simulation.recording import decisions
    from stepsim.simulation.running import batches, depth_runs
else:
    assumptions = deferred("stepsim.simulation.outcome.assumptions")
    batches = deferred("stepsim.simulation.running.batches")
    decisions = deferred("stepsim.simulation.recording.decisions")
    depth_runs = deferred("stepsim.simulation.running.depth_runs")
    message_loads = deferred("stepsim.simulation.programs.message_loads")
    whole_result = deferred("stepsim.simulation.programs.whole_result")

SEED: Final = Range(2**128 - 1, "that inputs were made from", low=0)

FifoDepth: TypeAlias = int | Mapping[str, int | None] | str | PathLike[str] | None
"""A depth for all FIFOs that state none, or depths by name, or a file of depths."""


class Prepared:
    """A program laid out for a machine, to be run any number of times. Made by :func:`prepare`.

    Every method takes the ``bindings`` of one run: index arrays ``[rows, k]`` by routing, for the
    routings that were built from a shape only, or in place of those that the program was built
    with. Bindings that do not fit raise ArgError.

    Attributes
    ----------
    program, machine : the program and its target.
    fifo_depth : tokens in FIFOs that do not state their own depth.
    fifo_depth_from : its origin: "call", "machine", "program" or "default".
    compute_bw : FLOPs per cycle by operator, where they were changed; see :meth:`changed`.
    par_dispatch : requests issued per cycle by operator, where they were changed.
    regions : dies or regions of the machine by operator, where operators are placed.
    sizes : values of symbols that runs decide, if they are known beforehand, to check whether the
        program fits its machine.
    fifo_depths : depths of single FIFOs that :meth:`changed` has set, by name; None is unbounded.
    sized_for : the machine that values of a file were found for, where the file says it.
    machine_values : values of the machine that a fix has changed, by dotted key.
    places : where tensors were put off chip by name, of a tensor or of an operator.
    placement : where operators are on the network on chip of the machine; None: nowhere.
    network : of a placed program, its units with the carriers of tokens.
    crossing : of a program on several chips, the routes of its streams between them.
    wiring, timing, template, keep : units and FIFOs of the program, the numbers of the machine, the
        image without its routing, and FIFOs whose tokens every run keeps.
    """

    def __init__(
        self,
        program: Program,
        machine: Machine,
        fifo_depth: int | None,
        wiring: Wiring | None = None,
        places: Mapping[str, Place] | None = None,
        placement: noc.Placement | None = None,
    ) -> None:
        self.wiring = wiring or wired(program)
        chips = chips_of(self.wiring, machine)
        network = network_of(self.wiring, machine, fifo_depth, places)
        self.crossing: Crossing | None = None
        if placement is not None:
            network = on_chip(network, self.wiring, placement)
        elif len(chips) > 1:
            network, self.crossing = on_chips(network, self.wiring, machine, chips)
        self.network = network if placement is not None else None
        self.program = program
        self.machine = machine
        self.fifo_depth, self.fifo_depth_from = default_depth(program, machine, fifo_depth)
        self.compute_bw: Mapping[str, int] = {}
        self.par_dispatch: Mapping[str, int] = {}
        self.fifo_depths: Mapping[str, int | None] = {}
        self.sized_for: SizedFor | None = None
        self.machine_values: Mapping[str, Any] = {}
        self.regions: Mapping[str, int] = {}
        self.places: Mapping[str, Place] = dict(places or {})
        self.placement = placement
        self.sizes: Mapping[Any, int] = {}
        self.timing = network.timing
        self._assumptions: assumptions.AssumptionCheck | None = None
        if program.assumptions:
            self._assumptions = assumptions.AssumptionCheck(self.wiring)
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

    def changed(
        self,
        *,
        fifo_depth: FifoDepth = None,
        fifo_depths: Mapping[str, int | None] | None = None,
        compute: Mapping[str, float] | None = None,
        par_dispatch: Mapping[str, int] | None = None,
        machine: Machine | str | None = None,
        regions: Mapping[str, int] | None = None,
        addresses: Mapping[str, Any] | None = None,
        fix: str | PathLike[str] | Fix | None = None,
        place: PlaceOfProgram | None = None,
    ) -> Prepared:
        """The same program with other numbers, without laying it out again.

        Its runs are, to the byte of their image, those of a program built with these numbers. This
        one stays as it is. Values that are not given keep earlier changes.

        Parameters
        ----------
        fifo_depth : tokens in FIFOs that do not state their own depth and are not changed by name;
            or depths by name, or a file of such, as :func:`simulate` takes them.
        fifo_depths : tokens by name of a FIFO, as ``Result.fifos`` names them; None is unbounded. A
            depth that the program states itself (``with_depth``) is changed like any other.
        compute : factors of the FLOPs per cycle by name of an operator, as ``Result.units`` names
            them; the product is rounded down, to at least 1. math.inf removes the limit.
        par_dispatch : requests issued to the memory per cycle by name of a load or store.
        machine : another target, or the name of one.
        regions : numbers of dies or regions of the machine, from 0, by name of an operator, which
            together must fit their share of it; ``"expert3.*"`` matches all with that prefix.
        addresses : places of tensors off chip, as :func:`simulate` takes them, in place of earlier
            ones.
        fix : a file of changes, as :func:`simulate` takes it, made before those that are given
            here by name.
        place : where operators are on the network on chip, as :func:`simulate` takes it, in place
            of earlier places.

        Raises
        ------
        ArgError
            There is no such FIFO, operator, region or tensor, an operator has no FLOPs or no memory
            port, a depth is neither an int from 1 nor None, or a number is out of range.
        MachineError
            The machine is unknown or invalid.
        """
        made = self
        if machine is not None:
            made = with_machine(made, machine)
        if fix is not None:
            made = with_fix(made, fix)
        if addresses is not None:
            made = with_places(made, addresses)
        if place is not None:
            made = with_placement(made, place)
        if fifo_depth is not None:
            depth, named = depth_of(fifo_depth)
            made = with_depth(made, depth) if named is None else with_named_depths(made, named)
        if fifo_depths is not None:
            made = with_depths(made, fifo_depths)
        if compute is not None:
            made = scaled_compute(made, compute)
        if par_dispatch is not None:
            made = with_widths(made, par_dispatch)
        if regions is not None:
            made = with_regions(made, regions)
        return made

    @typed
    def edited(self, edit: Callable[[Image], Image]) -> Prepared:
        """The same program with an image that ``edit`` makes of its own; units and FIFOs stay."""
        return with_image(self, edit)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on its runs, a sentence each."""
        return whole_result.notes_of(self)

    @cached_property
    def address_map(self) -> AddressMap:
        """The addresses of its tensors off chip.

        Raises
        ------
        ArgError
            The memory of the machine has no addresses.
        """
        if self.timing.dram is None:
            raise ArgError(
                f"program '{self.program.name}': machine '{self.machine.name}' has hbm.model "
                f"'{self.machine.hbm.model}', which knows no addresses; choose a machine with "
                "hbm.model 'dram'"
            )
        return address_map(self.wiring, self.machine, self.timing.dram, self.places)

    def address_rows(self) -> list[dict[str, Any]]:
        """The address map as rows: ``tensor``, ``operators``, ``base`` and ``bytes``, ``layout``,
        ``channels`` that its requests reach of those there are (``of``), and the part of them that
        goes to the ``most_loaded`` one.

        Raises ArgError as `address_map`.
        """
        placed, dram = self.address_map, self.timing.dram
        return [] if dram is None else placed.rows(dram)

    @cached_property
    def fifo_numbers(self) -> Mapping[str, int]:
        """Number of every FIFO, by name."""
        return {fifo.name: number for number, fifo in enumerate(self.wiring.fifos)}

    @property
    def unit_count(self) -> int:
        """Number of its units, with the carriers of tokens between places and chips."""
        return len(self.template.first.units)

    @property
    def depths(self) -> list[int | None]:
        """The depth of every FIFO of the program; None is unbounded."""
        return depths_of(self.template.first)[: len(self.wiring.fifos)]

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
        record: Recording = False,
    ) -> ImageRun:
        """Run once. ``keep_tokens`` keeps all tokens of all FIFOs in memory.

        ``record`` records every wait of every unit, which changes no number of the run and costs up
        to a fifth of its time; with "paces" the pace of the units too.
        """
        indices = check_bindings(self.program, bindings)
        return self._execute(indices, limits, progress, keep_tokens, record)

    def run(
        self, bindings: Mapping[Any, Any] | None = None, *, limits: Limits | None = None
    ) -> Totals:
        """Run once, for the totals only."""
        indices = check_bindings(self.program, bindings)
        return self._accounted(self._execute(indices, limits, None), indices).totals

    def run_many(
        self, bindings: Any, *, limits: Limits | None = None, threads: int = 1
    ) -> list[Totals]:
        """Run once for each of many bindings, for the totals only.

        ``bindings`` and ``threads`` are those of :func:`stepsim.simulate_many`, which
        makes a table.
        """
        where = f"program '{self.program.name}':"
        check_limits(where, limits)
        threads = THREADS.checked(f"{where} threads", threads)
        count, indices = check_many_bindings(self.program, bindings)
        many = batches.ManyRuns(self, count, indices, limits, units=False)
        (outcomes,) = batches.run_all([many], threads)
        return [many.totals(outcomes, run) for run in range(count)]

    def run_depths(
        self,
        fifo_depths: Iterable[Mapping[str, int | None]],
        bindings: Mapping[Any, Any] | None = None,
        *,
        limits: Limits | None = None,
    ) -> depth_runs.DepthRuns:
        """Run once for each of many choices of FIFO depths; each is that of :meth:`changed`.

        The program is laid out once, and what a run begins with is changed in place.
        """
        where = f"program '{self.program.name}':"
        check_limits(where, limits)
        if not isinstance(fifo_depths, Iterable) or isinstance(fifo_depths, Mapping | str):
            raise ArgError(
                f"{where} fifo_depths must be a list of mappings from names of FIFOs to depths, "
                f"one for each run, found {shown(fifo_depths)}"
            )
        numbers = self.fifo_numbers
        rows = [
            {numbers[name]: depth for name, depth in checked_depths(self.wiring, one).items()}
            for one in fifo_depths
        ]
        indices = check_bindings(self.program, bindings)
        image = self._image(indices)
        return depth_runs.run_depths(
            image, rows, limits=limits, keep=self.keep, check=self.check(indices)
        )

    def run_with_units(
        self, bindings: Mapping[Any, Any] | None = None, *, limits: Limits | None = None
    ) -> tuple[Totals, pa.Table]:
        """Like :meth:`run`, with the Arrow table of the stall breakdown of every unit."""
        indices = check_bindings(self.program, bindings)
        done = self._accounted(self._execute(indices, limits, None), indices)
        return done.totals, done.units()

    def result(
        self,
        bindings: Mapping[Any, Any] | None = None,
        *,
        limits: Limits | None = None,
        progress: Callable[[Progress], None] | None = None,
        seed: int | None = None,
        record: bool = False,
    ) -> Result:
        """Run once and return the whole `Result`; parameters as in :func:`simulate`."""
        indices = check_bindings(self.program, bindings)
        if seed is not None:
            seed = SEED.checked(f"program '{self.program.name}': seed", seed)
        record = flag(f"program '{self.program.name}': record", record)
        done = self._execute(indices, limits, progress, keep_tokens=record, record=record)
        return whole_result.result_of(self, self._accounted(done, indices), indices, seed)

    def loads(self, done: ImageRun) -> NetworkLoads | message_loads.MessageLoads | None:
        """What crossed the network on chip in a run, or the links between its chips; None where
        the program is not placed and on one chip."""
        if self.crossing is not None:
            names = tuple(fifo.name for fifo in self.wiring.fifos)
            return message_loads.MessageLoads(
                self.crossing, names, done.execution.scratch, done.totals.cycles
            )
        if self.placement is None or self.network is None:
            return None
        return NetworkLoads(
            self.placement, self.network, done.execution.scratch, done.totals.cycles
        )

    def decisions(self, bindings: Mapping[Any, Any] | None = None) -> Decisions:
        """Run once and record the order of arrivals wherever values depend on it.

        All tokens of the run are kept in memory.

        Raises
        ------
        EvaluationError
            The run failed or deadlocked; :meth:`result` reports why.
        """
        done = self.execute(bindings, keep_tokens=True)
        failed = int((done.execution.units["state"] == Status.FAILED).sum())
        if failed or not done.execution.finished:
            state = f"{failed} failed units" if failed else "a deadlock"
            raise EvaluationError(
                f"program '{self.program.name}': the timing run ended with {state}, so that its "
                "decisions are incomplete. See the diagnosis of stepsim.simulate(program)"
            )

        return decisions.decisions_of(self.wiring, done, self.program_hash)

    def words(self, indices: Mapping[Routing, NDArray[np.int64]]) -> NDArray[np.int64]:
        """The template's inputs for checked indices ``[..., rows, k]`` of one or several runs."""
        return self.template.words(
            {key: op.chosen(indices[op.routing]) for key, op in self._sources.items()}
        )

    def judge(
        self, image: Image, execution: Execution, indices: Bindings
    ) -> tuple[Totals, Diagnosis | None]:
        """Totals of a run of these indices, and the diagnosis if it is not ok."""
        check = self.check(indices)
        totals, diagnosis = verdict(
            image, execution, self.timing, check, self._source, self._function
        )
        return with_accounts(self, totals, diagnosis, execution, indices)

    @cached_property
    def energy(self) -> EnergyAccount | None:
        """The energy counter of runs; see `stepsim.simulation.outcome.verdict`."""
        return energy_account(self)

    @cached_property
    def fit(self) -> Fit | None:
        """The comparison of the program with its machine; see the same module."""
        return fit_of(self)

    @property
    def is_accounted(self) -> bool:
        """Whether runs are checked for their energy or for the fit of the program."""
        return self.energy is not None or self.fit is not None

    def _accounted(self, done: ImageRun, indices: Bindings) -> ImageRun:
        """The run with its energy, and the status infeasible where the program does not fit."""
        if not self.is_accounted:
            return done
        totals, diagnosis = with_accounts(
            self, done.totals, done.diagnosis, done.execution, indices
        )
        return replace(done, totals=totals, diagnosis=diagnosis)

    def check(self, indices: Bindings) -> Callable[[Execution], StepSimError | None] | None:
        """The check of a run against the assumptions of the program, if it has any."""
        if self._assumptions is None:
            return None
        return functools.partial(self._assumptions.error, indices=indices)

    def _image(self, indices: Bindings) -> Image:
        return self.template.image(self.words(indices))

    def _source(self, unit: int) -> str:
        if unit >= len(self.wiring.units):
            return ""  # a carrier
        return self.wiring.units[unit].source

    def _function(self, unit: int) -> Function | None:
        if unit >= len(self.wiring.units):
            return None
        operator = self.wiring.units[unit].operator
        return operator.function if isinstance(operator, Compute) else None

    def _execute(
        self,
        indices: Bindings,
        limits: Limits | None,
        progress: Callable[[Progress], None] | None,
        keep_tokens: bool = False,
        record: Recording = False,
    ) -> ImageRun:
        where = f"program '{self.program.name}':"
        check_limits(where, limits)
        if progress is not None and not callable(progress):
            raise ArgError(f"{where} progress must be a function or None, found {shown(progress)}")
        keep_tokens = flag(f"{where} keep_tokens", keep_tokens)
        if record != "paces":
            record = flag(f"{where} record", record)
        image = self._image(indices)
        try:
            return run_image(
                image,
                self.timing,
                limits=limits,
                on_pause=heartbeat(progress, lambda: expected_traffic(self.program, indices)),
                keep=keep_tokens or kept_fifos(self),
                check=self.check(indices),
                source=self._source,
                function=self._function,
                record=record,
            )
        except LoweringError as error:
            # An image has no name.
            raise LoweringError(f"{where} {error}") from error


def wired(program: Program) -> Wiring:
    """Units and FIFOs for any routing: the bindings here are placeholders."""
    return wire(
        program,
        {
            op.routing: op.routing.balanced()
            for op in program.operators
            if isinstance(op, RoutingSource)
        },
    )
