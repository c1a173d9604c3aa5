"""Groups of commands, one for every workload; workloads are imported when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

import stepsim.serving
import stepsim.workloads
from stepsim.deferred import deferred

if TYPE_CHECKING:
    from stepsim.cli.runs import workload
    from stepsim.cli.runs.workload import Choice
else:
    workload = deferred("stepsim.cli.runs.workload")


class WorkloadGroup(TyperGroup):
    """A group with a command for every workload: built-in, from a plugin, or from a user's file.

    Subclasses define what a command does with the choice, and its other options.
    """

    options: type
    perform: Callable[[Choice, Any], None]
    folders: Callable[[Path], Any] | None = None

    def list_commands(self, ctx: Any) -> list[str]:
        return stepsim.workloads.workload_names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        make = type(self).folders
        if make is not None and stepsim.serving.is_service(Path(cmd_name)):
            return make(Path(cmd_name))
        return workload.command_of(cmd_name, type(self).options, type(self).perform)


def workload_app(
    text: str,
    options: type,
    perform: Callable[[Choice, Any], None],
    folders: Callable[[Path], Any] | None = None,
) -> typer.Typer:
    """The command that takes a workload and its parameters; ``text`` is its help.

    ``folders`` makes the command for the folder of a service.
    """
    own = {"options": options, "perform": staticmethod(perform)}
    if folders is not None:
        own["folders"] = staticmethod(folders)
    group = type("Group", (WorkloadGroup,), own)
    app = typer.Typer(
        cls=group,
        help=text,
        no_args_is_help=True,
        subcommand_metavar="WORKLOAD|FILE.py[:NAME]|FILE.pb|DIR [ARGS]...",
    )
    # Without a callback typer would take a group for a single command.
    app.callback()(lambda: None)
    return app
