"""Modules that are imported when one of their attributes is first used."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["deferred", "door"]


class _Deferred(ModuleType):
    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)  # so that it is looked up here next time
        return value


def deferred(name: str) -> Any:
    """A placeholder for a module that is slow to import and that few runs need.

    For type checking, the module itself is imported under ``TYPE_CHECKING``.
    """
    return _Deferred(name)


def door(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package that exports the names listed in
    its stub.

    ``__init__.pyi`` next to the file of the package is a list of ``from module import name as
    name`` and nothing else; both type checkers and this function read it. A name imports its module
    when first used. Importing a module of the package sets its name, so no name in the list may
    equal that of a module. Names below the line ``# for other rooms`` can be imported like the
    others, but users do not see them: ``dir()`` and ``__all__`` leave them out.
    """
    stub = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    public, _, internal = stub.partition("# isort: split\n# for other rooms\n")
    homes = _listed(public)
    offers = sorted(homes)
    homes |= _listed(internal)

    def lookup(name: str) -> Any:
        if name not in homes:
            nearest = import_module("stepsim.errors").did_you_mean(name, offers)
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}{nearest.removesuffix('.')}"
            )
        module, inner = homes[name]
        if module == package:
            value: Any = import_module(f"{package}.{inner}")
        else:
            value = getattr(import_module(module), inner)
        setattr(sys.modules[package], name, value)
        return value

    return lookup, lambda: list(offers), offers


def _listed(stub: str) -> dict[str, tuple[str, str]]:
    """The offered names of ``from module import name as offered``, with module and name."""
    homes = {}
    for statement in ("\n" + stub).split("\nfrom ")[1:]:
        module, _, names = statement.partition(" import ")
        for pair in names.strip("() \n").split(","):
            name, _, offered = pair.partition(" as ")
            if offered:
                homes[offered.strip()] = module, name.strip()
    return homes
