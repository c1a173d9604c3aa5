"""Sphinx configuration."""

from __future__ import annotations

import re

from stepsim._version import __version__

project = "stepsim"
author = "The stepsim developers"
copyright = "The stepsim developers, Apache-2.0"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"stepsim {release}"
html_show_sphinx = False
autodoc_typehints = "description"

_SECTIONS = ("Parameters", "Attributes", "Raises", "Returns")
_ENTRY = re.compile(r"^(\S[^:]*) : (.+)$")


def _split_entries(app, what, name, obj, options, lines: list[str]) -> None:
    """Put the text of ``name : text`` on its own line; numpydoc would take it for a type."""
    result: list[str] = []
    inside = False
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if following and set(following) == {"-"}:
            inside = line in _SECTIONS
        entry = _ENTRY.match(line) if inside else None
        result += [entry[1], f"    {entry[2]}"] if entry else [line]
    lines[:] = result


def setup(app) -> None:
    """Register the hook before the extension that reads the sections."""
    app.connect("autodoc-process-docstring", _split_entries, priority=400)
