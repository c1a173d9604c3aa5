"""One design point of a sweep: resolved, and tried against the batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from stepsim.arguments import AUTO_DEPTH
from stepsim.errors import ArgError, StepSimError
from stepsim.machine import Machine
from stepsim.placement import PlaceChoice
from stepsim.simulation import AUTO_PLACE, Case, Fix
from stepsim.sweep.planning.traces import Trace
from stepsim.workloads import Data, Resolved, Source, Workload


@dataclass(frozen=True, slots=True)
class Point:
    """One design: everything but the trace. It is small, and the same in every process.

    Attributes
    ----------
    index, label : number and short text; the text names the partition of the results.
    machine : the machine; None for a service whose steps need none.
    values : the parameters of the workload, for it to parse: values of classes of the user are as
        they were given, because other processes have not loaded the class; those that are not
        given are left out.
    fix : changes that are made to its program; None without any.
    place : where its operators are on the network of the machine; None: nowhere.
    content : its canonical values, which are part of the keys of its runs.
    depths : the key for the depth of FIFOs and its value, if the workload does not take it:
        ``auto``, with which each run gets the depths of the fewest bytes, or that of the machine;
        else None.
    group : index of the first of its replicates, over which results are means.
    replicate : the values that distinguish it from these, as text; None without replicates.
    origins, config : see `Resolved`.
    counting : how bytes and FLOPs are counted.
    """

    index: int
    label: str
    source: Source
    values: Mapping[str, Any]
    origins: Mapping[str, str]
    config: str | None
    machine: Machine | None
    counting: str
    content: list[Any]
    depths: tuple[str, Any] | None
    group: int
    replicate: str | None
    fix: Fix | None = None
    place: PlaceChoice | None = None

    @property
    def run_machine(self) -> Machine:
        """The machine of its runs, with the values of the fix."""
        assert self.machine is not None  # programs have one
        return self.machine if self.fix is None else self.fix.applied_to(self.machine)

    @property
    def finds_depths(self) -> bool:
        """Whether each run gets the depths of the fewest bytes."""
        return self.depths is not None and self.depths[1] == AUTO_DEPTH

    @property
    def is_of_one_program(self) -> bool:
        """Whether it has a file that is for one program, or a place for every operator."""
        return self.fix is not None or self.place is not None

    @property
    def machine_values(self) -> dict[str, Any]:
        """The values of its machine; empty without one."""
        return {} if self.machine is None else self.machine.to_dict()

    def case(self, resolved: Resolved[Workload], data: Data) -> Case:
        """The workload built for these data, with the fix and the places of a file.

        Raises
        ------
        StepSimError : it cannot be built, or the fix or the placement is for another program.
        """
        assert self.machine is not None  # programs have one
        made = Case(self.source, resolved, data, self.machine, self.counting)
        made = made if self.fix is None else made.with_fix(self.fix)
        if self.place is None:
            return made
        known = self.place.without_search(made)
        if known is not None:
            return made.placed(known)
        if made.prepared.placement is not None:
            raise ArgError(
                f"place: {AUTO_PLACE} finds places for every run, and its fix has "
                "places of operators; leave one of them out"
            )
        return made

    def resolved(self) -> Resolved[Workload]:
        """The workload with its parameters."""
        with self.source.user_code():
            workload = self.source.load()(**self.values)
        return Resolved(workload, self.origins, self.config)


class Fit(NamedTuple):
    """The batches that a design point can run.

    ``example`` is one of them, None if there is none. ``misfit`` states why it cannot run others;
    empty if it can run all.
    """

    example: Trace | None
    misfit: str


def is_checked_by_building(workload: type[Workload]) -> bool:
    """Whether only building the program can find sizes that do not fit together."""
    return workload.check is Workload.check


def fit(point: Point, traces: Sequence[Trace], *, build: bool) -> Fit:
    """Check a design point against all batches; with ``build``, build its program for one."""
    errors: dict[object, str] = {}
    example: Trace | None = None
    misfits: list[Trace] = []
    why = ""
    tried = 0
    resolved = point.resolved()
    workload = resolved.workload
    for trace in traces:
        if trace.error:
            continue
        size = trace.shape_for(type(workload), workload.values())
        if size not in errors:
            # A fix is for one program; those of other sizes are other programs.
            builds = build and (example is None or point.is_of_one_program)
            errors[size] = _misfit(point, resolved, trace, build=builds)
        tried += 1
        if not errors[size]:
            example = example or trace
        else:
            why = why or errors[size]
            misfits.append(trace)
    if not misfits:
        return Fit(example, "")
    if len(set(errors.values())) == 1:
        return Fit(example, why)
    return Fit(
        example,
        f"does not fit {len(misfits):,} of {tried:,} batches, the first is "
        f"{misfits[0].whole_label}: {why}",
    )


def _misfit(point: Point, resolved: Resolved[Workload], trace: Trace, *, build: bool) -> str:
    workload = resolved.workload
    loaded = trace.loaded()
    if loaded.error:
        return ""
    try:
        with point.source.user_code():
            data = loaded.fed_to(type(workload), workload.values())
            workload.checked(data)
            if build:
                point.case(resolved, data)
    except ArgError as error:
        return str(error)
    except StepSimError as error:
        if not build:
            raise
        return str(error)
    return ""
