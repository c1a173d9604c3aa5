"""Checks of the declaration of a parameter: its default, and the names it refers to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field as DataclassField
from typing import TYPE_CHECKING, Any

import stepsim.machine
from stepsim.errors import ArgError, did_you_mean
from stepsim.workloads.values import Kind

if TYPE_CHECKING:
    from stepsim.workloads.parameters import Field


def default_of(field: DataclassField[Any], kind: Kind, where: str) -> Any:
    """The default of a field as a value of the parameter.

    Raises
    ------
    ArgError : it is not a value of the parameter that ``where`` names.
    """
    default = field.default
    if field.default_factory is not MISSING:
        try:
            default = field.default_factory()
        except Exception as error:
            text = f"{where}: default_factory raised {type(error).__name__}: {error}"
            raise ArgError(f"{text}; write the default out") from error
    if isinstance(default, list):
        raise ArgError(f"{where}: expected a tuple as default, found the list {default}")
    if default is None and not kind.optional:
        raise ArgError(
            f"{where}: expected a default that is {kind.described()}, found None; add '| None' to "
            "its type, or leave the default out"
        )
    try:
        return kind.of_value(default)
    except ValueError as error:
        raise ArgError(f"{where}: wrong default: {error}") from None


def check_names(field: Field, known: Mapping[str, Field], where: str) -> None:
    """Refuse a `Param` with an unknown key of machines, an unsuitable parameter or default.

    Raises
    ------
    ArgError : a name or the default is wrong; ``where`` names the parameter.
    """
    param = field.param
    if param.machine is not None:
        keys = list(stepsim.machine.known_keys())
        if param.machine not in keys:
            near = did_you_mean(param.machine, keys)
            raise ArgError(
                f"{where}: expected a key of machines in Param(machine=...), found "
                f"{param.machine!r}{near} Known: {', '.join(keys)}"
            )
    if param.needed and (field.required or field.default is not None):
        raise ArgError(
            f"{where}: expected the default None with Param(needed=True), found "
            f"{'no default' if field.required else repr(field.default)}"
        )
    if param.like is None:
        return
    others = [name for name in known if name != field.name]
    if param.like not in others:
        raise ArgError(
            f"{where}: expected another parameter in Param(like=...), found {param.like!r}"
            f"{did_you_mean(param.like, others)} Known: {', '.join(others) or 'none'}"
        )
    if field.required or field.default is not None:
        raise ArgError(
            f"{where}: expected the default None, in whose place Param(like=...) puts the value of "
            f"{param.like}, found {'no default' if field.required else repr(field.default)}"
        )
