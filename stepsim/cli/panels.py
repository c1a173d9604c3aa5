"""Commands whose help shows options in panels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any, ClassVar, TypeVar

from typer.core import TyperArgument, TyperCommand

_Command = TypeVar("_Command", bound=Callable[..., None])


class PanelCommand(TyperCommand):
    """A command whose options are in panels.

    Attributes
    ----------
    panels : names of options by panel, in the order of the help.
    """

    panels: ClassVar[Mapping[str, Sequence[str]]] = {}

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)
        arguments = [one for one in found if isinstance(one, TyperArgument)]
        options = [one for one in found if not isinstance(one, TyperArgument)]
        places = {option.name: self.place(option.name) for option in options}
        titles = list(self.panels)
        options.sort(key=lambda one: (titles.index(places[one.name][0]), places[one.name][1]))
        for option in options:
            option.rich_help_panel = places[option.name][0]
        return arguments + options

    def format_help(self, ctx: Any, formatter: Any) -> None:
        columns = get_terminal_size().columns
        shown = copy(self)
        shown.params = [_that_fits(one, (columns - 28) // 2) for one in self.params]
        super(PanelCommand, shown).format_help(ctx, formatter)

    def place(self, name: str) -> tuple[str, int]:
        """The panel of an option and its place there; options without one are last of all."""
        for title, names in self.panels.items():
            if name in names:
                return title, names.index(name) + 1
        title, names = list(self.panels.items())[-1]
        return title, len(names) + 1


def _that_fits(option: Any, letters: int) -> Any:
    """An option whose name is shown whole: in several lines where it is longer.

    Both forms of a long flag are one name, ``--[no-]enable-prefix-caching``.
    """
    if isinstance(option, TyperArgument):
        return option
    fitting = copy(option)
    first, *others = option.opts
    name = first.removeprefix("--")
    if option.secondary_opts == [f"--no-{name}"] and 2 * len(name) > letters:
        first, fitting.secondary_opts = f"--[no-]{name}", []
    fitting.opts = ["\n  ".join(wrap(first, letters, break_long_words=False)), *others]
    return fitting


def in_panels(panels: Mapping[str, Sequence[str]]) -> Callable[[_Command], _Command]:
    """Show the options of a command in panels: their names by title, in the order of the help."""

    def decorate(command: _Command) -> _Command:
        kind = type("Command", (PanelCommand,), {"panels": panels})
        vars(command)["command_class"] = kind
        return command

    return decorate
