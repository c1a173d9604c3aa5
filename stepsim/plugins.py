"""Extensions in other packages, found through their entry points.

A package lists an object under ``[project.entry-points."stepsim.GROUP"]``; every room that can be
extended asks for its group when it needs it. Nothing is looked up before that, so start-up costs
nothing.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from functools import cache, lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepsim.deferred import deferred
from stepsim.errors import StepSimError
from stepsim.frozen import frozen

if TYPE_CHECKING:
    import hashlib
    import logging
    from importlib import metadata
else:
    hashlib = deferred("hashlib")
    logging = deferred("logging")
    metadata = deferred("importlib.metadata")

GROUPS: Final = (
    "stepsim.workloads",
    "stepsim.memory_models",
    "stepsim.trace_formats",
    "stepsim.functions",
    "stepsim.request_sources",
    "stepsim.schedulers",
    "stepsim.step_models",
    "stepsim.clocks",
)
"""All groups."""


@frozen
class Plugin:
    """One entry point, loaded.

    Attributes
    ----------
    name, group, value : as declared by the package; ``value`` is ``module:attribute``.
    package, version : the distribution it comes from.
    loaded : the object, None when it cannot be used.
    error : why it cannot be used, None when it can.
    """

    name: str
    group: str
    value: str
    package: str
    version: str
    loaded: Any = None
    error: str | None = None


@cache
def found(group: str) -> tuple[Plugin, ...]:
    """Every plugin of a group, by name; plugins that cannot be loaded carry their error.

    The entry points are read and loaded on the first call only. Of two plugins with one name, the
    one whose package name comes first alphabetically is kept.
    """
    if group not in GROUPS:
        raise StepSimError(f"there is no group of plugins {group!r}; known are {', '.join(GROUPS)}")
    if not _may_be_offered(group):
        return ()

    owners: dict[str, str] = {}
    plugins = []
    for point in sorted(
        metadata.entry_points(group=group), key=lambda p: (p.name, _origin(p), p.value)
    ):
        package, version = _origin(point)
        loaded, error = None, None
        if point.name in owners:
            error = f"the name is taken by package {owners[point.name]}"
        else:
            owners[point.name] = package
            try:
                with redirect_stdout(sys.stderr):  # stdout is for results
                    loaded = point.load()
            except Exception as failure:  # importing a foreign module may raise anything
                error = f"{type(failure).__name__}: {failure}"
        plugins.append(Plugin(point.name, group, point.value, package, version, loaded, error))
    return tuple(plugins)


def _may_be_offered(group: str) -> bool:
    """Whether an installed package may name the group among its entry points.

    Decided without ``importlib.metadata``, which takes as long to import as a program takes to
    build. It is used only where packages are installed in other ways than in folders.
    """
    others = (finder for finder in sys.meta_path if finder is not PathFinder)
    if any(hasattr(finder, "find_distributions") for finder in others):
        return True
    for folder in map(Path, sys.path):
        try:
            if group.encode() in _entry_points(folder, folder.stat().st_mtime_ns):
                return True
        except NotADirectoryError:  # an archive
            return True
        except OSError:  # no such folder
            continue
    return False


@lru_cache(maxsize=64)
def _entry_points(folder: Path, changed: int) -> bytes:
    """The raw entry points of the packages in a folder; cached by the time of its last change."""
    texts = []
    for name in os.listdir(folder):  # noqa: PTH208
        if name.lower().endswith((".dist-info", "egg-info")):
            with suppress(OSError):
                texts.append((folder / name / "entry_points.txt").read_bytes())
    return b"\n".join(texts)


@cache
def usable(group: str) -> tuple[Plugin, ...]:
    """The plugins of a group that could be loaded; the others are logged once."""
    for plugin in found(group):
        if plugin.error is not None:
            logging.getLogger("stepsim").warning(
                "plugin '%s' of package %s is left out: %s (%s, group %s); "
                "repair or uninstall the package",
                plugin.name, plugin.package, plugin.error, plugin.value, group,
            )  # fmt: skip
    return tuple(plugin for plugin in found(group) if plugin.error is None)


def sources(plugin: Plugin) -> Iterator[tuple[str, Path]]:
    """Name and path of every source file of the package that contains a usable plugin."""
    module = sys.modules[plugin.value.partition(":")[0].strip()]
    root = sys.modules[module.__name__.partition(".")[0]]
    if root.__file__ is None or Path(root.__file__).name != "__init__.py":
        yield "", Path(inspect.getfile(module))
        return
    folder = Path(root.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        yield path.relative_to(folder).as_posix(), path


def source_digest(plugin: Plugin) -> str:
    """SHA-256 of `sources`."""
    digest = hashlib.sha256()
    for name, path in sources(plugin):
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def identity_of(plugin: Plugin) -> str:
    """Package, version and SHA-256 of the sources of a plugin."""
    return f"{plugin.package} {plugin.version} {source_digest(plugin)}"


def _origin(point: Any) -> tuple[str, str]:
    """Name and version of the distribution of an entry point."""
    return ("unknown", "") if point.dist is None else (point.dist.name, point.dist.version)
