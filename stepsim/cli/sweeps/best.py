"""``stepsim sweep best``: the best design of a sweep, for all runs and in groups of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

import stepsim.sweep
from stepsim.arguments import counted
from stepsim.cli.console import note, number, print_json, show, show_table
from stepsim.cli.options import Cost, Json, SweepFolder, Where
from stepsim.cli.sweeps.notes import note_missing
from stepsim.errors import ArgError


def best(
    folder: SweepFolder,
    metric: Annotated[
        str, typer.Option(help="Metric to judge by: a mean, or a percentile such as p95_cycles.")
    ] = "cycles",
    per: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Also show the best design of each group, for example layer,step.",
        ),
    ] = None,
    where: Where = None,
    cost: Cost = None,
    json: Json = False,
) -> None:
    """Show the best design of a sweep for all runs, and per layer or any other columns."""
    columns = column_names(per)
    check_cost_used(metric, cost)
    weights = None if cost is None else stepsim.sweep.parse_weights(cost)
    found = stepsim.sweep.best(folder, metric, per=columns, where=where, weights=weights)
    note_missing(folder, stepsim.sweep.count_missing(folder))
    if found.left_out:
        times = counted(found.left_out, "time")
        note(f"{times} a design was left out of a group, because it lacks runs of the group")
    if json:
        print_json(asdict(found) | {"objective": found.objective._asdict()})
        return
    whole = found.overall
    second = ""
    if whole.runner_up is not None:
        second = f"; next is {whole.runner_up}"
        if whole.loss is not None:
            second += f", {_share(whole.loss)} worse"
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


def check_cost_used(metric: str, cost: str | None) -> None:
    """Refuse weights for a metric that does not use them."""
    if cost is not None and stepsim.sweep.parse_objective(metric).metric != stepsim.sweep.COST:
        raise ArgError(
            f"--cost: the metric is {metric}, which does not use weights; give --metric cost, or "
            "leave --cost out"
        )


def column_names(text: str | None) -> list[str]:
    """``layer,step`` as names; empty if the option is not given."""
    return [] if text is None else [one.strip() for one in text.split(",")]


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.2%}"
