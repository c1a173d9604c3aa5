"""Sphinx configuration."""

from __future__ import annotations

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
