"""Comparisons of sweeps in Markdown, as comments on pull requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import stepsim.sweep
from stepsim.arguments import counted
from stepsim.cli.gate import absent_designs, absent_from_b
from stepsim.cli.stalls import HEADINGS, stalls_markdown
from stepsim.deferred import deferred
from stepsim.report import change_text, markdown_table, number_text
from stepsim.results import StallChange, stall_changes, stalls_of

if TYPE_CHECKING:
    import pyarrow.dataset as ds

    from stepsim.sweep import BaselineComparison, Comparison
else:
    ds = deferred("pyarrow.dataset")


def sweeps_markdown(
    found: Comparison, folders: tuple[Path, Path], regression: str, rows: int
) -> str:
    """A comparison of sweeps as a comment: verdict, counts, runs, stalls of the worst one."""
    differing = [change for change in found.changes if change.before != change.after]
    counts = f"{counted(len(found.changes), 'run')} in both, {len(differing):,} differ"
    if found.mean_ratio is not None:
        counts += f", geometric mean of B / A {found.mean_ratio:.4f}"
    parts = [_verdict(found.title, regression), counts + "."]
    if missing := absent_from_b(found):
        parts.append(f"Not compared: {', '.join(missing)}.")
    only = [f"{found.only_after:,} only in B"] * bool(found.only_after)
    only += [f"{counted(found.missing_before, 'run')} of A not done yet"] * bool(
        found.missing_before
    )
    if only:
        parts.append(f"Without a baseline: {', '.join(only)}.")
    if found.new_failures:
        listed = [[f.label, number_text(f.before), f.error] for f in found.new_failures[:rows]]
        parts.append(markdown_table(["newly failing", f"A: {found.title}", "B"], listed))
    if differing:
        shown = [[change.label, *_pair(change.before, change.after)] for change in differing[:rows]]
        parts.append(markdown_table([f"{found.title} of", *HEADINGS, "change"], shown))
        if len(differing) > rows:
            parts.append(f"{len(differing) - rows:,} more differ.")
        worst = differing[0]
        parts.append(stalls_markdown(_sweep_stalls(folders, worst.run), rows, worst.label))
    return "\n\n".join(part for part in [*parts, found.remark] if part)


def baseline_markdown(found: BaselineComparison, regression: str, rows: int) -> str:
    """Designs against their baselines as a comment: verdict, new failures, a row per group."""
    parts = [_verdict(found.objective.title, regression)]
    parts += [f"Constants that differ: {', '.join(found.differing)}."] * bool(found.differing)
    if found.newly_failing:
        listed = [list(pair) for pair in found.newly_failing[:rows]]
        parts.append(markdown_table(["newly failing", "error"], listed))
    by = list(found.rows[0].group)
    shown = [
        [
            *map(str, row.group.values()), row.label, row.baseline, str(row.runs),
            *_pair(*found.judged(row)), "" if row.ratio is None else f"{row.ratio:.4f}",
        ]
        for row in found.rows[:rows]
    ]  # fmt: skip
    names = ["design", "baseline", "runs", f"baseline's {found.objective.title}", "design's"]
    parts.append(markdown_table([*by, *names, "change", "mean ratio"], shown))
    if len(found.rows) > rows:
        parts.append(f"{len(found.rows) - rows:,} more rows.")
    if missing := absent_designs(found):
        parts.append(f"Not compared: {', '.join(missing)}.")
    if found.unpaired:
        parts.append(f"Without a baseline: {', '.join(found.unpaired)}.")
    return "\n\n".join(parts)


def _verdict(title: str, regression: str) -> str:
    return f"**Regression**: {regression}." if regression else f"**{title}**"


def _sweep_stalls(folders: tuple[Path, Path], run: str) -> list[StallChange]:
    """The stalls of one run in both sweeps; empty if its units were not kept."""
    units = [
        stepsim.sweep.open_table(folder, "units").to_table(filter=ds.field("run") == run)
        for folder in folders
    ]
    if not all(table.num_rows for table in units):
        return []
    return stall_changes(*(stalls_of(table, None) for table in units))


def _pair(before: float | None, after: float | None) -> Sequence[str]:
    return number_text(before), number_text(after), change_text(before, after)
