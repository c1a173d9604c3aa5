"""``stepsim env`` and ``stepsim warmup``: the installation and its compiled engine."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Annotated, Any

import typer

import stepsim
import stepsim.plugins
import stepsim.processes
import stepsim.simulation
from stepsim._version import MODEL_VERSION, __version__
from stepsim.cli.console import note, print_json, show
from stepsim.cli.heartbeat import Heartbeat
from stepsim.deferred import deferred, install_extra, missing_extras

if TYPE_CHECKING:
    from importlib import metadata

    import rich.table
    import rich.text
else:
    rich = deferred("rich")
    metadata = deferred("importlib.metadata")

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
_ENGINES = {
    "installed": "part of the wheel, for {level}: {file}",
    "cached": "cached, for this processor: {file}",
    "compiled": "not compiled yet: the next run, or stepsim warmup, compiles it",
    "python": "plain Python, because NUMBA_DISABLE_JIT is set",
}
_VARIABLES = ("STEPSIM_", "NUMBA_", "NO_COLOR", "XDG_CACHE_HOME")


def environment() -> dict[str, Any]:
    """Facts for a bug report: versions (None for an absent package), plugins, engine, settings.

    Extras are those that are not installed, with what they are for.
    """
    return {
        "stepsim": __version__,
        "model_version": MODEL_VERSION,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "extras": {
            extra: f"not installed: {need}: {install_extra(extra)}"
            for extra, need in missing_extras().items()
        },
        "plugins": _plugins(),
        "engine": _engine(),
        "variables": {
            name: value for name, value in sorted(os.environ.items()) if name.startswith(_VARIABLES)
        },
    }


def env(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print versions, plugins, settings and the engine in use, for bug reports."""
    found = environment()
    if json:
        print_json(found)
        return

    table = rich.table.Table(box=None, pad_edge=False, show_header=False)
    for key, value in found.items():
        if key == "engine":
            table.add_row(key, rich.text.Text(_ENGINES[value["origin"]].format(**value)))
        elif isinstance(value, dict):
            for name, entry in value.items():
                table.add_row(
                    f"extra {name}" if key == "extras" else name,
                    rich.text.Text("not installed" if entry is None else str(entry)),
                )
        else:
            table.add_row(key.replace("_", " "), str(value))
    show(table)


def warmup(
    engines: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ENGINE]...",
            help="'runs', 'recorded' (runs that are recorded, as `stepsim why` does), 'dram' and "
            "'recorded-dram' (the same with memory model `dram`), 'bounded' and 'recorded-bounded' "
            "(with `hbm.port.outstanding` and another model), 'requests' (the DRAM alone), "
            "'hardware' (the hardware level), 'noc' and 'chips' (networks alone, on a chip and of "
            "chips), 'serving' and 'routing' (services), 'placement' (the search of `stepsim "
            "place`).",
            show_default="all",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            metavar="N",
            help="Processes that compile.",
            show_default="one for every processor",
        ),
    ] = None,
) -> None:
    """Compile the engines now, or load them, so that the next runs start immediately."""
    count = stepsim.processes.usable_cpus() if jobs is None else jobs
    with Heartbeat() as heartbeat:
        heartbeat.phase("loading the engines, or compiling them")
        found = stepsim.simulation.compile_ahead(
            engines or (), count, lambda name: heartbeat.progress(f"'{name}' is ready")
        )
    for what, origin in found.items():
        _tell(what, origin)
        if origin.how == "python":
            break


def _tell(what: str, origin: Any) -> None:
    """Report in one line where the code of an engine comes from."""
    place = "" if origin.path is None else str(origin.path)
    seconds = f"in {origin.seconds:.1f} s"
    if origin.how == "compiled":
        stored = f", stored in {place}" if place else ", not stored"
        note(f"{what} compiled for {origin.processor} {seconds}{stored}")
    elif origin.how == "installed":
        note(f"{what} for {origin.processor} loaded from this installation {seconds}: {place}")
    elif origin.how == "cached":
        note(f"{what} loaded from the cache {seconds}: {place}")
    else:
        note("engines run as plain Python, because NUMBA_DISABLE_JIT is set; nothing to compile")


def _engine() -> dict[str, str | None]:
    """Where the next run loads the engine from, its processor level if known, and the file."""
    found = stepsim.simulation.engine_in_use()
    path = None if found.path is None else str(found.path)
    return {"origin": found.how, "level": found.processor, "file": path}


def _plugins() -> dict[str, str]:
    """Plugins of other packages, by group and name: the package, or why it cannot be used."""
    return {
        f"{group} {plugin.name}": f"{plugin.package} {plugin.version}"
        + ("" if plugin.error is None else f", cannot be used: {plugin.error}")
        for group in stepsim.plugins.GROUPS
        for plugin in stepsim.plugins.found(group)
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
