"""``stepsim sweep plot``: metrics of a sweep over one of its axes, as curves."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import stepsim.report
import stepsim.sweep
from stepsim.arguments import counted
from stepsim.cli.console import note, number, print_json, show_table
from stepsim.cli.options import Json, SweepFolder, Where, check_output
from stepsim.cli.sweeps.best import column_names
from stepsim.cli.sweeps.notes import note_missing


def plot(
    folder: SweepFolder,
    x: Annotated[str, typer.Option(metavar="AXIS", help="Axis of numbers, such as rate.")],
    y: Annotated[
        str,
        typer.Option(
            metavar="METRICS", help="Metrics, a panel for each, such as goodput,tpot_p99_ms."
        ),
    ],
    by: Annotated[
        str | None,
        typer.Option(
            metavar="AXES",
            help="Axes that distinguish curves, such as tile. (default: all other axes)",
        ),
    ] = None,
    where: Where = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw the curves into this file.")
    ] = None,
    title: Annotated[str, typer.Option(help="Text above the picture.")] = "",
    json: Json = False,
) -> None:
    """Show metrics of a sweep over one axis, with a curve for each value of the others.

    Points are means over the runs of a design, with 95 % confidence intervals over its replicates.
    """
    if out is not None:
        check_output(out)
        stepsim.report.check_picture(out)
    metrics = column_names(y)
    found = stepsim.sweep.curves(
        folder, x, metrics, by=None if by is None else column_names(by), where=where
    )
    note_missing(folder, stepsim.sweep.count_missing(folder))
    if found.left_out:
        note(f"{counted(found.left_out, 'run')} left out, of which a metric is not known")
    for remark in found.remarks:
        note(remark)
    if out is not None:
        shown = [
            stepsim.report.CurvePanel(
                found.title(metric),
                [
                    stepsim.report.DrawnCurve(
                        one.label,
                        [point.x for point in one.points],
                        [point.y for point in one.points],
                        [point.low for point in one.points],
                        [point.high for point in one.points],
                    )
                    for one in lines
                ],
            )
            for metric, lines in found.metrics.items()
        ]
        label = f"{found.x} [{found.x_unit}]" if found.x_unit else found.x
        stepsim.report.draw_curves(shown, label, out, title)
    if json:
        print_json(asdict(found))
        return
    rows: dict[tuple[str, ...], dict[str, stepsim.sweep.CurvePoint]] = {}
    for metric, lines in found.metrics.items():
        for one in lines:
            for point in one.points:
                key = (*map(str, one.values.values()), number(point.x))
                rows.setdefault(key, {})[metric] = point
    show_table(
        [*found.by, found.x, "runs", *map(found.title, found.metrics)],
        [
            [
                *key,
                max(point.runs for point in row.values()),
                *(_text(row.get(metric)) for metric in found.metrics),
            ]
            for key, row in rows.items()
        ],
    )


def _text(point: stepsim.sweep.CurvePoint | None) -> str:
    """The value with half the width of its interval."""
    if point is None:
        return ""
    if point.low is None or point.high is None:
        return number(point.y)
    return f"{number(point.y)} ± {number((point.high - point.low) / 2)}"
