"""``stepsim env`` and ``stepsim warmup``: the installation and its compiled engine."""

from __future__ import annotations

import os
import platform
import time
from importlib import metadata
from typing import Annotated, Any

import typer

from stepsim._version import MODEL_VERSION, __version__
from stepsim.cli.console import note, print_json, show

__all__ = ["env", "environment", "warmup"]

_PACKAGES = (
    "numba",
    "llvmlite",
    "numpy",
    "pyarrow",
    "sympy",
    "pydantic",
    "pyyaml",
    "typer",
    "rich",
    "matplotlib",
)
_VARIABLES = ("STEPSIM_", "NUMBA_", "NO_COLOR", "XDG_CACHE_HOME")


def environment() -> dict[str, Any]:
    """What a bug report needs: versions (None for an absent package), plugins and settings."""
    return {
        "stepsim": __version__,
        "model_version": MODEL_VERSION,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "plugins": _plugins(),
        "variables": {
            name: value for name, value in sorted(os.environ.items()) if name.startswith(_VARIABLES)
        },
    }


def env(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Print versions, plugins and settings for bug reports."""
    found = environment()
    if json:
        print_json(found)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    for key, value in found.items():
        if isinstance(value, dict):
            for name, entry in value.items():
                table.add_row(name, Text("not installed" if entry is None else str(entry)))
        else:
            table.add_row(key.replace("_", " "), str(value))
    show(table)


def warmup() -> None:
    """Compile the engine now, so that the next run starts immediately."""
    from stepsim.cli.heartbeat import LOADING_ENGINE, Heartbeat

    start = time.perf_counter()
    with Heartbeat() as heartbeat:
        heartbeat.phase(LOADING_ENGINE)
        from stepsim.simulation import warm_up

        warm_up()
    note(f"engine ready after {time.perf_counter() - start:.1f} s")


def _plugins() -> dict[str, str]:
    """What other packages add, by group and name: the package, or why it cannot be used."""
    from stepsim import plugins

    return {
        f"{group} {plugin.name}": f"{plugin.package} {plugin.version}"
        + ("" if plugin.error is None else f", cannot be used: {plugin.error}")
        for group in plugins.GROUPS
        for plugin in plugins.found(group)
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
