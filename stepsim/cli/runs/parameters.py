"""Command-line options made from declared parameters, and the values of the given ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import make_dataclass
from typing import Annotated, Any

import typer

from stepsim.errors import ArgError
from stepsim.workloads import Field, ParameterError, depth_advice

_WIDEST = 18
"""Longest list of choices that the help shows next to the option, in characters."""


def option_name(parameter: str) -> str:
    """The name of a parameter on the command line."""
    return "--" + parameter.replace("_", "-")


def options_of(known: Mapping[str, Field], also: Mapping[str, Any] | None = None) -> type:
    """A dataclass with an option for every parameter: its text, or None where it is not given.

    ``also`` has more fields by name, which replace those of parameters of that name. A name that a
    parameter had before is a hidden option, so that `given_of` can suggest the new one.
    """
    declared = sorted(known.values(), key=lambda field: not field.required)
    options: dict[str, Any] = {
        field.name: (field.name, Annotated[_kind(field), _option(field)], None)
        for field in declared
    }
    for field in declared:
        old = field.param.formerly
        if old:
            hidden = typer.Option(option_name(old), hidden=True)
            options.setdefault(old, (old, Annotated[_kind(field), hidden], None))
    return make_dataclass("Parameters", (options | dict(also or {})).values(), frozen=True)


def given_of(known: Mapping[str, Field], parameters: Any) -> dict[str, Any]:
    """The parameters that were given, as values.

    Raises
    ------
    ArgError : some cannot be read; all of them are listed.
    """
    found: dict[str, Any] = {}
    problems: list[tuple[str, str]] = []
    for name, field in known.items():
        old = field.param.formerly
        if old and old not in known and getattr(parameters, old) is not None:
            problems.append((old, f"the option was renamed; it is now called {field.option}"))
        text = getattr(parameters, name)
        if text is None:
            continue
        if isinstance(text, str) and _is_broken(text):
            problems.append((name, f"expected text in UTF-8, found {text!r}"))
            continue
        try:
            found[name] = text if field.kind.is_flag else field.parsed(text)
        except ParameterError as error:
            advice = depth_advice(known, name, text)
            problems += [(key, problem + advice) for key, problem in error.problems]
    if problems:
        raise ArgError(ParameterError(problems).text(option_name))
    return found


def clash_of(own: Mapping[str, Field], command: Any, whose: str) -> tuple[str, str] | None:
    """A parameter whose option exists already, and what has it: an option or argument of
    ``command``, which is without them and called ``whose``, or another parameter.
    """
    options = {"--help": f"option --help of {whose}"}
    names = {"help": options["--help"]}
    for one in command.params:
        is_argument = one.param_type_name == "argument"
        kind = f"argument {one.name.upper()}" if is_argument else f"option {one.opts[0]}"
        names[one.name] = f"{kind} of {whose}"
        if not is_argument:
            texts = (*one.opts, *one.secondary_opts)
            options |= {text: f"option {text} of {whose}" for text in texts}
    for name, field in own.items():
        inverse = [f"--no-{field.option[2:]}"] if field.kind.is_flag else []
        for text in (field.option, *inverse):
            if text in options:
                return name, options[text]
            options[text] = f"option {text} of parameter {name}"
        if name in names:
            return name, names[name]
    return None


def _kind(field: Field) -> Any:
    return bool | None if field.kind.is_flag else str | None


def _option(field: Field) -> Any:
    param = field.param
    first = param.help.partition(" ")[0]
    # Names and values, as gpt2-medium, are written as they are typed.
    is_word = first.replace("-", "").isalpha() and first not in field.kind.metavar.split("|")
    text = param.help[:1].upper() + param.help[1:] if is_word else param.help
    unit = f", in {param.unit}" if "/" in param.unit else ""
    default = field.default_text(option_name)
    if field.kind.is_flag:
        default = {"True": "on", "False": "off"}.get(default, default)
    if default and not field.required:
        default = f"default: {default}"
    metavar, names = field.kind.metavar, ""
    if param.unit == "bytes" and metavar == "N":
        metavar = "BYTES"
    if len(metavar) > _WIDEST:
        # The column of metavars leaves the others no room.
        metavar, names = "NAME", f"One of {metavar.replace('|', ', ')}"
    parts = (f"{text}{unit}" if text else "", names, f"({default})" if default else "")
    shown = ". ".join(filter(None, parts))
    if field.kind.is_flag:
        return typer.Option(f"{field.option}/--no-{field.option[2:]}", help=shown)
    return typer.Option(field.option, metavar=metavar, help=shown)


def _is_broken(text: str) -> bool:
    """Whether it has bytes that are not valid UTF-8, with which results cannot be written."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
