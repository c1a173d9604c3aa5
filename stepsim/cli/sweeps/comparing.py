"""``stepsim compare`` of two runs, and for pull requests: Markdown and an exit code."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

import stepsim.ensembles
import stepsim.sweep
from stepsim.arguments import counted
from stepsim.cli.console import note, print_json, show
from stepsim.cli.exit_codes import REGRESSED
from stepsim.deferred import deferred
from stepsim.errors import ArgError, did_you_mean
from stepsim.explain import StallChange, stall_changes, stalls_of
from stepsim.report import (
    RunTables,
    change_text,
    markdown_table,
    number_text,
    provenance_changes,
    read_run,
    stall_rows,
    text_table,
)
from stepsim.results import COUNTED, ENDED, EVERY_MEASURE
from stepsim.sweep import BETTER, COST, parse_objective

if TYPE_CHECKING:
    import pyarrow.dataset as ds

    from stepsim.sweep import BaselineComparison, Comparison
else:
    ds = deferred("pyarrow.dataset")

__all__ = ["Gate", "absent_designs", "baseline_markdown", "compare_runs", "sweeps_markdown"]

_PERCENTAGE: Final = re.compile(r"(\d{1,18}(\.\d{0,18})?|\.\d{1,18})%", re.ASCII)
_HEADINGS: Final = ("A", "B")
_NOT_COMPARED: Final = ("peak_bandwidth", "engine_steps")
"""The first is of the machine, the second of the simulator."""


class Gate:
    """How much worse a metric may be.

    Parameters
    ----------
    metric : column of the runs; between groups of runs also ``p95_cycles`` or ``cost``.
    above : a percentage, as in ``1%``; None lets everything pass.
    allow_missing : whether runs of A that B does not have, or not yet, may pass.
    ensemble : whether what is within the spread of both runs is noise, and passes.

    Raises
    ------
    ArgError : it is no percentage, or it is not known which values of the metric are better.
    """

    def __init__(
        self,
        metric: str,
        above: str | None,
        *,
        grouped: bool = False,
        allow_missing: bool = False,
        ensemble: bool = False,
    ) -> None:
        self.metric = metric
        self.ensemble = ensemble
        judged = parse_objective(metric).metric if grouped else metric
        self.above = above
        self.allow_missing = allow_missing
        if above is None:
            if allow_missing:
                raise ArgError("--allow-missing: only a gate refuses runs; give --fail-above too")
            return
        if _PERCENTAGE.fullmatch(above) is None:
            raise ArgError(f"--fail-above: expected a percentage such as 1%, found '{above}'")
        self.smaller = BETTER.get(judged, "smaller") == "smaller"
        if judged not in (*BETTER, COST):
            raise ArgError(
                f"--fail-above: it is not known which values of {metric} are better"
                f"{did_you_mean(metric, BETTER)} Choose --metric among {', '.join(BETTER)}"
            )
        # As it was written: in floating point, 29 of 100 are more than 29 %.
        self.most = Fraction(above[:-1]) / 100

    def exceeded(self, before: float | None, after: float | None) -> bool:
        """Whether the metric became worse by more than is allowed, or only one of both has it."""
        if self.above is None:
            return False
        known = [value is not None and math.isfinite(value) for value in (before, after)]
        if before is None or after is None or not all(known):
            return any(known)
        first, second = Fraction(str(before)), Fraction(str(after))
        growth = second - first if self.smaller else first - second
        return growth > abs(first) * self.most

    def of_sweeps(self, found: Comparison) -> str:
        """A sentence on the regressions of a sweep; empty where there are none, or no gate."""
        if self.above is None:
            return ""
        worse = sum(
            self.exceeded(change.before, change.after)
            for change in found.changes
            if not (self.ensemble and change.noise)
        )
        failing = len(found.new_failures)
        parts = [f"{worse:,} of {len(found.changes):,} runs worse by more than {self.above}"]
        parts += [f"{failing:,} newly failing"] * bool(failing)
        missing = [] if self.allow_missing else absent_from_b(found)
        return f"{self.metric}: {', '.join(parts + missing)}" if worse or failing or missing else ""

    def of_groups(self, found: BaselineComparison) -> str:
        """As `of_sweeps`, of designs against their baselines in groups of runs."""
        if self.above is None:
            return ""
        pairs = [found.judged(row) for row in found.rows]
        worse = sum(self.exceeded(*pair) for pair in pairs)
        failing = len(found.newly_failing)
        parts = [f"{worse:,} of {len(pairs):,} rows worse by more than {self.above}"]
        parts += [f"{counted(failing, 'run')} newly failing"] * bool(failing)
        missing = [] if self.allow_missing else absent_designs(found)
        title = found.objective.title
        return f"{title}: {', '.join(parts + missing)}" if worse or failing or missing else ""

    def of_runs(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
        """As `of_sweeps`, of the rows of two runs."""
        if self.above is None:
            return ""
        statuses = before["status"], after["status"]
        if statuses != ("infeasible", "infeasible"):
            if after["status"] != "ok":
                return f"B ended with status {after['status']}"
            if before["status"] != "ok":
                return ""
        first, second = before[self.metric], after[self.metric]
        if second is None:
            return f"{self.metric} is unknown in B"
        if not self.exceeded(first, second) or (self.ensemble and is_noise(before, after)):
            return ""
        if first is None:
            return f"{self.metric} is unknown in A"
        return f"{self.metric} {change_text(first, second)}, worse by more than {self.above}"

    def close(self, regression: str) -> None:
        """End the command with `REGRESSED` if there is a regression."""
        if regression:
            note(f"regression: {regression}")
            raise typer.Exit(REGRESSED)


def compare_runs(
    before: Path, after: Path, gate: Gate, rows: int, *, json: bool, markdown: bool
) -> None:
    """Compare two files of `stepsim run --out`.

    Raises
    ------
    ReportError : a file is missing, cannot be read, or is not of a run.
    ArgError : the runs have no such metric, or one of both is a folder.
    typer.Exit : there is a regression.
    """
    for folder, file in ((before, after), (after, before)):
        if folder.is_dir():
            raise ArgError(
                f"{folder} is a folder, as of a sweep, and {file} a file, as of a run; compare two "
                "runs or two sweeps"
            )
    first, second = read_run(before), read_run(after)
    compared = _Compared(first, second, gate)
    if json:
        print_json(compared.to_dict())
    elif markdown:
        show(compared.markdown(rows))
    else:
        show(f"A {before}: {first.row['status']}\nB {after}: {second.row['status']}\n")
        show(compared.text(rows))
        left = len(compared.stalls) - rows
        if left > 0:
            note(f"{left:,} more; --rows N shows N of them, --json all")
    gate.close(compared.regression)


def is_noise(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool | None:
    """Whether the cycles of two runs differ within the spread of their ensembles.

    None where one of them has none.
    """
    ranges = [one.get(name) for one in (before, after) for name in ("cycles_p5", "cycles_p95")]
    return None if None in ranges else stepsim.ensembles.overlap(*ranges)


class _Compared:
    """Two runs: their metrics, what differs in what they depend on, and their stalls."""

    def __init__(self, before: RunTables, after: RunTables, gate: Gate) -> None:
        self.before, self.after, self.gate = before, after, gate
        self.names = [
            name
            for name in EVERY_MEASURE
            if name in before.row and name in after.row and name not in _NOT_COMPARED
        ]
        if gate.metric not in self.names:
            raise ArgError(
                f"--metric: the runs have no metric '{gate.metric}' in common"
                f"{did_you_mean(gate.metric, self.names)} Known: {', '.join(self.names)}"
            )
        countings = {one.row.get("counting", "executed") for one in (before, after)}
        if len(countings) > 1:
            names = ", ".join(name for name in self.names if name in COUNTED)
            note(f"A and B count differently ({' and '.join(sorted(countings))}): {names}")
        self.noise = is_noise(before.row, after.row) if self._whole else None
        if gate.ensemble and self.noise is None:
            raise ArgError(
                "--ensemble: A and B must both have one; write them with stepsim run --ensemble N "
                "--out FILE"
            )
        self.regression = gate.of_runs(before.row, after.row)
        self.changed = provenance_changes(before.row["provenance"], after.row["provenance"])
        # Limits are no part of what a run depends on, until one of them stops it.
        statuses = [one.row["status"] for one in (before, after)]
        if "limit" in statuses and statuses[0] != statuses[1]:
            self.changed.append(f"a limit stopped {_HEADINGS[statuses.index('limit')]}")
        self.stalls = stall_changes(*(stalls_of(one.units, one.fifos) for one in (before, after)))

    def to_dict(self) -> dict[str, Any]:
        first, second = self.before.row, self.after.row
        return {
            "metric": self.gate.metric,
            "regression": self.regression or None,
            **({} if self.noise is None else {"noise": self.noise}),
            "status": {"before": first["status"], "after": second["status"]},
            "metrics": {
                name: {"before": first[name], "after": second[name]} for name in self.names
            },
            "changed": self.changed,
            "stalls": [asdict(one) for one in self.stalls],
        }

    def markdown(self, rows: int) -> str:
        first, second = self.before.row, self.after.row
        metric = self.gate.metric
        verdict = f"**{metric} {self._change(metric)}**"
        if self.regression:
            verdict = f"**Regression**: {self.regression}."
        elif not self._whole:
            verdict = f"A ended with status {first['status']}, B with {second['status']}."
        causes = "Nothing that a run depends on changed."
        if self.changed:
            causes = "What changed:\n\n" + "\n".join(f"* `{text}`" for text in self.changed)
        parts = [verdict, markdown_table(*self._metrics()), causes]
        return "\n\n".join(filter(None, [*parts, _stalls_markdown(self.stalls, rows)]))

    def text(self, rows: int) -> str:
        causes = self.changed or ["nothing that a run depends on"]
        parts = [text_table(*self._metrics(), indent=""), "\n  ".join(["what changed:", *causes])]
        if self.stalls:
            told = text_table(*stall_rows(self.stalls, rows, _HEADINGS), indent="")
            parts.append(f"{_WENT}, own work and accesses first:\n{told}")
        return "\n\n".join(parts)

    def _metrics(self) -> tuple[list[str], list[list[str]]]:
        """Column names and rows of a table; metrics that neither run has are left out."""
        statuses = [one.row["status"] for one in (self.before, self.after)]
        told = [] if statuses == ["ok", "ok"] else [["status", *statuses, ""]]
        pairs = {name: (self.before.row[name], self.after.row[name]) for name in self.names}
        rows = [
            [self._title(name), *map(number_text, pair), self._change(name)]
            for name, pair in pairs.items()
            if pair != (None, None)
        ]
        return ["metric", *_HEADINGS, "change"], told + rows

    @property
    def _whole(self) -> bool:
        """Whether both runs came to their end, so that their totals can be compared."""
        return all(one.row["status"] in ENDED for one in (self.before, self.after))

    def _change(self, name: str) -> str:
        if not self._whole:
            return "not comparable"
        told = change_text(self.before.row[name], self.after.row[name])
        return (
            f"{told}, within noise" if name == "cycles" and self.noise and told != "equal" else told
        )

    def _title(self, name: str) -> str:
        unit = self.before.fields.field(name).metadata.get(b"unit", b"").decode()
        shown = name.replace("_", " ")
        plain = unit == "fraction" or unit.partition("/")[0].lower() in shown
        return shown if plain else f"{shown} ({unit})"


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
        parts.append(markdown_table([f"{found.title} of", *_HEADINGS, "change"], shown))
        if len(differing) > rows:
            parts.append(f"{len(differing) - rows:,} more differ.")
        worst = differing[0]
        parts.append(_stalls_markdown(_sweep_stalls(folders, worst.run), rows, worst.label))
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
        parts.append(f"{len(found.rows) - rows:,} rows more.")
    if missing := absent_designs(found):
        parts.append(f"Not compared: {', '.join(missing)}.")
    if found.unpaired:
        parts.append(f"Without a baseline: {', '.join(found.unpaired)}.")
    return "\n\n".join(parts)


def absent_from_b(found: Comparison) -> list[str]:
    """What was not compared although A has it, in words."""
    gone, missing = found.only_before, found.missing_after
    parts = [f"{counted(gone, 'run')} of A not in B"] * bool(gone)
    return parts + [f"{counted(missing, 'run')} of B not done yet"] * bool(missing)


def absent_designs(found: BaselineComparison) -> list[str]:
    """As `absent_from_b`, of designs and their baselines."""
    designs, runs = len(found.lost), found.lost_runs
    parts = [f"{counted(designs, 'baseline')} without a design in B"] * bool(designs)
    parts += [f"{counted(runs, 'run')} of baselines without one of the design"] * bool(runs)
    return parts + [f"{counted(found.missing, 'run')} not done yet"] * bool(found.missing)


def _verdict(title: str, regression: str) -> str:
    return f"**Regression**: {regression}." if regression else f"**{title}**"


_WENT: Final = "where the cycles went (of a lane of each operator on average)"


def _sweep_stalls(folders: tuple[Path, Path], run: str) -> list[StallChange]:
    """The stalls of one run of both sweeps; none where the units were not kept."""
    units = [
        stepsim.sweep.open_table(folder, "units").to_table(filter=ds.field("run") == run)
        for folder in folders
    ]
    if not all(table.num_rows for table in units):
        return []
    return stall_changes(*(stalls_of(table, None) for table in units))


def _pair(before: float | None, after: float | None) -> Sequence[str]:
    return number_text(before), number_text(after), change_text(before, after)


def _stalls_markdown(changes: Sequence[StallChange], rows: int, of: str = "") -> str:
    if not changes:
        return ""
    table = markdown_table(*stall_rows(changes, rows, _HEADINGS))
    if left := max(0, len(changes) - rows):
        table += f"\n\nand {counted(left, 'smaller change')}"
    title = _WENT[0].upper() + _WENT[1:] + (f": {of}" if of else "")
    return f"<details><summary>{title}</summary>\n\n{table}\n\n</details>"
