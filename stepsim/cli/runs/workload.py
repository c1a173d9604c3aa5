"""Commands of workloads: one factory makes ``run W`` and ``inspect W`` of a declaration."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, make_dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

import stepsim.simulation
import stepsim.workloads
from stepsim.cli.commands import ready
from stepsim.cli.runs.fifo_depths import depth_field, depth_parameter, taken_depths
from stepsim.cli.runs.inputs import RequestSource, TokenSource, Traces, read_traces
from stepsim.cli.runs.machine_choice import DEFAULT_MACHINE, MachineChoice
from stepsim.cli.signature import takes
from stepsim.errors import ArgError, WorkloadError
from stepsim.workloads import (
    KV_LENGTHS,
    ROUTING,
    Field,
    ParameterError,
    Source,
    Workload,
    fields_of,
    find_workload,
)

if TYPE_CHECKING:
    from stepsim.machine import Machine

__all__ = ["Choice", "command_of", "option_name"]

_SOURCES: Mapping[str, type] = {ROUTING.name: TokenSource, KV_LENGTHS.name: RequestSource}


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user chose: a workload, its parameters, its traces and the machine, as given."""

    source: Source
    workload: type[Workload]
    given: Mapping[str, Any]
    tokens: TokenSource | None
    requests: RequestSource | None
    machine: MachineChoice
    fifo_depths: str | None = None
    """``auto``, or a file with depths of single FIFOs, given in place of one depth for all."""

    def load_machine(self, config: str | None) -> Machine:
        """The machine given, else that of the published experiment, else the usual one."""
        own = self.workload.published_machine if config == "published" else None
        return self.machine.load(own or self.workload.own_machine or DEFAULT_MACHINE)

    def read(self, *, required: bool) -> Traces:
        """The traces that the workload is fed with.

        Raises
        ------
        ArgError : one that is ``required`` is not given.
        TraceError : a trace cannot be read.
        """
        with self.source.user_code():
            shape = self.workload.routing_shape(self.given)
        model = str(self.given["model"]) if "model" in self.given else None
        read = read_traces(shape, model, self.tokens, self.requests)
        with self.source.user_code():
            traces = replace(read, data=self.workload.implied(self.given, read.data))
        missing = traces.data.missing(self.workload.inputs)
        if required and missing:
            names = " and ".join(f"--{one.name.replace('_', '-')}" for one in missing)
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
        ArgError : parameters are wrong or do not fit the traces; all problems are told.
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
            raise ArgError(error.told(option_name)) from None
        made.require_one_program("this command")
        return made


def option_name(parameter: str) -> str:
    """What a parameter is called on the command line."""
    return "--" + parameter.replace("_", "-")


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
    groups = [_options_of(known, named), *sources, MachineChoice, options]
    if source.is_foreign:
        _refuse_taken(source, workload, groups[1:])

    def run(parameters: Any, *rest: Any) -> None:
        *read, machine, own = rest
        by_kind = {type(one): one for one in read}
        depths, parameters = taken_depths(named, known, parameters)
        given = _given(known, parameters)
        perform(
            Choice(
                source, workload, given, by_kind.get(TokenSource), by_kind.get(RequestSource),
                machine, depths,
            ),
            own,
        )  # fmt: skip

    run.__doc__ = _help(workload)
    app = typer.Typer(add_completion=False)
    app.command(name=source.text)(takes(*groups)(run))
    return ready(typer.main.get_command(app))


def _help(workload: type[Workload]) -> str:
    """The docstring without marks of code, each paragraph on a line of its own."""
    paragraphs = inspect.cleandoc(workload.__doc__ or "").replace("``", "").split("\n\n")
    return "\n\n".join(" ".join(one.split()) for one in paragraphs)


def _options_of(known: Mapping[str, Field], depths: str) -> type:
    """A dataclass with an option for every parameter: its text, or None where it is not given.

    ``depths`` is the one that also takes depths of single FIFOs, if any.
    """
    declared = sorted(known.values(), key=lambda field: not field.required)
    options: dict[str, Any] = {
        field.name: (field.name, Annotated[_kind(field), _option(field)], None)
        for field in declared
    }
    if depths:
        options[depths] = depth_field(known, depths)
    return make_dataclass("Parameters", options.values(), frozen=True)


def _kind(field: Field) -> Any:
    return bool | None if field.kind.is_flag else str | None


def _option(field: Field) -> Any:
    param = field.param
    text = param.help[:1].upper() + param.help[1:]
    unit = f", in {param.unit}" if "/" in param.unit else ""
    told = field.default_text(option_name)
    default = told if not told or field.required else f"default: {told}"
    shown = ". ".join(
        filter(None, (f"{text}{unit}" if text else "", f"({default})" if default else ""))
    )
    if field.kind.is_flag:
        return typer.Option(f"{field.option}/--no-{field.option[2:]}", help=shown)
    return typer.Option(field.option, metavar=field.kind.metavar, help=shown)


def _given(known: Mapping[str, Field], parameters: Any) -> dict[str, Any]:
    """The parameters that were given, as values; all that cannot be read are listed."""
    found: dict[str, Any] = {}
    problems: list[tuple[str, str]] = []
    for name, field in known.items():
        text = getattr(parameters, name)
        if text is None:
            continue
        if isinstance(text, str) and _is_broken(text):
            problems.append((name, f"expected text in UTF-8, found {text!r}"))
            continue
        try:
            found[name] = text if field.kind.is_flag else field.parsed(text)
        except ParameterError as error:
            problems += error.problems
    if problems:
        raise ArgError(ParameterError(problems).told(option_name))
    return found


def _is_broken(text: str) -> bool:
    """Whether it has bytes that were no text; results could not be written with it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _refuse_taken(source: Source, workload: type[Workload], groups: list[type]) -> None:
    """Refuse parameters with the name of another option or of a column of results."""
    taken = {field.name for group in groups for field in fields(group)}
    for name in fields_of(workload):
        if name in taken:
            raise WorkloadError(
                f"{source.text}: parameter {name} has the name of the option {option_name(name)} "
                "of the command line; choose another name"
            )
    stepsim.simulation.parameter_columns(workload)
