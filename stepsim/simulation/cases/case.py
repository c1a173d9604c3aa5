"""A workload on data and a machine: built, prepared, run, and measured in one way for all callers.

The command line, sweeps and the reproduction of figures all take their numbers from here, so that a
column has the same value everywhere.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from stepsim.arguments import label_of
from stepsim.collection import without_collection
from stepsim.digests import sha256
from stepsim.errors import ArgError, WorkloadError
from stepsim.graph import Bindings, Metrics, Program, Routing, allocated_compute, check_bindings
from stepsim.machine import Machine
from stepsim.plugins import identity_of
from stepsim.results import COUNTED, ENDED, EVERY_MEASURE, Result, utilization
from stepsim.simulation.cases.columns import counting_of, describe
from stepsim.simulation.cases.fifo_memory import FifoMemory
from stepsim.simulation.outcome.totals import Totals, added
from stepsim.simulation.programs.changes import with_named_depths
from stepsim.simulation.programs.fix_file import Fix
from stepsim.simulation.programs.on_chip import Place, described_place, placement_of
from stepsim.simulation.programs.prepared import Prepared
from stepsim.simulation.programs.simulate import prepare
from stepsim.simulation.running.limits import Limits
from stepsim.simulation.running.progress import Progress
from stepsim.typed import typed
from stepsim.workloads import (
    Built,
    Counted,
    Data,
    Resolved,
    Source,
    Workload,
    data_of,
    fields_of,
    find_workload,
    machine_of,
    resolve,
)

_DECIDED = frozenset(("left_out", "regions_built"))
"""Columns in addition to the parameters that building may fill in."""

_OF_RUN = (
    "cycles", "peak_bandwidth", "memory_requests", "bus_bytes", "tokens", "engine_steps",
)  # fmt: skip
"""Measures that are attributes of totals and results."""

_OF_PROGRAM = frozenset(("onchip_bytes", "padded_flops"))
"""Columns that follow from the program, also in executed counting."""


def make_case(
    workload: str | Path,
    data: Data | None = None,
    *,
    machine: Machine | str | Path | None = None,
    config: str | None = None,
    counting: str | None = None,
    **given: Any,
) -> Case:
    """A workload on data and a machine, as ``stepsim run`` builds it.

    Parameters
    ----------
    workload : name, or file and name as in ``gemm.py:gemm``.
    data : the inputs of the workload; none by default.
    machine : name, file or machine; by default that of the published experiment with ``config``,
        else ``sda-1024``.
    config : ``published`` takes what is not given from the published experiment.
    counting : ``executed``, ``published`` or ``paper``; published by default with ``config``.
    given : parameters of the workload.

    Raises
    ------
    WorkloadError : there is no such workload, or it does not build a program.
    UserCodeError : the workload is the user's, and raises.
    ArgError : ``data`` is not a Data object.
    ParameterError : parameters are wrong or do not fit the data.
    MachineError : the machine is unknown or invalid.
    """
    source = find_workload(workload)
    kind = source.load()
    config = label_of("config", config)
    fed = Data() if data is None else data_of(data)
    target = machine_of(usual_machine(kind, config) if machine is None else machine)
    with source.user_code():
        resolved = resolve(kind, given, machine=target, config=config, data=[fed])
    return Case(source, resolved, fed, target, counting_of(counting, config))


def usual_machine(workload: type[Workload], config: str | None) -> str:
    """Name of the machine where none is given: with published settings, that of the experiment."""
    published = workload.published_machine if config == "published" else None
    return published or workload.own_machine or "sda-1024"


class Case:
    """A built and prepared workload. It runs all data of one `Workload.program_key`.

    Methods that take data refuse data of another key with ArgError.

    Attributes
    ----------
    source : where the workload comes from.
    resolved : its parameters and the origins of their values.
    built, machine : the program and its target.
    counting : how bytes and FLOPs are counted.
    """

    def __init__(
        self,
        source: Source,
        resolved: Resolved[Workload],
        data: Data,
        machine: Machine,
        counting: str,
    ) -> None:
        self.source = source
        self.resolved = resolved
        self.machine = machine
        self.counting = counting
        self._compute_bw: Mapping[str, int] = {}
        self._fifos: list[FifoMemory] = []
        self._first = data
        self._fitting = data
        with self.source.user_code(), without_collection():
            resolved.workload.checked(data)
            self.built = _checked(
                resolved.workload.build_for(data, machine), resolved.workload, source
            )

    @cached_property
    def prepared(self) -> Prepared:
        """The program laid out for the machine."""
        own = self.built.fifo_depths
        return self.unsized if own is None else with_named_depths(self.unsized, own)

    @property
    def sizes_stated(self) -> bool:
        """Whether FIFOs whose depths the program states are sized too, as in a sized design."""
        return self.built.fifo_depths is not None

    @cached_property
    def unsized(self) -> Prepared:
        """The program laid out without the depths that the workload has of single FIFOs."""
        return self._laid_out(self.built)

    def _laid_out(self, built: Built) -> Prepared:
        made = prepare(built.program, machine=self.machine, fifo_depth=self._fifo_depth())
        if made.fit is not None:
            with self.source.user_code():
                known = built.symbols(self._first)
            made.sizes = {key: one for key, one in known.items() if not isinstance(key, Routing)}
        return made

    @cached_property
    def earlier(self) -> tuple[Prepared, ...]:
        """The programs that run before it, laid out."""
        found = []
        for one in self.built.earlier:
            made, own = self._laid_out(one), one.fifo_depths
            found.append(made if own is None else with_named_depths(made, own))
        return tuple(found)

    def together(self, last: Totals, limits: Limits | None = None) -> Totals:
        """Totals of a run of the program with those of the programs that run before it.

        If one of these fails, the totals are those of the failed one.
        """
        if not self.earlier:
            return last
        runs = [prepared.run(limits=limits) for prepared in self.earlier]
        for run in runs:
            if run.status not in ENDED:
                return run
        return added([*runs, last])

    def require_one_program(self, what: str) -> None:
        """Refuse several programs where only one is possible.

        Raises
        ------
        ArgError : programs run one after another here.
        """
        count = len(self.built.earlier) + 1
        if count > 1:
            raise ArgError(
                f"{self.source.text}: {count} programs run one after another, but {what} is for "
                "one program; choose one by a parameter such as group"
            )

    def with_fifo_depths(self, depths: Mapping[str, int | None] | str | Path) -> Case:
        """The same case with depths of single FIFOs, by name or in a file; see `simulate`.

        Raises
        ------
        ArgError : they do not fit the program, or the file cannot be read.
        """
        made = copy.copy(self)
        made.prepared = with_named_depths(self.prepared, depths)
        return made

    def with_fix(self, fix: str | Path | Fix) -> Case:
        """The same case with a fix; its machine is that of the fix. See `simulate`.

        Raises
        ------
        ArgError : it does not fit the program, or the file cannot be read.
        MachineError : the machine has no such value, or it is out of range.
        """
        self.require_one_program("a fix")
        made = copy.copy(self)
        made.prepared = self.prepared.changed(fix=fix)
        made.machine = made.prepared.machine
        made._compute_bw = made.prepared.compute_bw
        vars(made).pop("_allocated", None)
        return made

    def placed(self, place: Place) -> Case:
        """The same case on the network on chip of its machine; see `simulate`.

        Raises
        ------
        ArgError : the placement does not fit the program or the machine.
        """
        known = self.prepared.placement
        if known is not None:
            other = placement_of(self.prepared.program, self.prepared.machine, place)
            if described_place(other) != described_place(known):
                raise ArgError(
                    f"program '{self.prepared.program.name}': its fix has places of operators, and "
                    "others are given; leave one of them out"
                )
            return self
        made = copy.copy(self)
        made.unsized = self.unsized.changed(place=place)
        made.prepared = self.prepared.changed(place=place)
        return made

    def _must_fit(self, data: Data) -> None:
        """Refuse data that would have another program than the one that was built.

        Lengths of caches, for example, are part of the program of attention: a run of it would
        silently be one of the data that it was built from.

        Raises
        ------
        ArgError : inputs that decide the program differ.
        """
        fed, workload = data_of(data), self.resolved.workload
        if fed is self._fitting or not workload.inputs:  # without inputs, data decide nothing
            return
        with self.source.user_code():
            same = workload.program_key(fed) == workload.program_key(self._first)
            decisive = ["rows", *(one.name for one in workload.deciding())]
        if not same:
            differing = [name for name in decisive if _differ(fed, self._first, name)]
            raise ArgError(
                f"{self.source.text}: {', '.join(differing) or 'data'}: expected those that the "
                "program was built from, which they decide, found others; build a program of "
                "these data with make_case"
            )
        self._fitting = fed

    def _fifo_depth(self) -> int | None:
        """The FIFO depth to prepare with: that of a parameter that is given for it.

        A function need not pass it on to its program. Otherwise it is that of the machine if that
        states one, or else that of the program.
        """
        for name, field in fields_of(type(self.resolved.workload)).items():
            if field.param.machine == "fifo.depth" and self.resolved.origins[name] == "given":
                depth: int = getattr(self.resolved.workload, name)
                return depth
        return None

    def run(self, data: Data, *, limits: Limits | None = None) -> Totals:
        """Simulate for the totals only, including programs that run before."""
        return self.together(self.prepared.run(self._bindings(data), limits=limits), limits)

    def run_with_units(self, data: Data, *, limits: Limits | None = None) -> tuple[Totals, Any]:
        """Like `run`, with the Arrow table of the stall breakdown of every unit."""
        self.require_one_program("the stall breakdown")
        return self.prepared.run_with_units(self._bindings(data), limits=limits)

    def bound(self, data: Data) -> Bindings:
        """The checked routing indices of a run of these data.

        Raises
        ------
        UserCodeError : the workload is the user's, and raises.
        ArgError : its bindings do not fit its program.
        """
        return check_bindings(self.built.program, self._bindings(data))

    def result(
        self,
        data: Data,
        *,
        limits: Limits | None = None,
        progress: Callable[[Progress], None] | None = None,
        seed: int | None = None,
        record: bool = False,
    ) -> Result:
        """Simulate for a complete result."""
        self.require_one_program("a result")
        bindings = self._bindings(data)
        made = self.prepared.result(
            bindings, limits=limits, progress=progress, seed=seed, record=record
        )
        provenance = self._provenance(made.provenance, data)
        return replace(made, provenance=provenance, notes=(*self.built.notes, *made.notes))

    def _provenance(self, of_run: Mapping[str, Any], data: Data) -> dict[str, Any]:
        """The provenance of the run, with the inputs that the program was built from."""
        plugins, plugin = of_run["plugins"], self.source.plugin
        if plugin is not None:
            plugins = {**plugins, f"{plugin.group} {plugin.name}": identity_of(plugin)}
        lengths, new = data.kv_lengths, data.new_tokens
        return {
            **of_run,
            "workload": self.source.text,
            "workload_digest": self.source.digest,
            "parameters": self.resolved.workload.columns() | self.built.parameters,
            "origins": dict(self.resolved.origins),
            "config": self.resolved.config,
            "counting": self.counting,
            "kv_lengths": None if lengths is None else sha256(lengths.tobytes()).hexdigest(),
            **({} if new is None else {"new_tokens": sha256(new.tobytes()).hexdigest()}),
            "plugins": plugins,
        }

    @cached_property
    def metrics(self) -> Metrics:
        """The symbolic totals, counted as the case says."""
        return self._metrics_of(self.built)

    def _metrics_of(self, built: Built) -> Metrics:
        return built.program.metrics(counting=self.counting)

    def counted(self, data: Data) -> Counted | None:
        """Metrics of the program for these data; None if they do not follow from the graph."""
        self._must_fit(data)
        with self.source.user_code():
            published = self.built.published(data) if self.counting == "published" else None
            if published is not None:
                return published
            every = (*self.built.earlier, self.built)
            try:
                bound = [
                    (self.metrics if one is self.built else self._metrics_of(one)).bind(
                        one.symbols(data)
                    )
                    for one in every
                ]
            except ArgError:
                # Sizes that only the run of a user's program determines are unknown before.
                if not self.source.is_foreign:
                    raise
                return None
            return Counted(
                offchip_bytes=sum(one.off_chip_traffic for one in bound),
                onchip_bytes=max(one.on_chip_memory for one in bound),
                flops=sum(one.flops for one in bound),
                padded_flops=self.built.padded_flops(data),
                allocated_flops_per_cycle=self._allocated,
            )

    @typed
    def measures(
        self, done: Totals | Result, data: Data, wanted: Collection[str] = EVERY_MEASURE
    ) -> dict[str, Any]:
        """The requested columns of `EVERY_MEASURE` that a run of these data has on the machine.

        Executed quantities are those of the run. In another counting bytes and FLOPs are those that
        a whole run has. Utilizations of runs that are not ok are None.
        """
        milliseconds = self.machine.milliseconds(done.cycles)
        found: dict[str, Any] = {name: getattr(done, name) for name in _OF_RUN}
        found["milliseconds"] = milliseconds
        if not COUNTED.isdisjoint(wanted):
            found |= self._counted_columns(done, data, wanted)
        if "fifo_bytes" in wanted:
            found["fifo_bytes"] = self._fifo_bytes(data)
        if done.energy is not None:
            seconds = None if milliseconds is None else milliseconds / 1e3
            found |= done.energy.columns(seconds)
            found["tokens_per_second"] = self.tokens_per_second(done, data)
        return {name: found[name] for name in EVERY_MEASURE if name in wanted and name in found}

    @typed
    def tokens_per_second(self, done: Totals | Result, data: Data) -> float | None:
        """Tokens of the workload over the length of the run.

        None where the machine states no clock or the workload no tokens (`Built.tokens`).
        """
        self._must_fit(data)
        with self.source.user_code():
            tokens = self.built.tokens(data)
        milliseconds = self.machine.milliseconds(done.cycles)
        if tokens is None or not milliseconds:
            return None
        return tokens / milliseconds * 1e3

    def _counted_columns(
        self, done: Totals | Result, data: Data, wanted: Collection[str]
    ) -> dict[str, Any]:
        executed = self.counting == "executed"
        counted = None
        if not executed or not _OF_PROGRAM.isdisjoint(wanted):
            counted = self.counted(data)
        moved: int | None = done.offchip_bytes
        work: int | None = done.flops
        if not executed:
            # If it cannot be counted in this way it is unknown; executed tokens differ.
            moved = None if counted is None else counted.offchip_bytes
            work = None if counted is None else counted.flops
        allocated = self._allocated
        if counted is not None and self._of_machine is None and not self._compute_bw:
            allocated = counted.allocated_flops_per_cycle
        room = done.cycles * allocated
        return {
            "offchip_bytes": moved,
            "flops": work,
            "onchip_bytes": None if counted is None else counted.onchip_bytes,
            "padded_flops": None if counted is None else counted.padded_flops,
            "allocated_flops_per_cycle": allocated,
            "compute_utilization": utilization(done.status, work, room),
            "bandwidth_utilization": utilization(done.status, moved, self._peak_bytes(done)),
        }

    def _fifo_bytes(self, data: Data) -> int | None:
        """Bytes of all FIFOs; of programs that run one after another, those of the largest."""
        self._must_fit(data)
        laid_out = (*self.earlier, self.prepared)
        if [one.prepared for one in self._fifos] != [*laid_out]:
            self._fifos = [FifoMemory(prepared) for prepared in laid_out]
        every = (*self.built.earlier, self.built)
        with self.source.user_code():
            found = [
                fifos.of(partial(built.symbols, data))
                for fifos, built in zip(self._fifos, every, strict=True)
            ]
        known = [size for size in found if size is not None]
        return max(known) if len(known) == len(found) else None

    def _peak_bytes(self, done: Totals | Result) -> float | None:
        """Peak off-chip bytes, for utilization; the published figures do not round up.

        None if every operator has a separate memory, in all countings.
        """
        if self.counting == "published" and done.peak_bytes is not None:
            return done.cycles * done.peak_bandwidth
        return done.peak_bytes

    @cached_property
    def _allocated(self) -> int:
        every = (*self.built.earlier, self.built)
        return max(
            allocated_compute(one.program, self._of_machine, self._compute_bw) for one in every
        )

    @property
    def _of_machine(self) -> int | None:
        """FLOPs per cycle by which the machine replaces those of the program for every operator."""
        compute = self.machine.compute
        return None if compute is None else compute.unit_flops_per_cycle

    def describe(self, data: Data) -> dict[str, Any]:
        """Description of the run by column, with values that building set; see `describe`."""
        self._must_fit(data)
        workload = self.resolved.workload
        with self.source.user_code():
            fed = workload.implied(workload.values(), data)
        own = describe(self.source, self.resolved, self.machine, self.counting, fed)
        return own | self.built.parameters

    def _bindings(self, data: Data) -> Mapping[Any, Any]:
        self._must_fit(data)
        with self.source.user_code():
            return self.built.bindings(data)


def _differ(data: Data, first: Data, name: str) -> bool:
    """Whether an attribute of the data differs."""
    own, other = getattr(data, name), getattr(first, name)
    if own is None or other is None:
        return own is not other
    return not np.array_equal(own, other)


def _checked(built: Any, workload: Workload, source: Source) -> Built:
    """The result of a workload's build, checked."""
    where = f"{source.text}: build"
    if not isinstance(built, Built):
        raise WorkloadError(
            f"{where}: expected a Built, found {type(built).__name__}; "
            "return st.workloads.Built(program)"
        )
    if not isinstance(built.program, Program):
        raise WorkloadError(
            f"{where}: expected a Built of a Program, found one of {type(built.program).__name__}"
        )
    known = _DECIDED.union(fields_of(type(workload)))
    unknown = [str(name) for name in built.parameters if name not in known]
    if unknown:
        raise WorkloadError(
            f"{where}: Built.parameters has {', '.join(unknown)}, expected parameters of the "
            f"workload or {', '.join(sorted(_DECIDED))}; leave them out"
        )
    return built
