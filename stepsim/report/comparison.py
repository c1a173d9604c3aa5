"""Comparisons of two runs, as text and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepsim.results import StallChange


def stall_rows(
    changes: Sequence[StallChange], most: int, headings: tuple[str, str]
) -> tuple[list[str], list[list[str]]]:
    """Column names and rows of a table of the ``most`` largest changes."""
    names = ["operator", "cycles for", *headings, "change"]
    rows = [
        [
            one.operator,
            one.cause,
            f"{one.before:,.0f}",
            f"{one.after:,.0f}",
            f"{one.change:+,.0f}",
        ]
        for one in changes[:most]
    ]
    return names, rows


def number_text(value: float | None) -> str:
    """A count with separators, a fraction with four digits; ``unknown`` for None."""
    if value is None:
        return "unknown"
    whole = isinstance(value, int) or float(value).is_integer()
    return f"{value:,.0f}" if whole or abs(value) >= 1000 else f"{value:.4g}"


def change_text(before: float | None, after: float | None) -> str:
    """``+1.25 %``, or ``equal``; or another text where there is no such share."""
    if before is None or after is None:
        return "not comparable"
    if before == after:
        return "equal"
    if not before:
        return f"{after - before:+,.4g}"
    share = (after - before) / abs(before)
    text = f"{share:+.2%}"
    if text[1:] != "0.00%":
        return text
    # A change is never shown as zero.
    return f"{share:+.{-math.floor(math.log10(abs(share))) - 2}%}"


def text_table(names: Sequence[str], rows: Iterable[Sequence[str]], indent: str = "  ") -> str:
    """A table for terminals: the first two columns left-aligned, numbers right-aligned."""
    table = [list(names), *map(list, rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(names))]
    left = _text_columns(names)
    lines = (
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in table
    )
    return "\n".join(f"{indent}{line}".rstrip() for line in lines)


def markdown_table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of GitHub's and GitLab's Markdown."""
    left = _text_columns(names)
    rule = [":---" if i < left else "---:" for i in range(len(names))]
    lines = [names, rule, *rows]
    return "\n".join(f"| {' | '.join(_escaped(cell) for cell in line)} |" for line in lines)


def _text_columns(names: Sequence[str]) -> int:
    """The number of columns before the numbers."""
    return 2 if "cycles for" in names else 1


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")
