"""Sphinx configuration."""

from __future__ import annotations

import sys
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive

from stepsim._version import __version__

project = "stepsim"
author = "The stepsim developers"
copyright = "The stepsim developers, Apache-2.0"
release = version = __version__

sys.path.insert(0, str(Path(__file__).parent))
extensions = ["myst_parser", "reference", "pictures"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
highlight_language = "none"  # of blocks without a language: formulas and drawings

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_title = f"stepsim {release}"
html_show_sphinx = False


class WorkloadTable(Directive):
    """``{workload} NAME``: the parameters of a workload, as they are declared."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The table: a row for each parameter."""
        from stepsim.workloads.loading import find_workload
        from stepsim.workloads.parameters import fields_of

        rows = [("parameter", "values", "default", "meaning")]
        for name, field in fields_of(find_workload(self.arguments[0]).load()).items():
            param = field.param
            unit = f", in {param.unit}" if "/" in param.unit else ""
            rows.append((name, field.kind.metavar, field.default_text(), param.help + unit))
        table = nodes.table()
        group = nodes.tgroup(cols=len(rows[0]))
        table += group
        group += [nodes.colspec(colwidth=width) for width in (16, 16, 20, 48)]
        head, body = nodes.thead(), nodes.tbody()
        group += [head, body]
        for index, texts in enumerate(rows):
            row = nodes.row()
            for column, text in enumerate(texts):
                entry = nodes.entry()
                kind = nodes.literal if index and column == 0 else nodes.inline
                entry += nodes.paragraph("", "", kind(text=text))
                row += entry
            (body if index else head).append(row)
        return [table]


def setup(app) -> None:
    """Register the table."""
    app.add_directive("workload", WorkloadTable)
