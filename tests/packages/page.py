"""The table of installations in ``docs/stability.md``."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Final

from tests.packages.requirements import ROOT

PAGE: Final = ROOT / "docs" / "stability.md"

_BEGIN: Final = "<!-- written by make packages -->\n"
_END: Final = "<!-- end of what is written -->\n"


def table(matrix: Path) -> str:
    """Distributions and extras, with the versions that they were tried with."""
    with matrix.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = ["| installed | with | Python | result | versions |", "|---|---|---|---|---|"]
    for row in rows:
        own = row["installed"].split()
        # Those of an extra are what it adds; the others are in the first rows.
        shown = own[-1:] if row["extra"] else own
        what = f"extra `{row['extra']}`" if row["extra"] else row["distribution"]
        lines.append(
            f"| {what} | {row['versions']} versions | {row['python']} | {row['result']} | "
            f"{', '.join(one.replace('==', ' ') for one in shown)} |"
        )
    return "\n".join(lines) + "\n"


def write_page(matrix: Path) -> None:
    """Put the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    pattern = f"{re.escape(_BEGIN)}.*{re.escape(_END)}"
    assert len(re.findall(pattern, text, re.DOTALL)) == 1, PAGE
    whole = f"{_BEGIN}\n{table(matrix)}\n{_END}"
    PAGE.write_text(re.sub(pattern, lambda _: whole, text, flags=re.DOTALL), encoding="utf-8")
