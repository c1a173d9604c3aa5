"""A table for people: rich draws it on a terminal, and elsewhere it is laid out without rich.

Importing rich takes longer than a small run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from stepsim.deferred import deferred
from stepsim.frozen import NamedTuple

if TYPE_CHECKING:
    import rich.table
    import rich.text
else:
    rich = deferred("rich")

__all__ = ["Cell", "Column", "TerminalTable"]

_GAP: Final = "  "


class Column(NamedTuple):
    """A column of a table; ``style`` is one of rich."""

    heading: str = ""
    justify: Literal["left", "right"] = "left"
    style: str | None = None


class Cell(NamedTuple):
    """A text with its own style."""

    text: str
    style: str = ""


class TerminalTable:
    """Rows of texts under a title; nothing in them is interpreted as markup."""

    def __init__(self, title: str, columns: Sequence[Column], *, header: bool = True) -> None:
        self._title = title
        self._columns = columns
        self._header = header
        self._rows: list[tuple[Cell, ...]] = []

    def add(self, *cells: str | Cell) -> None:
        """Add a row with one cell for each column."""
        self._rows.append(tuple(Cell(one) if isinstance(one, str) else one for one in cells))

    def __rich__(self) -> rich.table.Table:
        table = rich.table.Table(
            title=rich.text.Text(self._title, "table.title"), title_justify="left", box=None,
            show_header=self._header, pad_edge=False,
        )  # fmt: skip
        for column in self._columns:
            table.add_column(column.heading, justify=column.justify, style=column.style)
        for row in self._rows:
            table.add_row(*(rich.text.Text(cell.text, cell.style) for cell in row))
        return table

    def plain(self, width: int) -> str | None:
        """What rich prints without colors; None where that takes more than folding a column."""
        rows = [[cell.text for cell in row] for row in self._rows]
        if self._header:
            rows.insert(0, [column.heading for column in self._columns])
        texts = [self._title, *(text for row in rows for text in row)]
        if not all(
            text.isascii() and text.isprintable() and text == text.strip() for text in texts
        ):
            return None
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        total = sum(widths) + len(_GAP) * (len(widths) - 1)
        if total > width:
            folded = _folded(rows, widths, total - width)
            if folded is None or (self._header and folded[0] != rows[0]):
                return None  # The other headings would stand beside the last line of a folded one.
            rows, total = folded, width
        if len(self._title) > total:
            return None
        lines = [self._title.ljust(total)] if self._title else []
        for row in rows:
            cells = (
                text.rjust(wide) if column.justify == "right" else text.ljust(wide)
                for text, wide, column in zip(row, widths, self._columns, strict=True)
            )
            lines.append(_GAP.join(cells))
        return "\n".join(lines)


def _folded(rows: list[list[str]], widths: list[int], excess: int) -> list[list[str]] | None:
    """The rows with the widest column narrowed by ``excess``, and folded between words.

    None if that is not enough, so that rich would fold other columns too, or inside words.
    """
    widest = widths.index(max(widths))
    widths[widest] -= excess
    if widths[widest] < max(widths):
        return None
    found = []
    for row in rows:
        parts = _parts(row[widest], widths[widest])
        if parts is None:
            return None
        found.append([*row[:widest], parts[0], *row[widest + 1 :]])
        blank = [""] * len(row)
        found += [[*blank[:widest], part, *blank[widest + 1 :]] for part in parts[1:]]
    return found


def _parts(text: str, width: int) -> list[str] | None:
    """The lines of a text with one space between words; None if a word does not fit in one."""
    if len(text) <= width:
        return [text]
    words = text.split(" ")
    if not all(0 < len(word) <= width for word in words):
        return None
    parts = [words[0]]
    for word in words[1:]:
        longer = f"{parts[-1]} {word}"
        if len(longer) <= width:
            parts[-1] = longer
        else:
            parts.append(word)
    return parts
