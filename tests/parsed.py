"""Sources as trees of their syntax, for tests of how the project is written."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

__all__ = ["parsed"]


@cache
def parsed(path: Path) -> ast.Module:
    """The tree of a file, made without collecting garbage, which takes longer than parsing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        if was_enabled:
            gc.enable()
