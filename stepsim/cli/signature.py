"""Commands whose options are the fields of dataclasses.

typer reads the options of a command from its signature. Commands share many of them, and hand them
on together: a dataclass declares such options once, and a command lists the dataclasses it takes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import MISSING, fields
from inspect import Parameter
from typing import Any, get_type_hints

Command = Callable[..., None]


def takes(*groups: type, required: Collection[str] = ()) -> Callable[[Command], Command]:
    """Give a command the fields of ``groups`` as options, and call it with their instances.

    The first parameters of the command are the groups, in this order; those that follow are
    its own options. A field that several groups have is one option, and each gets its value.
    The fields ``required`` must be given even though they have a default.

    Raises
    ------
    TypeError : two options have one name and differ, a field makes a new default for every
        instance, or there is no field to be required.
    """

    def decorate(command: Command) -> Command:
        parameters = list(inspect.signature(command, eval_str=True).parameters.values())
        own = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in parameters[len(groups) :]]
        options: dict[str, Parameter] = {}
        for option in [*(o for group in groups for o in _options(group, required)), *own]:
            if options.setdefault(option.name, option) != option:
                raise TypeError(f"{command.__name__}: two different options {option.name}")
        if unknown := set(required) - set(options):
            raise TypeError(f"{command.__name__}: no options {sorted(unknown)} to require")

        def call(**values: Any) -> None:
            taken = [group(**{f.name: values[f.name] for f in fields(group)}) for group in groups]
            command(*taken, **{option.name: values[option.name] for option in own})

        call.__name__, call.__doc__ = command.__name__, command.__doc__
        call.__annotations__ = {name: option.annotation for name, option in options.items()}
        # Help lists options in this order; required ones come first.
        ordered = sorted(options.values(), key=lambda o: o.default is not Parameter.empty)
        vars(call)["__signature__"] = inspect.Signature(ordered)
        return call

    return decorate


def _options(group: type, required: Collection[str]) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    if made := [field.name for field in fields(group) if field.default_factory is not MISSING]:
        raise TypeError(
            f"{group.__name__}: options with a default that is made for every instance: {made}"
        )
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty
            if field.default is MISSING or field.name in required
            else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
