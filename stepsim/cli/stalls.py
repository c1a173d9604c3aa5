"""Where the cycles of two runs went, as text and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import stepsim.report
from stepsim.arguments import counted

if TYPE_CHECKING:
    from stepsim.results import StallChange

HEADINGS: Final = ("A", "B")

_WENT: Final = "where the cycles went (average over the lanes of each operator)"


def stalls_text(changes: Sequence[StallChange], rows: int) -> str:
    """A table of the largest changes; empty if there is none."""
    if not changes:
        return ""
    shown = stepsim.report.text_table(
        *stepsim.report.stall_rows(changes, rows, HEADINGS), indent=""
    )
    return f"{_WENT}, own work and accesses first:\n{shown}"


def stalls_markdown(changes: Sequence[StallChange], rows: int, of: str = "") -> str:
    """The same, folded away below its title."""
    if not changes:
        return ""
    table = stepsim.report.markdown_table(*stepsim.report.stall_rows(changes, rows, HEADINGS))
    if left := max(0, len(changes) - rows):
        table += f"\n\nand {counted(left, 'smaller change')}"
    title = _WENT[0].upper() + _WENT[1:] + (f": {of}" if of else "")
    return f"<details><summary>{title}</summary>\n\n{table}\n\n</details>"
