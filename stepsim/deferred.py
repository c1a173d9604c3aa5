"""Modules that are imported when one of their attributes is first used, and optional packages."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

__all__ = [
    "deferred",
    "door",
    "install_extra",
    "is_installed",
    "missing_extra",
    "missing_extras",
    "require",
]


_EXTRAS: Final = {
    "distributed": ("dask", "the backend dask needs distributed"),
    "duckdb": ("query", "a query needs duckdb"),
    "google": ("graph", "a graph file needs protobuf"),
    "matplotlib": ("plot", "drawing needs matplotlib"),
    "ml_dtypes": ("values", "values of types that numpy lacks, as bf16, need ml_dtypes"),
    "onnx": ("onnx", "an ONNX model needs onnx"),
    "optuna": ("search", "this sampler needs optuna"),
    "perfetto": ("perfetto", "a timeline needs perfetto"),
    "plotly": ("report", "a report needs plotly"),
    "ray": ("ray", "the backend ray needs ray"),
    "torch": ("torch", "a PyTorch module needs torch"),
}
"""Optional package -> the extra that installs it, and what needs it."""

_INSIDE: Final = {"google": "google.protobuf"}
"""What an extra installs of a package that others install parts of too."""


class _Deferred(ModuleType):
    def __getattr__(self, name: str) -> Any:
        module = import_module(self.__name__)
        try:
            value = getattr(module, name)
        except AttributeError:
            if name.startswith("_"):
                raise
            try:
                value = import_module(f"{self.__name__}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{self.__name__}.{name}":
                    raise
                raise AttributeError(
                    f"module {self.__name__!r} has no attribute {name!r}"
                ) from None
        setattr(self, name, value)  # so that it is looked up here next time
        return value


def deferred(name: str) -> Any:
    """A placeholder for a module that is slow to import, or that may not be installed.

    Its attributes are those of the module, and the modules inside it. For type checking, a module
    with types is itself imported under ``TYPE_CHECKING``; one without is annotated as ``Any``.
    """
    return _Deferred(name)


def require(name: str, error: type[Exception], *inside: str, advice: str = "") -> Any:
    """Import a module of an optional package; ``error`` says how to install what is missing.

    Whatever uses a deferred module of an optional package calls this first, before the work whose
    result would be lost.

    Parameters
    ----------
    name : of the module, which is returned.
    error : class of the error that is raised.
    inside : names of modules inside it that are imported too.
    advice : what else helps, added to the message.
    """
    try:
        for inner in inside:
            import_module(f"{name}.{inner}")
        return import_module(name)
    except ImportError as problem:
        raise error(
            f"{_EXTRAS[name.partition('.')[0]][1]}, {_how_to_install(name)}{advice}"
        ) from problem


def _how_to_install(name: str) -> str:
    return f"which is not installed: {install_extra(_EXTRAS[name.partition('.')[0]][0])}"


def missing_extra(error: BaseException) -> str | None:
    """What an import lacks, and how to install it, where that is an optional package of ours."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    if name not in _EXTRAS or name in _INSIDE:
        return None
    return f"it imports {name}, {_how_to_install(name)}"


def install_extra(extra: str) -> str:
    """The command that installs an extra where stepsim is installed.

    The ``pip`` of the shell is that of another environment where stepsim was started by its path.
    """
    pip, python = deferred("shutil").which("pip"), Path(sys.executable)
    if pip is None or Path(pip).absolute().parent != python.parent:
        here = Path.cwd()
        path = python.relative_to(here) if python.is_relative_to(here) else python
        return f"{path} -m pip install 'stepsim[{extra}]'"
    return f"pip install 'stepsim[{extra}]'"


def is_installed(name: str) -> bool:
    """Whether an optional package can be imported; it is not imported."""
    try:
        return find_spec(_INSIDE.get(name, name)) is not None
    except ModuleNotFoundError:  # the package around it is missing
        return False


def missing_extras() -> dict[str, str]:
    """By extra that is not installed, what it is for."""
    return {extra: need for name, (extra, need) in _EXTRAS.items() if not is_installed(name)}


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
    # The loader reads packages in zip files too, but leaves line ends as they are.
    spec: Any = sys.modules[package].__spec__
    data: bytes = spec.loader.get_data(f"{file.rpartition('.')[0]}.pyi")
    stub = data.decode().replace("\r\n", "\n")
    public, _, internal = stub.partition("# isort: split\n# for other rooms\n")
    homes = _listed(public)
    offers = sorted(homes)
    homes |= _listed(internal)

    def lookup(name: str) -> Any:
        if name not in homes:
            hint = ""
            if PathFinder.find_spec(f"{package}.{name}", spec.submodule_search_locations):
                # The import system asks before it imports a module of the package.
                hint = f"; import {package}.{name}"
            elif not name.startswith("_"):
                hint = import_module("stepsim.other_names").hint(package, name, offers)
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        module, inner = homes[name]
        if module == package:
            value: Any = import_module(f"{package}.{inner}")
        else:
            value = getattr(import_module(module), inner)
        setattr(sys.modules[package], name, value)
        return value

    return lookup, lambda: list(offers), offers


_IMPORTS: Final = re.compile(r"^from (\S+) import (\([^)]*\)|.*)", re.MULTILINE)
_PAIRS: Final = re.compile(r"(\w+) as (\w+)")


def _listed(stub: str) -> dict[str, tuple[str, str]]:
    """The offered names of ``from module import name as offered``, with module and name."""
    homes = {}
    for module, names in _IMPORTS.findall(stub):
        for name, offered in _PAIRS.findall(names):
            homes[offered] = module, name
    return homes
