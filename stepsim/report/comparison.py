"""Comparisons of two runs, as text and as Markdown."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

__all__ = [
    "change_text",
    "markdown_table",
    "number_text",
    "provenance_changes",
    "settings_changes",
    "stall_rows",
    "text_table",
]


class _Change(Protocol):
    """Cycles of an operator for one cause in two runs."""

    @property
    def operator(self) -> str: ...
    @property
    def cause(self) -> str: ...
    @property
    def before(self) -> float: ...
    @property
    def after(self) -> float: ...


def stall_rows(
    changes: Sequence[_Change], most: int, headings: tuple[str, str]
) -> tuple[list[str], list[list[str]]]:
    """Column names and rows of a table of the ``most`` largest changes."""
    names = ["operator", "cycles for", *headings, "change"]
    rows = [
        [
            one.operator,
            one.cause,
            f"{one.before:,.0f}",
            f"{one.after:,.0f}",
            f"{one.after - one.before:+,.0f}",
        ]
        for one in changes[:most]
    ]
    return names, rows


def settings_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """``hbm.channels 32 -> 16`` for each value of nested settings that differs."""
    first, second = dict(_flat("", before)), dict(_flat("", after))
    return [
        f"{name} {first.get(name, 'absent')} -> {second.get(name, 'absent')}"
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name)
    ]


_DEPENDED: Final = (
    "program_hash", "workload", "workload_digest", "parameters", "config", "machine", "bindings",
    "kv_lengths", "fifo_depth", "fifo_depths", "compute_bw", "par_dispatch", "flop_weights",
    "counting", "plugins", "model_version",
)  # fmt: skip
"""Parts of the provenance of a run that times and counts depend on."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_DIGITS: Final = 12
"""Characters of a digest that are shown: enough to distinguish two."""


def provenance_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """``machine.hbm.channels 32 -> 16`` for every dependency of a run that differs."""
    first, second = (
        {name: one[name] for name in _DEPENDED if one.get(name) is not None}
        for one in (before, after)
    )
    for one in (first, second):
        machine = one.get("machine", {})
        one["machine"] = {k: v for k, v in machine.items() if k != "description"}
    return [_DIGEST.sub(_shortened, text) for text in settings_changes(first, second)]


def _shortened(digest: re.Match[str]) -> str:
    return digest[0][:_DIGITS]


def number_text(value: float | None) -> str:
    """A count with separators, a fraction with four digits; ``unknown`` for None."""
    if value is None:
        return "unknown"
    whole = isinstance(value, int) or float(value).is_integer()
    return f"{value:,.0f}" if whole or abs(value) >= 1000 else f"{value:.4g}"


def change_text(before: float | None, after: float | None) -> str:
    """``+1.25 %``, or ``equal``; or another text where there is no such share."""
    if before == after:
        return "equal"
    if before is None or after is None:
        return "not comparable"
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


def _flat(prefix: str, value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(f"{prefix}.{name}" if prefix else name, inner)
    else:
        yield prefix, value
