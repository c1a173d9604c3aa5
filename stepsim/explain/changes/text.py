"""Rows of a what-if as text of at most 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from stepsim.arguments import counted

WIDTH: Final = 80

_INDENTED: Final[Any] = {"initial_indent": "  ", "subsequent_indent": "  "}

_SHOWN: Final = 0.001
"""Gain below which changes are only counted."""


def change_lines(rows: Iterable[Mapping[str, Any]], title: str, unit: str | None) -> Iterator[str]:
    """For each change a line of its name with the measurements, then how to make it, wrapped.

    Parameters
    ----------
    rows : rows of the table of a what-if.
    title : heading above the names.
    unit : unit of costs; None if the machine has none.
    """
    rows = list(rows)
    costs = any(row["cost"] is not None for row in rows)
    paths = any(row["predicted_cycles"] is not None for row in rows)
    width = WIDTH - 13 - 9 - 10 * paths - 11 * costs

    def line(name: str, cycles: str, gain: str, error: str, cost: str) -> str:
        line_text = f"{cut(name, width):{width}} {cycles:>12} {gain:>8}"
        return line_text + f" {error:>9}" * paths + f" {cost:>10}" * costs

    yield line(title, "cycles", "gain", "path errs", _cost_head(unit)).rstrip()
    for row in rows:
        error, cost = row["prediction_error"], row["cost"]
        cycles, gain = row["cycles"], row["gain"]
        name, *more = textwrap.wrap(row["change"], width, **_INDENTED)
        yield line(
            name,
            row["status"] if cycles is None else f"{cycles:,}",
            "" if gain is None else percent(gain),
            "" if error is None else f"{100 * error:+.1f} %",
            "" if cost is None else f"{cost:,.6g}",
        )
        yield from more
        bound = "" if row["buildable"] else "a bound: "
        if row["status"] == "infeasible":
            bound = "infeasible: "
        yield from textwrap.wrap(
            bound + row["description"],
            WIDTH,
            initial_indent="    ",
            subsequent_indent="    ",
            break_on_hyphens=False,
        )


def _cost_head(unit: str | None) -> str:
    return cut(f"cost {unit or ''}".rstrip(), 10)


def what_if_text(
    rows: Iterable[Mapping[str, Any]],
    program: str,
    cycles: int,
    unit: str | None,
    *,
    every: bool = False,
) -> str:
    """The table of a what-if: changes with a gain, or all of them."""
    rows = list(rows)
    shown = [row for row in rows if every or (row["gain"] or 0) >= _SHOWN]
    lines = [cut(f"what if, for {program}: {cycles:,} cycles as it is")]
    if shown:
        lines += change_lines(shown, "change", unit)
    rest = len(rows) - len(shown)
    if rest:
        lines.append(f"{counted(rest, 'other change')} would bring less than {percent(_SHOWN)}")
    return "\n".join(line.rstrip() for line in lines)


def percent(share: float) -> str:
    """Formatted as ``12.3 %``."""
    return f"{100 * share:.1f} %"


def cut(text: str, width: int = WIDTH) -> str:
    """The text in one line, with its middle left out if it is too long."""
    # Labels may contain line breaks, of which Unicode has several.
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    if len(text) <= width:
        return text
    end = (width - 3) // 2
    return f"{text[: width - 3 - end]}...{text[-end:]}"
