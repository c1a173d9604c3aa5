"""What to say when the engine cannot be compiled because of the kernel of a plugin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

from stepsim.errors import UserCodeError
from stepsim.kernels.build.cache_key import COMPILED_GROUPS
from stepsim.plugins import Plugin, sources, usable

_PLACE = re.compile(r'File "([^"\n]+)", line (\d+)')
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_FRAMES = ("Failed in ", "During:", "- During:", "File ", "<source")
"""Beginnings of lines in which numba describes what it was doing."""
_SHOWN = 300


def plugin_refusal(error: Exception) -> UserCodeError | None:
    """What to say instead of numba's error: the package and kernel at fault.

    None when no plugin is compiled.
    """
    text = _COLOR.sub("", str(error))
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith(_FRAMES)] or [text]
    # What was called follows in a line of its own.
    reason = " ".join(said[: 2 if said[0].endswith(":") else 1])[:_SHOWN]
    plugins = [plugin for group in COMPILED_GROUPS for plugin in usable(group)]
    for name, number in _PLACE.findall(text):
        path, line = Path(name).resolve(), int(number)
        for plugin in plugins:
            if any(path == source.resolve() for _, source in sources(plugin)):
                return UserCodeError(
                    f"kernel {_kernel_at(plugin, path, line)} of plugin '{plugin.name}' of package "
                    f"{plugin.package} {plugin.version} cannot be compiled: {reason} ({path}, line "
                    f"{line}); correct it with numba's list of supported Python, or uninstall the "
                    "package"
                )
    if not plugins:
        return None
    names = ", ".join(f"'{plugin.name}' of package {plugin.package}" for plugin in plugins)
    return UserCodeError(
        f"the engine cannot be compiled with the plugins {names}: {reason}; correct or uninstall "
        "them one by one"
    )


def _kernel_at(plugin: Plugin, path: Path, line: int) -> str:
    """The function of the plugin that has the line, or is the last to start before it."""
    before = [
        (code.co_firstlineno, code.co_name)
        for code in _codes(plugin.loaded)
        if Path(code.co_filename).resolve() == path and code.co_firstlineno <= line
    ]
    return f"'{max(before)[1]}'" if before else "code"


def _codes(loaded: Any) -> Iterator[CodeType]:
    for function in dict(getattr(loaded, "kernels", {})).values():
        code = getattr(getattr(function, "py_func", function), "__code__", None)
        if code is not None:
            yield code
