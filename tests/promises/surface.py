"""All that is promised, as it is now."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from enum import Enum
from functools import cache
from typing import Any, Final

import click
import typer

import stepsim as st
from stepsim.cli.exit_codes import MEANINGS
from stepsim.cli.main import app
from stepsim.design.choices import Choices
from stepsim.machine.dram_presets import DRAM_PRESETS
from stepsim.machine.loading import known_keys
from stepsim.plugins import GROUPS
from stepsim.results import COLUMNS
from stepsim.results.columns import declaration_of
from stepsim.serving import serve_fields
from stepsim.sweep import SweepSpec, TuneSpec
from stepsim.workloads import fields_of, find_workload
from tests.pages import module_of_docs
from tests.promises.files import VERSIONS

Surface = dict[str, dict[str, Any]]
"""Promises by kind and name; what a value means depends on the kind."""

_reference = module_of_docs("reference")

_WORKLOADS: Final = ("moe", "attention", "swiglu", "decoder", "step", "compiled")


def surface() -> Surface:
    """All promises."""
    return {
        "names": dict(sorted(_names())),
        "attributes": dict(sorted(_attributes())),
        "columns": {name: " ".join(declaration_of(name)[:2]).strip() for name in sorted(COLUMNS)},
        "parameters of workloads": {
            name: _listed(fields_of(find_workload(name).load())) for name in _WORKLOADS
        },
        "keys of files": {
            "machine": _listed(key for key in known_keys() if not key.startswith("noc.")),
            "machine of the hardware level": _listed(_keys(st.hardware.load_machine().to_dict())),
            "network": _listed(known_keys(st.machine.Network)),
            "service": _listed(serve_fields()),
            "sweep": _listed(SweepSpec.model_fields),
            "search": _listed(TuneSpec.model_fields),
            "choices of a design": _listed(one.name for one in fields(Choices)),
        },
        "presets": {
            "machines": _listed(st.machine.list_machines()),
            "machines of the hardware level": _listed(st.hardware.list_machines()),
            "networks": _listed(st.machine.list_networks()),
            "drams": _listed(DRAM_PRESETS),
        },
        "groups of plugins": {"groups": _listed(GROUPS)},
        "options": dict(sorted(_options())),
        "exit codes": {str(code): text.partition(" (")[0] for code, text in MEANINGS.items()},
        "versions of files": dict(VERSIONS),
    }


def _listed(names: Iterable[str]) -> str:
    return " ".join(sorted(names))


def _keys(values: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _keys(value, f"{path}{key}.")
        else:
            yield path + key


@cache
def _subjects() -> tuple[dict[str, Any], dict[str, str]]:
    """What is below ``st`` by name, and other names of the same things."""
    found = {one.path: one for one in _reference.subjects()}
    known = {id(one.thing): path for path, one in found.items()}
    others = {}
    for space in _reference.namespaces():
        for name, thing, _ in space.things():
            path = f"{space.name}.{name}"
            first = known.setdefault(id(thing), path)
            if path == first and path not in found:
                found[path] = _reference.Subject(path, thing, space.room)
            elif path != first:
                others[path] = first
    return found, others


def _classes() -> Iterator[tuple[str, Any]]:
    for path, one in _subjects()[0].items():
        if one.is_class and not issubclass(one.thing, Exception):
            yield path, one


def _names() -> Iterator[tuple[str, str]]:
    """Names below ``st`` and methods, with their parameters, or what they are."""
    found, others = _subjects()
    yield from ((f"st.{path}", f"as st.{first}") for path, first in others.items())
    yield from ((f"st.{path}", _form(one.thing)) for path, one in found.items())
    for path, one in _classes():
        for name, member in one.members():
            if not isinstance(member, property):
                yield f"st.{path}.{name}", _form(member, method=True)


def _attributes() -> Iterator[tuple[str, str]]:
    """Properties and fields by class."""
    for path, one in _classes():
        declared = getattr(one.thing, "__dataclass_fields__", None)
        names = set(declared or getattr(one.thing, "_fields", ()))
        names |= {name for name, member in one.members() if isinstance(member, property)}
        public = [name for name in names if not name.startswith("_")]
        if public:
            yield f"st.{path}", _listed(public)


def _form(thing: Any, *, method: bool = False) -> str:
    if isinstance(thing, classmethod):
        return f"class method {_parameters(thing.__func__, skip=1)}"
    if isinstance(thing, staticmethod):
        return f"function {_parameters(thing.__func__)}"
    if isinstance(thing, type):
        if issubclass(thing, Exception):
            return "error"
        made = issubclass(thing, Enum) or "Made by" in _reference.documentation(thing)
        return "class" if made else f"class {_parameters(thing)}"
    if inspect.isroutine(thing):
        return f"{'method' if method else 'function'} {_parameters(thing, skip=int(method))}"
    return "value"


_AT = re.compile(r" at 0x[0-9a-f]+")


def _parameters(thing: Any, skip: int = 0) -> str:
    """Parameters with their defaults and without types; what is no short literal is ``...``."""
    try:
        known = inspect.signature(thing)
    except ValueError:
        return "(...)"
    kept = [
        one.replace(annotation=inspect.Parameter.empty, default=_literal(one.default))
        for one in list(known.parameters.values())[skip:]
    ]
    plain = known.replace(parameters=kept, return_annotation=inspect.Signature.empty)
    return _AT.sub("", str(plain))


def _literal(default: object) -> object:
    plain = default is inspect.Parameter.empty or isinstance(
        default, bool | int | float | str | tuple | None
    )
    # A long tuple is a list of columns, to which more are added; they are promised by themselves.
    long = isinstance(default, tuple) and len(default) > 32
    return default if plain and not long else ...


def _options() -> Iterator[tuple[str, str]]:
    """Options and arguments by command; parameters of workloads are listed with these."""
    listed: dict[str, set[str]] = {}
    own = {
        f"--{part.replace('_', '-')}" for name in _WORKLOADS
        for part in fields_of(find_workload(name).load())
    }  # fmt: skip
    for path, command in _commands(typer.main.get_command(app), ()):
        words = {
            word
            for one in command.params
            for word in ([*one.opts, *one.secondary_opts] if _is_option(one) else [_metavar(one)])
        }
        several = path[-1:] and path[-1] in _WORKLOADS
        name = " ".join([*path[:-1], "WORKLOAD"] if several else path)
        kept = words - own if several else words
        listed[name] = listed[name] & kept if several and name in listed else kept
    for name, words in listed.items():
        if words:
            yield f"stepsim {name}".strip(), _listed(words)


def _is_option(one: Any) -> bool:
    return one.param_type_name == "option"


def _metavar(one: Any) -> str:
    return str(one.name).upper()


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    context = click.Context(command)
    for name in getattr(command, "list_commands", lambda _: [])(context):
        inner = command.get_command(context, name)
        if inner is not None:
            yield from _commands(inner, (*path, name))
