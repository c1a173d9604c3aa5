"""The commands by name. The module of a command is imported when it is run or listed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final, get_args

import typer
from typer.core import TyperGroup

from stepsim.cli.moved import check_moved_command, moved_option
from stepsim.errors import ArgError

_COMMANDS: Final = {
    "Programs": {
        "run": "runs.run:app",
        "why": "runs.why:app",
        "size": "runs.size:app",
        "inspect": "runs.inspect:app",
        "compile": "runs.compile:compile_model",
    },
    "Results": {
        "sweep": "sweeps.group:app",
        "compare": "compare:compare",
        "report": "report:report",
        "reproduce": "reproduce:reproduce",
    },
    "Inputs": {
        "machines": "machines:machines",
        "trace": "traces.trace:app",
        "data": "data:app",
    },
    "Installation": {
        "demo": "demo:demo",
        "env": "system:env",
        "warmup": "system:warmup",
    },
}
"""Module and attribute of every command, by the panel of the help that lists it."""

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")


class CommandGroup(TyperGroup):
    """A group of commands that are imported when they are run or listed."""

    places: ClassVar[Mapping[str, Mapping[str, str]]] = _COMMANDS

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": _Commands(self.places)})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _take_plain_values(self.get_params(ctx))
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
    def __init__(self, places: Mapping[str, Mapping[str, str]]) -> None:
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


def _load(name: str, place: str, panel: str) -> Any:
    module, _, attribute = place.partition(":")
    found = getattr(import_module(f"stepsim.cli.{module}"), attribute)
    around = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    # Without a callback typer would take a group for a single command.
    around.callback()(lambda: None)
    if isinstance(found, typer.Typer):
        around.add_typer(found, name=name, rich_help_panel=panel)
    else:
        around.command(name=name, rich_help_panel=panel)(found)
    group: Any = typer.main.get_command(around)
    return ready(group.commands[name])


def ready(command: Any) -> Any:
    """The command, with those inside it, whose plain values need no validation library.

    typer converts every value with pydantic, which takes longer to import than a small run takes,
    even values with a ``parser``. It documents no other way, so its version is bounded.
    """
    parse = command.parse_args

    def parse_args(ctx: Any, args: list[str]) -> Any:
        # Only here, since typer makes the option --help together with the context.
        _take_plain_values(command.get_params(ctx))
        return parse(ctx, args)

    command.parse_args = parse_args
    if not isinstance(command, CommandGroup):
        for inner in getattr(command, "commands", {}).values():
            ready(inner)
    return command


def _take_plain_values(parameters: Iterable[Any]) -> None:
    for parameter in parameters:
        # Releases of typer without descriptors use no validation library.
        if hasattr(parameter, "type_descriptor"):
            parameter.get_runtime_param = _Values(parameter)


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
