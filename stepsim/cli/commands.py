"""The commands by name. The module of a command is imported when it is run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from stepsim.cli.moved import check_moved_command, moved_option
from stepsim.errors import ArgError
from stepsim.frozen import NamedTuple


class Place(NamedTuple):
    """Where a command is, as ``module:attribute``, and its line in the list of commands."""

    module: str
    summary: str


_COMMANDS: Final = {
    "Simulate": {
        "demo": Place(
            "demo:demo",
            "A first example: compare static tiles of 8 to 64 rows with dynamic tiling on a "
            "Qwen3-30B-A3B layer.",
        ),
        "run": Place("runs.run:app", "Simulate a workload."),
        "serve": Place(
            "serving.serve:serve",
            "Serve requests with a model on a machine, and measure latencies and throughput.",
        ),
        "noc": Place(
            "machines.noc:noc",
            "Simulate transfers or an event trace on a network on chip, without a program.",
        ),
        "sweep": Place(
            "sweeps.group:app",
            "Run the design points of a specification on its traces or search among them; show, "
            "compare and query the results.",
        ),
        "compile": Place(
            "runs.compile:compile_model",
            "Compile a model to kernels, groups and sized FIFOs for a machine, and simulate it.",
        ),
        "reproduce": Place(
            "reproduce:reproduce",
            "Simulate figures of the STeP paper or your own, then compare, draw and report them.",
        ),
    },
    "Understand a program": {
        "inspect": Place(
            "runs.inspect:app",
            "Show the graph, shapes and metrics of a workload without simulating it.",
        ),
        "graph": Place(
            "runs.graph:app",
            "Draw the program of a workload, without simulating it.",
        ),
        "why": Place(
            "runs.why:app",
            "Explain what bounds a workload, where its cycles go, and what would help.",
        ),
        "size": Place(
            "runs.size:app",
            "Find the smallest FIFOs that keep a workload about as fast as unbounded ones.",
        ),
        "place": Place(
            "machines.place:app",
            "Find places for the operators of a workload on the network of a machine.",
        ),
    },
    "Show results": {
        "compare": Place(
            "compare:compare",
            "Compare two runs: their metrics, their inputs, and where their cycles went.",
        ),
        "report": Place(
            "report:report",
            "Write one self-contained HTML page that shows a run, a sweep, a plan or services.",
        ),
    },
    "Inputs": {
        "machines": Place("machines.show:machines", "List the built-in machines, or print one."),
        "trace": Place(
            "traces.trace:app",
            "Inspect, convert and generate traces of expert routing and of requests.",
        ),
        "data": Place(
            "data:app",
            "List and fetch public traces, which can then be used by name in place of trace files.",
        ),
    },
    "Installation": {
        "env": Place(
            "system:env",
            "Print versions, plugins, settings and the engine in use, for bug reports.",
        ),
        "warmup": Place(
            "system:warmup",
            "Compile the engines now, or load them, so that the next runs start immediately.",
        ),
    },
}
"""Every command by the panel of the help that lists it."""

_STATED: Final = str | int | float | Path
"""Types of defaults that the help states; those of flags are the ones that are not given."""

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")


class CommandGroup(TyperGroup):
    """A group of commands that are imported when they are run, but not to be listed."""

    places: ClassVar[Mapping[str, Mapping[str, Place]]] = _COMMANDS

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": _Commands(self.places)})

    def format_help(self, ctx: Any, formatter: Any) -> None:
        found = self.commands
        self.commands = {
            name: TyperCommand(name, help=place.summary, rich_help_panel=panel)
            for panel, places in self.places.items()
            for name, place in places.items()
        }
        try:
            super().format_help(ctx, formatter)
        finally:
            self.commands = found

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _prepare(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands:
            check_moved_command(ctx.command_path, args)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            # An unknown option, whose class is internal to typer.
            option, place = getattr(error, "option_name", None), getattr(error, "ctx", None)
            if option is None or place is None:
                raise
            new = moved_option(place.command_path, option)
            if new is None:
                raise
            raise ArgError(new) from None


class _Commands(Mapping[str, Any]):
    def __init__(self, places: Mapping[str, Mapping[str, Place]]) -> None:
        self._places = {name: place for panel in places.values() for name, place in panel.items()}
        self._panels = {name: title for title, panel in places.items() for name in panel}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _load(name, self._places[name], self._panels[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _load(name: str, place: Place, panel: str) -> Any:
    module, _, attribute = place.module.partition(":")
    found = getattr(import_module(f"stepsim.cli.{module}"), attribute)
    around = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    # Without a callback typer would take a group for a single command.
    around.callback()(lambda: None)
    if isinstance(found, typer.Typer):
        around.add_typer(found, name=name, rich_help_panel=panel)
    else:
        kind = getattr(found, "command_class", None)
        around.command(name=name, cls=kind, rich_help_panel=panel)(found)
    group: Any = typer.main.get_command(around)
    return ready(group.commands[name])


def ready(command: Any) -> Any:
    """The command, with those inside it, whose plain values need no validation library.

    typer converts every value with pydantic, which takes longer to import than a small run takes,
    even values with a ``parser``. It documents no other way, so its version is bounded.

    The help of these commands states all defaults in one way.
    """
    parse = command.parse_args

    def parse_args(ctx: Any, args: list[str]) -> Any:
        # Only here, since typer makes the option --help together with the context.
        _prepare(command.get_params(ctx))
        return parse(ctx, args)

    command.parse_args = parse_args
    if not isinstance(command, CommandGroup):
        for inner in getattr(command, "commands", {}).values():
            ready(inner)
    return command


def _prepare(parameters: Iterable[Any]) -> None:
    for parameter in parameters:
        # Releases of typer without descriptors use no validation library.
        if hasattr(parameter, "type_descriptor"):
            parameter.get_runtime_param = _Values(parameter)
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
        default = parameter.default
        if getattr(parameter, "show_default", False) and isinstance(default, _STATED):
            # As the help says where the default is not a plain value.
            parameter.show_default = False
            if not isinstance(default, bool):
                parameter.help = f"{parameter.help} (default: {default})"


class _Values:
    """Accepts values of the right type, and leaves all others, with their errors, to typer."""

    def __init__(self, parameter: Any) -> None:
        self._otherwise = parameter.get_runtime_param
        self._about = parameter.type_descriptor.parameter_info
        self._kind = parameter.type_descriptor.annotation

    def __call__(self) -> _Values:
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if isinstance(value, list | tuple):
            if self._kind == list[str] and all(isinstance(one, str) for one in value):
                return list(value)
        elif isinstance(value, str):
            if self._kind is str or value in get_args(self._kind):
                return value
            if self._kind is int and _INTEGER.fullmatch(value) and self._is_in_range(int(value)):
                return int(value)
            if self._kind is Path and self._is_plain_path(value):
                return Path(value)
        return self._otherwise().coerce(value, param=param, ctx=ctx)

    def _is_in_range(self, number: int) -> bool:
        least, most = self._about.min, self._about.max
        return (least is None or least <= number) and (most is None or number <= most)

    def _is_plain_path(self, text: str) -> bool:
        about = self._about
        special = about.exists or about.writable or about.resolve_path or about.allow_dash
        anything = about.file_okay and about.dir_okay and about.path_type is None
        if special or not anything or about.parser is not None:
            return False
        return not os.path.lexists(text) or os.access(text, os.R_OK)
