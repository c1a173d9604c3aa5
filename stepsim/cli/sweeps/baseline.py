"""``stepsim sweep compare --baseline``: designs of sweeps against a baseline."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import stepsim.sweep
from stepsim.arguments import counted
from stepsim.cli.console import note, number, print_json, show, show_table
from stepsim.cli.gate import Gate, absent_designs
from stepsim.cli.sweeps.best import check_cost_used, column_names
from stepsim.cli.sweeps.markdown import baseline_markdown
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.sweep import AgainstBaseline, BaselineComparison

_SHOWN = 5


def show_against_baseline(
    folders: tuple[Path, Path | None],
    metric: str,
    baseline: str | None,
    by: str | None,
    *,
    where: str | None,
    cost: str | None,
    rows: int,
    json: bool,
    markdown: bool,
    fail_above: str | None,
    allow_missing: bool,
) -> None:
    """Compare designs with a baseline, of the same sweep or of another one.

    Raises
    ------
    ArgError, SweepError
        As in ``stepsim.sweep.compare_baseline`` and `Gate`.
    typer.Exit
        There is a regression.
    """
    before, after = folders
    if after is None and baseline is None:
        raise ArgError("--by: within one sweep, --baseline is needed too, as in --baseline tile=32")
    check_cost_used(metric, cost)
    gate = Gate(metric, fail_above, grouped=True, allow_missing=allow_missing)
    found = stepsim.sweep.compare_baseline(
        before,
        after,
        metric,
        baseline=None if baseline is None else stepsim.sweep.parse_assignments(baseline),
        by=column_names(by),
        where=where,
        weights=None if cost is None else stepsim.sweep.parse_weights(cost),
    )
    if found.differing:
        note(f"constants that differ between the sweeps:{stepsim.sweep.listing(found.differing)}")
    if found.unpaired:
        note(
            f"{counted(len(found.unpaired), 'design')} without a baseline of the same values on "
            f"the other axes:{stepsim.sweep.listing(found.unpaired, _SHOWN)}"
        )
    if found.newly_failing:
        texts = [f"{label}: {error}" for label, error in found.newly_failing]
        note(
            f"{counted(len(texts), 'run')} failed although the baseline did not:"
            f"{stepsim.sweep.listing(texts, _SHOWN)}"
        )
    if missing := absent_designs(found):
        note(f"not compared: {', '.join(missing)}{stepsim.sweep.listing(found.lost, _SHOWN)}")
    regression = gate.of_groups(found)
    if json:
        objective = found.objective._asdict()
        print_json(asdict(found) | {"objective": objective, "regression": regression or None})
    elif markdown:
        show(baseline_markdown(found, regression, rows))
    else:
        _show_baseline(found, column_names(by), rows)
    gate.close(regression)


def _show_baseline(found: BaselineComparison, columns: list[str], rows: int) -> None:
    clear = any(row.is_clear is not None for row in found.rows)
    show_table(
        [*columns, "runs", "ratio", *(["95 % interval"] if clear else []), "least", "worst",
         f"mean {found.metric}", "p50", "p95", "p99",
         f"baseline {found.objective.statistic}", "design", "baseline"],
        [
            [
                *row.group.values(), row.runs, _ratio(row.ratio),
                *([_interval(row)] if clear else []),
                *map(_ratio, (row.least, row.worst)),
                *map(number, row.after), number(found.judged(row)[0]), row.label, row.baseline,
            ]
            for row in found.rows[:rows]
        ],
        folding="design",
    )  # fmt: skip
    if len(found.rows) > rows:
        note(f"{len(found.rows) - rows:,} more; --rows N shows N rows, --json shows all")


def _interval(row: AgainstBaseline) -> str:
    """The interval, and whether the difference may be chance."""
    if row.low is None or row.high is None:
        return ""
    return f"{row.low:.4f} to {row.high:.4f}{'' if row.is_clear else ', may be chance'}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
