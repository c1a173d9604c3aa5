"""``stepsim sweep pareto``: the designs of a sweep that no other design dominates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import stepsim.report
import stepsim.sweep
from stepsim.arguments import counted
from stepsim.cli.console import note, number, print_json, show_table
from stepsim.cli.options import Cost, Json, SweepFolder, Where, check_output
from stepsim.cli.sweeps.notes import note_missing
from stepsim.errors import ArgError
from stepsim.sweep import listing

if TYPE_CHECKING:
    from stepsim.sweep import Statistics

_SHOWN_LEFT_OUT = 5


def pareto(
    folder: SweepFolder,
    x: Annotated[str, typer.Option(help="Metric of the x axis.")] = "onchip_bytes",
    y: Annotated[str, typer.Option(help="Metric of the y axis.")] = "cycles",
    z: Annotated[str | None, typer.Option(help="Third metric.")] = None,
    where: Where = None,
    cost: Cost = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Plot the design points into this file.")
    ] = None,
    color: Annotated[
        str | None, typer.Option(metavar="AXIS", help="Color points of the plot by this axis.")
    ] = None,
    marker: Annotated[
        str | None,
        typer.Option(metavar="AXIS", help="Choose the markers of the plot by this axis."),
    ] = None,
    json: Json = False,
) -> None:
    """Show the Pareto-optimal design points of a sweep.

    Metrics are means over the runs of a design; p50_cycles, p95_cycles and p99_cycles are
    percentiles; cost is a weighted sum of columns; channels or any other number of the design
    is taken as it is, smaller being better.
    """
    if plot is not None:
        check_output(plot)
        stepsim.report.check_picture(plot)
    elif color or marker:
        raise ArgError("--color and --marker have an effect only with --plot FILE.png; give it too")
    weights = None if cost is None else stepsim.sweep.parse_weights(cost)
    if cost is not None and not any(name and stepsim.sweep.is_cost(name) for name in (x, y, z)):
        if z is not None:
            raise ArgError(
                f"--cost: none of {x}, {y} and {z} is cost; give --z cost, or leave --cost out"
            )
        z = stepsim.sweep.COST
    costs = stepsim.sweep.design_costs(folder, x, y, z, where=where, weights=weights)
    metrics = [x, y] if z is None else [x, y, z]
    note_missing(folder, costs.missing)
    designs = costs.designs
    absent = designs - len(costs) - len(costs.left_out) - len(costs.violating)
    if absent:
        which = (
            "succeeded and has the metrics"
            if where is None
            else "succeeded, has the metrics and satisfies the condition"
        )
        note(f"{absent} of {counted(designs, 'design point')} left out: none of their runs {which}")
    if costs.left_out:
        every = f"{costs.all_traces:,}"
        few = [
            f"{c.label}: {c.lost:,} of {every} lost"
            if where is None
            else f"{c.label}: {c.runs:,} of {every} runs succeeded and satisfy the condition"
            for c in costs.left_out
        ]
        note(
            f"{len(few)} of {counted(designs, 'design point')} left out: with them, too few traces "
            f"would be left that all points finished{listing(few, _SHOWN_LEFT_OUT)}"
        )
    if costs.violating:
        texts = [f"{label}: {', '.join(why)}" for label, why in costs.violating.items()]
        note(
            f"{len(texts)} of {designs} design points violate constraints of the search and are "
            f"left out:{listing(texts, _SHOWN_LEFT_OUT)}"
        )
    if costs.remark:
        note(costs.remark)
    if plot is not None:

        def named(option: str, axis: str | None) -> tuple[str | None, tuple[str, ...] | None]:
            if axis is None:
                return None, None
            full = stepsim.sweep.find_name(axis, costs[0].values, option)
            return full, tuple(str(c.values[full]) for c in costs)

        (color_name, colors) = named("--color", color)
        (marker_name, markers) = named("--marker", marker)
        third = None if z is None else costs.title(z)
        look = stepsim.report.DesignLook(third, colors, markers, color_name, marker_name)
        stepsim.report.draw_designs(costs, costs.title(x), costs.title(y), plot, costs.remark, look)
    if json:
        names = {"x": x, "y": y} if z is None else {"x": x, "y": y, "z": z}
        print_json({**names, **asdict(costs)})
        return
    # With a condition, a column shows how many runs satisfy it.
    if where is None:
        lost = ["lost"] if any(c.lost for c in costs) else []
    else:
        fewer = any(costs.all_traces - c.lost > c.runs for c in costs)
        lost = ["satisfy condition"] if fewer else []
    spread = [costs.traces > 1 and metric not in costs.design_values for metric in metrics]
    titles = []
    for metric, several in zip(metrics, spread, strict=True):
        titles.append(costs.title(metric))
        titles += ["p50", "p95", "p99"] if several else []
    show_table(
        [
            "design point",
            "runs",
            *lost,
            *titles,
            "Pareto-optimal",
        ],
        [
            [
                c.label,
                c.runs,
                *([c.lost if where is None else costs.all_traces - c.lost] if lost else []),
                *_judged_by((c.x, c.y, c.z), c.statistics, spread),
                "yes" if c.pareto_optimal else "",
            ]
            for c in sorted(costs, key=lambda cost: (cost.x, cost.y))
        ],
        folding="design point",
    )


def _judged_by(
    values: Sequence[float | None], statistics: Sequence[Statistics], spread: Sequence[bool]
) -> list[str]:
    """The metrics that a design is judged by, with percentiles if ``spread`` is set."""
    found = []
    for value, own, several in zip(values, statistics, spread, strict=False):
        found.append(number(value or 0.0))
        found += [number(one) for one in (own.p50, own.p95, own.p99)] if several else []
    return found
