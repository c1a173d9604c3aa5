"""Where the command line writes: results to stdout, all else to stderr."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = ["note", "print_json", "show"]

_PIPE_WIDTH = 120


def show(*renderables: RenderableType) -> None:
    """Print for people on stdout, in colour where the terminal has it and NO_COLOR is unset.

    Plain text is printed as it is: no line is folded and brackets are no markup.
    """
    console = _console()
    for renderable in renderables:
        console.print(renderable, markup=False, soft_wrap=isinstance(renderable, str))


def print_json(value: dict[str, Any]) -> None:
    """Print the one JSON object of a ``--json`` run."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def note(text: str) -> None:
    """Print a remark on stderr."""
    sys.stderr.write(text + "\n")


def _console() -> Console:
    from rich.console import Console

    # Without a terminal rich would assume 80 columns and fold the tables.
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Console(width=width, highlight=False, emoji=False)
