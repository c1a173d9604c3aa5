"""Sphinx extension: pictures of the runs of a page, drawn when the documentation is built.

``{picture} CALL`` draws what the call of a function of these modules returns. The call may use all
names of the Python blocks above it, which are run for this. A picture is SVG within the page, so
that it takes the colors of the theme, light or dark.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import graph_pictures
import hardware_pictures
import network_pictures
import path_pictures
import run_pictures
import stream_pictures
from blocks import Session, blocks
from docutils import nodes
from docutils.parsers.rst import Directive

DRAWN = {
    name: getattr(module, name)
    for module in (
        graph_pictures, hardware_pictures, network_pictures, path_pictures, run_pictures,
        stream_pictures,
    )
    for name in module.__all__
}  # fmt: skip
"""What a page can draw."""


@contextmanager
def _inside(folder: str) -> Iterator[None]:
    """A folder as the current one, whose modules can be imported."""
    before, modules = Path.cwd(), set(sys.modules)
    os.chdir(folder)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        os.chdir(before)
        sys.path.remove(folder)
        # Pages have modules of the same name.
        for name in set(sys.modules) - modules:
            if folder in (getattr(sys.modules[name], "__file__", None) or ""):
                del sys.modules[name]


def drawn(call: str, names: Mapping[str, Any]) -> str:
    """The picture that a call makes with the names of a page."""
    return str(eval(call, {**names, **DRAWN}))


@cache
def of_page(page: Path) -> dict[str, str]:
    """The pictures of a page by their calls."""
    found = list(blocks(page.read_text(encoding="utf-8")))
    last = max(number for number, block in enumerate(found) if block.kind == "{picture}")
    session, made = Session(page.name), {}
    with tempfile.TemporaryDirectory() as folder, _inside(folder):
        for block in found[: last + 1]:
            if block.kind == "{picture}":
                made[block.about] = drawn(block.about, session.names)
            else:
                session.run(block)
    return made


class Picture(Directive):
    """``{picture} CALL``, with a caption as its content, which also is the text for readers."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        """The figure."""
        page = Path(self.state.document.settings.env.doc2path(
            self.state.document.settings.env.docname))  # fmt: skip
        figure = nodes.figure()
        picture = of_page(page)[self.arguments[0]]
        label = escape(" ".join(self.content), quote=True).replace("`", "")
        figure += nodes.raw("", picture.replace("<svg ", f'<svg aria-label="{label}" ', 1),
                            format="html")  # fmt: skip
        caption = nodes.caption()
        parsed, _ = self.state.inline_text(" ".join(self.content), self.lineno)
        figure += caption
        caption += parsed
        return [figure]


def setup(app: Any) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True}
