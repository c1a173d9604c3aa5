"""Generated parts of docs/performance.md: each stands between two comments that name it."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

__all__ = [
    "PAGE",
    "block",
    "machine_line",
    "parse_table",
    "processor",
    "processor_model",
    "replace_block",
    "table",
]

PAGE: Final = Path(__file__).parents[1] / "docs" / "performance.md"


def _comments(name: str) -> tuple[str, str]:
    return f"<!-- generated: {name} -->", f"<!-- end of {name} -->"


def _split(text: str, name: str) -> tuple[str, str, str]:
    begin, end = _comments(name)
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"{PAGE.name}: expected {begin} and {end} once each")
    before, _, rest = text.partition(begin)
    inside, _, after = rest.partition(end)
    return before, inside, after


def block(name: str, text: str | None = None) -> list[str]:
    """Lines of a generated part of the page, or of ``text``."""
    page = PAGE.read_text(encoding="utf-8") if text is None else text
    return _split(page, name)[1].strip("\n").splitlines()


def replace_block(name: str, lines: Iterable[str]) -> None:
    """Write new lines for a generated part."""
    before, _, after = _split(PAGE.read_text(encoding="utf-8"), name)
    begin, end = _comments(name)
    text = "\n".join([begin, *lines, end])
    PAGE.write_text(before + text + after, encoding="utf-8")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table; all columns but the first are numbers."""
    rule = ["---", *("---:" for _ in header[1:])]
    return ["| " + " | ".join(cells) + " |" for cells in (header, rule, *rows)]


def parse_table(lines: Iterable[str]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the one table among the lines."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]
    return cells[0], cells[2:]


def processor() -> str:
    """Name of the processor."""
    return _cpuinfo().get("model name") or platform.processor() or platform.machine()


def processor_model() -> str:
    """What distinguishes processors that share a name, as virtual machines report it."""
    info = _cpuinfo()
    numbers = [
        f"{field} {info[field]}" for field in ("cpu family", "model", "stepping") if field in info
    ]
    return f"{processor()} ({', '.join(numbers)})" if numbers else processor()


def _cpuinfo() -> dict[str, str]:
    """What Linux reports about the first processor."""
    path = Path("/proc/cpuinfo")
    text = path.read_text() if path.is_file() else ""
    found = re.findall(r"^([^\t:]+)\t*: (.+)$", text.partition("\n\n")[0], flags=re.MULTILINE)
    return dict(found)


def machine_line() -> str:
    """When and on what a part was measured."""
    today = datetime.date.today().isoformat()
    return f"Measured on {today}: {processor()}, {os.cpu_count()} cores, {platform.system()}."
