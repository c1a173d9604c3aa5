"""Versions and settings of the compiler, found without importing it.

Importing numba takes longer than loading the compiled engine, and a run needs nothing of it.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

_DEFAULTS: Final[dict[str, tuple[str, str]]] = {
    "OPT": ("NUMBA_OPT", "_OptLevel(3)"),
    "BOUNDSCHECK": ("NUMBA_BOUNDSCHECK", "None"),
    "DEBUGINFO_DEFAULT": ("NUMBA_DEBUGINFO", "0"),
    "LOOP_VECTORIZE": ("NUMBA_LOOP_VECTORIZE", "1"),
    "SLP_VECTORIZE": ("NUMBA_SLP_VECTORIZE", "0"),
    "CPU_NAME": ("NUMBA_CPU_NAME", "None"),
    "CPU_FEATURES": ("NUMBA_CPU_FEATURES", "None"),
}
"""What the code depends on: names in numba's configuration, variables, and what holds without."""

_CONFIGURATION = Path(".numba_config.yaml")
"""Numba reads it from the folder in which a process starts."""


def compiler_settings() -> tuple[tuple[str, str], ...]:
    """The settings of the compiler that are not as numba has them by itself."""
    variables = [variable for variable, _ in _DEFAULTS.values()]
    if not _is_configured(*variables):
        return ()
    config = import_module("numba").config
    found = {name: repr(getattr(config, name)) for name in _DEFAULTS}
    return tuple((name, found[name]) for name in _DEFAULTS if found[name] != _DEFAULTS[name][1])


def is_jit_disabled() -> bool:
    """Whether everything is to run as plain Python."""
    return _is_configured("NUMBA_DISABLE_JIT") and bool(import_module("numba").config.DISABLE_JIT)


def _is_configured(*variables: str) -> bool:
    """Whether numba must be asked, as the user may have configured it."""
    return (
        "numba" in sys.modules
        or any(variable in os.environ for variable in variables)
        or _CONFIGURATION.exists()
    )


@cache
def compiler_versions() -> dict[str, str]:
    """Versions of numba, llvmlite and numpy, by name."""
    return {name: _version(name) for name in ("numba", "llvmlite", "numpy")}


def _version(package: str) -> str:
    """``__version__`` of a package, from the folder of its metadata if it is not imported."""
    module: Any = sys.modules.get(package)
    spec = None if module else find_spec(package)
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parents[1]
        begin, end = f"{package}-", ".dist-info"
        names = [name for name in os.listdir(folder) if name.startswith(begin)]  # noqa: PTH208
        found = [name[len(begin) : -len(end)] for name in names if name.endswith(end)]
        if len(found) == 1:
            return found[0]
    return str(import_module(package).__version__)
