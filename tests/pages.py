"""Pages of the documentation, run from top to bottom: what they show is what is printed."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

__all__ = [
    "DOCS",
    "Session",
    "all_pages",
    "blocks",
    "matches",
    "module_of_docs",
    "pictures",
    "run_page",
    "strays",
]

DOCS = Path(__file__).parents[1] / "docs"


def module_of_docs(name: str) -> ModuleType:
    """A module of ``docs``, which is no package."""
    if str(DOCS) not in sys.path:
        sys.path.append(str(DOCS))
    return importlib.import_module(name)


_blocks = module_of_docs("blocks")
Session = _blocks.Session
"""What the blocks of a page run in."""

pictures = module_of_docs("pictures")
"""The Sphinx extension that draws."""


def all_pages() -> list[str]:
    """The pages that are written by hand or by a command, not those made for each build."""
    return sorted(
        str(path.relative_to(DOCS))
        for path in DOCS.rglob("*.md")
        if path.relative_to(DOCS).parts[0] not in ("_build", "reference")
    )


def blocks(page: str) -> list[Any]:
    """The fenced blocks of a page: ``line``, ``kind``, ``about``, ``body``."""
    return list(_blocks.blocks((DOCS / page).read_text(encoding="utf-8")))


def run_page(page: str) -> list[str]:
    """Run the blocks of a page in the current folder; returns what was shown and not printed.

    The text block that follows must be what was printed; ``...`` in it stands for anything.
    Pictures are drawn.
    """
    session = Session(page)
    wrong, printed = [], ""
    for block in blocks(page):
        if block.kind in ("python", "sh", "yaml"):
            printed = session.run(block)
        elif block.kind == "{picture}":
            ElementTree.fromstring(pictures.drawn(block.about, session.names))
        elif block.kind == "text" and not matches(block.body, printed):
            wrong.append(f"{page}: expected\n{block.body}\nfound\n{printed}")
    return wrong


def strays(page: str) -> Iterator[int]:
    """Lines of text blocks that follow no code, so that nothing can have printed them."""
    end = 0
    for block in blocks(page):
        if block.kind == "text" and block.line != end + 2:
            yield block.line
        runs = block.kind in ("python", "sh")
        end = block.line + block.body.count("\n") + 1 if runs else -2


def matches(shown: str, printed: str) -> bool:
    """Whether a page shows what is printed, apart from ``...`` and spaces at the end of lines."""
    pattern = ".*".join(re.escape(part) for part in _plain(shown).split("..."))
    return re.fullmatch(pattern, _plain(printed), flags=re.DOTALL) is not None


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
