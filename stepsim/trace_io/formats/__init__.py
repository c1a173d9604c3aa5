"""Trace formats: one module each, with a `Format` called ``FORMAT``; and those of plugins.

Any module in this folder that has a ``FORMAT`` is a format; there is no list of them. Other
packages offer a `Format` under the entry point group ``stepsim.trace_formats``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from stepsim import plugins
from stepsim.trace_io.formats.format import Content as Content, Format as Format
from stepsim.trace_io.formats.job import ImportJob as ImportJob
from stepsim.typed import typed

GROUP = "stepsim.trace_formats"
"""Entry points of this group are formats of other packages."""


@typed
def trace_formats() -> Mapping[str, Format]:
    """All formats by name, in the order in which auto-detection tries them.

    Formats of plugins come after the built-in ones, but before those marked as ``last``.
    """
    found = dict(_built_in())
    for plugin in plugins.found(GROUP):
        if _problem(plugin) is None:
            found[plugin.loaded.name] = replace(plugin.loaded, package=plugin.package)
    return dict(sorted(found.items(), key=lambda item: item[1].last))


def format_names() -> str:
    """The names of all formats for a message, and why some plugins cannot be used."""
    wrong = [
        f"; the plugin `{plugin.name}` of package {plugin.package} cannot be used "
        f"({problem}), repair or uninstall the package"
        for plugin in plugins.found(GROUP)
        if (problem := _problem(plugin)) is not None
    ]
    return ", ".join(sorted(trace_formats())) + "".join(wrong)


@cache
def _built_in() -> Mapping[str, Format]:
    modules = [import_module(f"{__name__}.{info.name}") for info in iter_modules(__path__)]
    formats = [module.FORMAT for module in modules if hasattr(module, "FORMAT")]
    return {found.name: found for found in formats}


def _problem(plugin: plugins.Plugin) -> str | None:
    """Why a plugin cannot be used as a format; None if it can."""
    if plugin.error is not None:
        return plugin.error
    if not isinstance(plugin.loaded, Format):
        return f"{plugin.value} is {type(plugin.loaded).__name__}, expected a Format"
    if plugin.loaded.name in _built_in():
        return f"the name `{plugin.loaded.name}` is that of a built-in format"
    return None
