"""Commands of workloads: one factory makes ``run W`` and ``inspect W`` from a declaration."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

import stepsim.simulation
import stepsim.workloads
from stepsim.cli.commands import ready
from stepsim.cli.runs.fifo_depths import depth_field, taken_depths
from stepsim.cli.runs.inputs import (
    NewTokenSource,
    RequestSource,
    TokenSource,
    Traces,
    read_traces,
)
from stepsim.cli.runs.machine_choice import DEFAULT_MACHINE, MachineChoice
from stepsim.cli.runs.panels import WorkloadCommand
from stepsim.cli.runs.parameters import clash_of, given_of, option_name, options_of
from stepsim.cli.signature import takes
from stepsim.errors import ArgError, WorkloadError
from stepsim.frozen import frozen
from stepsim.workloads import (
    KV_LENGTHS,
    NEW_TOKENS,
    ROUTING,
    Field,
    ParameterError,
    Source,
    Workload,
    depth_parameter,
    fields_of,
    find_workload,
)

if TYPE_CHECKING:
    from stepsim.machine import Machine

_SOURCES: Mapping[str, type] = {
    ROUTING.name: TokenSource,
    KV_LENGTHS.name: RequestSource,
    NEW_TOKENS.name: NewTokenSource,
}


@frozen
class Choice:
    """The user's choice: a workload, its parameters, its traces and the machine, as given."""

    source: Source
    workload: type[Workload]
    given: Mapping[str, Any]
    tokens: TokenSource | None
    requests: RequestSource | None
    several: NewTokenSource | None
    machine: MachineChoice
    fifo_depths: str | None = None
    """``auto``, or a file with the depths of FIFOs by name, in place of one depth for all."""

    def load_machine(self, config: str | None) -> Machine:
        """The given machine, else that of the published experiment, else the default one."""
        return self.machine.load(self._usual_machine(config))

    def default_machine(self, config: str | None) -> Machine:
        """The machine of `load_machine` where none is given, unchanged."""
        return MachineChoice().load(self._usual_machine(config))

    def _usual_machine(self, config: str | None) -> str | Machine:
        own = self.workload.published_machine if config == "published" else None
        return own or self.workload.own_machine or DEFAULT_MACHINE

    def read(self, *, required: bool) -> Traces:
        """The traces that the workload reads.

        Raises
        ------
        ArgError : a ``required`` trace is not given, or one is given that has no effect.
        TraceError : a trace cannot be read.
        """
        with self.source.user_code():
            shape = self.workload.routing_shape(self.given)
            needed = self.workload.needed(self.given)
            unneeded = self.workload.unneeded(self.given)
        model = str(self.given["model"]) if "model" in self.given else None
        read = read_traces(shape, model, self.tokens, self.requests, self.several)
        with self.source.user_code():
            traces = replace(read, data=self.workload.implied(self.given, read.data))
        for one, why in unneeded.items():
            if getattr(read.data, one.name) is not None:
                raise ArgError(f"{option_name(one.name)}: {why}")
        missing = traces.data.missing(needed)
        if required and missing:
            names = " and ".join(option_name(one.name) for one in missing)
            how = "; `stepsim trace synth` makes a routing trace" if ROUTING in missing else ""
            raise ArgError(
                f"{names}: missing; workload {self.source.text} needs a trace in a file{how}"
            )
        return traces

    def case(
        self, traces: Traces, machine: Machine, config: str | None, counting: str | None
    ) -> stepsim.simulation.Case:
        """The workload, built.

        Raises
        ------
        ArgError : parameters are wrong or do not fit the traces; all problems are reported.
        """
        try:
            with self.source.user_code():
                resolved = stepsim.workloads.resolve(
                    self.workload, self.given, machine=machine, config=config, data=[traces.data]
                )
            made = stepsim.simulation.Case(
                self.source,
                resolved,
                traces.data,
                machine,
                stepsim.simulation.counting_of(counting, config),
            )
        except ParameterError as error:
            raise ArgError(error.text(option_name)) from None
        made.require_one_program("this command")
        return made


def command_of(name: str, options: type, perform: Callable[[Choice, Any], None]) -> Any:
    """The command of a workload; for the other parameters see `workload_app`.

    Raises
    ------
    WorkloadError : there is no such workload, or the command line cannot offer it.
    """
    source = find_workload(name)
    workload = source.load()
    known = fields_of(workload)
    sources = [_SOURCES[one.name] for one in workload.inputs]
    named = "" if not getattr(options, "takes_fifo_depths", False) else depth_parameter(known)
    finds = getattr(options, "finds_fifo_depths", False)
    offered = {
        name: field for name, field in known.items() if not (finds and field.param.of_depths)
    }
    depths = {named: depth_field(known, named)} if named else {}
    groups = [options_of(offered, depths), *sources, MachineChoice, options]
    if source.is_foreign:
        _refuse_taken(source, workload, offered, groups[1:])

    def run(parameters: Any, *rest: Any) -> None:
        *read, machine, own = rest
        by_kind = {type(one): one for one in read}
        depths, parameters = taken_depths(named, known, parameters)
        given = given_of(offered, parameters)
        perform(
            Choice(
                source, workload, given, by_kind.get(TokenSource), by_kind.get(RequestSource),
                by_kind.get(NewTokenSource), machine, depths,
            ),
            own,
        )  # fmt: skip

    run.__doc__ = _help(workload)
    app = typer.Typer(add_completion=False)
    app.command(name=source.text, cls=WorkloadCommand)(takes(*groups)(run))
    command: Any = typer.main.get_command(app)
    command.own = frozenset(known) | {named}
    return ready(command)


def _help(workload: type[Workload]) -> str:
    """The docstring without code marks, with each paragraph on one line."""
    paragraphs = inspect.cleandoc(workload.__doc__ or "").replace("``", "").split("\n\n")
    return "\n\n".join(" ".join(one.split()) for one in paragraphs)


def _refuse_taken(
    source: Source, workload: type[Workload], offered: Mapping[str, Field], groups: list[type]
) -> None:
    """Refuse parameters with the name of another option or of a column of results."""
    app = typer.Typer(add_completion=False)
    app.command()(takes(*groups)(lambda *_: None))
    clash = clash_of(offered, typer.main.get_command(app), "the command line")
    if clash is not None:
        name, other = clash
        raise WorkloadError(
            f"{source.text}: parameter {name} clashes with the {other}; choose another name, "
            f"such as {workload.name.rpartition(':')[2]}_{name}"
        )
    stepsim.simulation.check_columns(workload)
