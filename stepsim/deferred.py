"""Modules that are imported when something of them is first used, not when they are named."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["deferred", "names_of"]


class _Deferred(ModuleType):
    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)  # so that it is looked up here next time
        return value


def deferred(name: str) -> Any:
    """A stand-in for a module that takes long to import and that few runs need.

    Where types are checked, the module itself is imported under ``TYPE_CHECKING``.
    """
    return _Deferred(name)


def names_of(package: str, rooms: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that imports its modules when their names are first used.

    Parameters
    ----------
    rooms : what the package offers, by the module of it; no name may be that of a module, since
        importing that would set it.
    """
    homes = {name: room for room, names in rooms.items() for name in names}

    def lookup(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return lookup
