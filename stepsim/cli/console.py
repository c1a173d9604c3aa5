"""Where the command line writes: results to stdout, all else to stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import stepsim.report
from stepsim.deferred import deferred

if TYPE_CHECKING:
    import rich.console
    import rich.table
    import rich.text
    from rich.console import RenderableType
else:
    rich = deferred("rich")

_PIPE_WIDTH = 120
_ANY_HEIGHT = 25
_ENDLESS = 1 << 20
_NO_LIMIT = ("", "any")
"""Texts among numbers, with which they stay on the right."""
_LEAST_FOLDED = 24
"""The least width of a folded column, in characters."""


def show(*renderables: RenderableType) -> None:
    """Print text for people on stdout, in color where the terminal has it and NO_COLOR is unset.

    Plain text is printed as it is: lines are not folded, and brackets are not markup.
    """
    plain = [] if _may_have_color() else [_plain(one) for one in renderables]
    if plain and None not in plain:
        sys.stdout.write("".join(f"{text}\n" for text in plain))
        return
    console = _console()
    for renderable in renderables:
        console.print(renderable, markup=False, soft_wrap=isinstance(renderable, str))


def show_table(
    names: Sequence[str], rows: Sequence[Sequence[object]], *, folding: str | None = None
) -> None:
    """Print a table of results on stdout without truncating anything.

    On a terminal the column ``folding`` takes as many lines as it needs to leave room for the
    others. Elsewhere, and where that does not help, long lines stay long.
    """
    table = rich.table.Table(box=None, pad_edge=False)
    texts = [["" if value is None else str(value) for value in row] for row in rows]
    for index, name in enumerate(names):
        numbers = all(_is_number(row[index]) for row in texts if row[index] not in _NO_LIMIT)
        table.add_column(
            rich.text.Text(name), no_wrap=name != folding, overflow="fold",
            justify="right" if numbers else "left",
        )  # fmt: skip
    for row in texts:
        table.add_row(*map(rich.text.Text, row))
    width = natural = _console(_ENDLESS).measure(table).maximum
    if folding is not None and sys.stdout.isatty():
        label = max(map(len, [folding, *(row[names.index(folding)] for row in texts)]))
        rigid = natural - max(0, label - _LEAST_FOLDED)
        width = max(_console().width, rigid)
    _console(width).print(table, markup=False)


def number(value: float) -> str:
    """A large number rounded to an integer, a small one to four digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 or value.is_integer() else f"{value:.4g}"


def print_json(value: dict[str, Any]) -> None:
    """Print the one JSON object of a ``--json`` run."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def note(text: str) -> None:
    """Print a note on stderr."""
    sys.stderr.write(text + "\n")


def _may_have_color() -> bool:
    """Whether rich may take stdout for a terminal, as these variables can force."""
    return sys.stdout.isatty() or any(map(os.environ.get, ("FORCE_COLOR", "TTY_COMPATIBLE")))


def _plain(renderable: RenderableType) -> str | None:
    """What rich prints where there is no terminal; None where only rich knows it."""
    if isinstance(renderable, str):
        plain = renderable.isascii() and renderable.replace("\n", "").isprintable()
        return renderable if plain else None
    if isinstance(renderable, stepsim.report.TerminalTable):
        return renderable.plain(_PIPE_WIDTH)
    return None


def _console(width: int | None = None) -> rich.console.Console:
    if width is None and not sys.stdout.isatty():
        # Without a terminal rich would assume 80 columns and fold the tables.
        width = _PIPE_WIDTH
    # For a dumb terminal rich uses this width only if a height is given too.
    height = None if width is None else _ANY_HEIGHT
    return rich.console.Console(width=width, height=height, highlight=False, emoji=False)


def _is_number(text: str) -> bool:
    try:
        float(text.removesuffix("%").replace(",", ""))
    except ValueError:
        return False
    return True
