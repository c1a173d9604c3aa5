"""``stepsim best`` and ``stepsim compare --baseline``: designs of sweeps against each other."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import stepsim.sweep
from stepsim.arguments import counted
from stepsim.cli.console import note, number, print_json, show, show_table
from stepsim.cli.options import Cost, Json, Where
from stepsim.cli.sweeps.comparing import Gate, absent_designs, baseline_markdown
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.sweep import BaselineComparison

__all__ = ["best", "show_against_baseline"]

_SHOWN = 5


def best(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a sweep.")],
    metric: Annotated[
        str, typer.Option(help="Metric to judge by: a mean, or a percentile as p95_cycles.")
    ] = "cycles",
    per: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="One design for each, as layer,step.")
    ] = None,
    where: Where = None,
    cost: Cost = None,
    json: Json = False,
) -> None:
    """Show the best design of a sweep: per layer or any other columns, and for all runs."""
    columns = _names(per)
    _check_cost_used(metric, cost)
    weights = None if cost is None else stepsim.sweep.parse_weights(cost)
    found = stepsim.sweep.best(folder, metric, per=columns, where=where, weights=weights)
    if missing := stepsim.sweep.count_missing(folder):
        note(f"{folder}: {counted(missing, 'run')} not done yet; continue the sweep with --resume")
    if found.left_out:
        times = counted(found.left_out, "time")
        note(f"{times} a design was not compared, because it lost runs of a group")
    if json:
        print_json(asdict(found) | {"objective": found.objective._asdict()})
        return
    whole = found.overall
    second = ""
    if whole.runner_up is not None:
        second = f"; next is {whole.runner_up}, {_share(whole.loss)} worse"
    over = "" if whole.runs == 1 else f"for all {whole.runs:,} runs "
    show(f"best {over}by {found.objective.title}: {whole.label} ({number(whole.value)}){second}\n")
    if not found.groups:
        return
    show_table(
        [*columns, "runs", "best design", found.objective.title, "p50", "p95", "p99",
         "runner-up", "loses", "best for all loses"],
        [
            [
                *group.group.values(), group.runs, group.label, number(group.value),
                *(number(one) for one in group.statistics[1:]),
                group.runner_up or "", _share(group.loss), _share(group.overall_loss),
            ]
            for group in found.groups
        ],
        folding="best design",
    )  # fmt: skip


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
        As of ``stepsim.sweep.compare_baseline`` and of `Gate`.
    typer.Exit
        There is a regression.
    """
    before, after = folders
    if after is None and baseline is None:
        raise ArgError("--by within one sweep needs a --baseline, as in --baseline tile=32")
    _check_cost_used(metric, cost)
    gate = Gate(metric, fail_above, grouped=True, allow_missing=allow_missing)
    found = stepsim.sweep.compare_baseline(
        before,
        after,
        metric,
        baseline=None if baseline is None else stepsim.sweep.parse_assignments(baseline),
        by=_names(by),
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
        _show_baseline(found, _names(by), rows)
    gate.close(regression)


def _show_baseline(found: BaselineComparison, columns: list[str], rows: int) -> None:
    show_table(
        [*columns, "runs", "ratio", "least", "worst", f"mean {found.metric}", "p50", "p95", "p99",
         f"baseline {found.objective.statistic}", "design", "baseline"],
        [
            [
                *row.group.values(), row.runs, *map(_ratio, (row.ratio, row.least, row.worst)),
                *map(number, row.after), number(found.judged(row)[0]), row.label, row.baseline,
            ]
            for row in found.rows[:rows]
        ],
        folding="design",
    )  # fmt: skip
    if len(found.rows) > rows:
        note(f"{len(found.rows) - rows:,} more; --rows N shows N of them, --json all")


def _check_cost_used(metric: str, cost: str | None) -> None:
    if cost is not None and stepsim.sweep.parse_objective(metric).metric != stepsim.sweep.COST:
        raise ArgError(
            f"--cost: the metric is {metric}, which has no use for weights; give --metric cost, or "
            "leave --cost out"
        )


def _names(text: str | None) -> list[str]:
    return [] if text is None else [one.strip() for one in text.split(",")]


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.2%}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
