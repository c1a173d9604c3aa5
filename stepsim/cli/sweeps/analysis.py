"""Commands that analyze the results of sweeps: ``stepsim pareto``, ``compare`` and ``query``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import stepsim.report
import stepsim.sweep
from stepsim.arguments import counted
from stepsim.cli.console import note, number, print_json, show, show_table
from stepsim.cli.options import AllowMissing, Cost, FailAbove, Json, Markdown, Where, check_output
from stepsim.cli.sweeps.comparing import Gate, compare_runs, sweeps_markdown
from stepsim.cli.sweeps.designs import show_against_baseline
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.sweep import Statistics

__all__ = ["compare", "pareto", "query"]

_SHOWN_LEFT_OUT = 5

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a sweep.")]


def pareto(
    folder: Folder,
    x: Annotated[str, typer.Option(help="Metric of the x axis.")] = "onchip_bytes",
    y: Annotated[str, typer.Option(help="Metric of the y axis.")] = "cycles",
    z: Annotated[str | None, typer.Option(help="Third metric.")] = None,
    where: Where = None,
    cost: Cost = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Plot the design points to this file.")
    ] = None,
    color: Annotated[
        str | None, typer.Option(metavar="AXIS", help="Color points of the plot by this axis.")
    ] = None,
    marker: Annotated[
        str | None, typer.Option(metavar="AXIS", help="Shape points of the plot by this axis.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the Pareto-optimal design points of a sweep.

    Metrics are means over the runs of a design; p50_cycles, p95_cycles and p99_cycles are
    percentiles, cost is a sum of weighted columns, and channels or any other number of the design
    is that number, the smaller the better.
    """
    if plot is not None:
        check_output(plot)
        stepsim.report.check_picture(plot)
    elif color or marker:
        raise ArgError("--color and --marker are for pictures; give --plot FILE.png as well")
    weights = None if cost is None else stepsim.sweep.parse_weights(cost)
    if cost is not None and not any(name and stepsim.sweep.is_cost(name) for name in (x, y, z)):
        if z is not None:
            raise ArgError(
                f"--cost: none of {x}, {y} and {z} is cost; give --z cost, or leave --cost out"
            )
        z = stepsim.sweep.COST
    costs = stepsim.sweep.design_costs(folder, x, y, z, where=where, weights=weights)
    metrics = [x, y] if z is None else [x, y, z]
    _note_missing(folder, costs.missing)
    designs = costs.designs
    absent = designs - len(costs) - len(costs.left_out) - len(costs.violating)
    if absent:
        note(
            f"{absent} of {counted(designs, 'design point')} left out: none of their runs "
            + ("succeeded and has the metrics" if where is None else "satisfies the condition")
        )
    if costs.left_out:
        every = f"{costs.all_traces:,}"
        few = [
            f"{c.label}: {c.lost:,} of {every} lost"
            if where is None
            else f"{c.label}: {c.runs:,} of {every} runs satisfy the condition"
            for c in costs.left_out
        ]
        note(
            f"{len(few)} of {counted(designs, 'design point')} left out: with them, too few traces "
            f"would be left that all points finished{stepsim.sweep.listing(few, _SHOWN_LEFT_OUT)}"
        )
    if costs.violating:
        texts = [f"{label}: {', '.join(why)}" for label, why in costs.violating.items()]
        note(
            f"{len(texts)} of {designs} design points violate constraints of the search and are "
            f"left out:{stepsim.sweep.listing(texts, _SHOWN_LEFT_OUT)}"
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
    # With a condition, the runs that satisfy it stand beside those that are compared.
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
    """What a design is judged by, with its percentiles where ``spread`` says so."""
    found = []
    for value, own, several in zip(values, statistics, spread, strict=False):
        found.append(number(value or 0.0))
        found += [number(one) for one in (own.p50, own.p95, own.p99)] if several else []
    return found


def _note_missing(folder: Path, missing: int) -> None:
    if missing:
        note(f"{folder}: {counted(missing, 'run')} not done yet; continue the sweep with --resume")


def compare(
    before: Annotated[
        Path, typer.Argument(metavar="A", help="Folder of a sweep, or file of a run.")
    ],
    after: Annotated[
        Path | None,
        typer.Argument(
            metavar="[B]", help="Folder or file of the same kind; none with --baseline."
        ),
    ] = None,
    metric: Annotated[str, typer.Option(help="Metric to compare.")] = "cycles",
    rows: Annotated[int, typer.Option(min=1, help="Number of runs to show.")] = 20,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="AXIS=VALUE,...", help="Compare designs of a sweep with those of these values."
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="Compare in groups, as of layer,step."),
    ] = None,
    where: Where = None,
    cost: Cost = None,
    json: Json = False,
    markdown: Markdown = False,
    fail_above: FailAbove = None,
    allow_missing: AllowMissing = False,
    ensemble: Annotated[
        bool,
        typer.Option(
            "--ensemble",
            help="Take differences of cycles within the spread of both ensembles for noise, also "
            "for --fail-above.",
        ),
    ] = False,
) -> None:
    """Compare two runs, or two sweeps run by run: new failures first, then regressions.

    With --baseline or --by, the designs of a sweep are compared with a baseline of the same or of
    another sweep, paired by their axes and traces, whatever constants the sweeps have.
    """
    if json and markdown:
        raise ArgError("--json and --markdown: only one can be printed; leave one out")
    if ensemble and (
        baseline is not None or by is not None or metric not in stepsim.sweep.OF_CYCLES
    ):
        raise ArgError(
            "--ensemble is about cycles of the same runs; leave out --baseline and --by, and "
            f"choose --metric among {', '.join(stepsim.sweep.OF_CYCLES)}"
        )
    if baseline is not None or by is not None:
        show_against_baseline(
            (before, after), metric, baseline, by, where=where, cost=cost, rows=rows, json=json,
            markdown=markdown, fail_above=fail_above, allow_missing=allow_missing,
        )  # fmt: skip
        return
    if where is not None or cost is not None:
        raise ArgError("--where and --cost compare designs; give --baseline or --by as well")
    if after is None:
        raise ArgError("B: missing; name what to compare with, or a --baseline within A")
    gate = Gate(metric, fail_above, allow_missing=allow_missing, ensemble=ensemble)
    if before.is_file() or after.is_file():
        compare_runs(before, after, gate, rows, json=json, markdown=markdown)
        return
    found = stepsim.sweep.compare(before, after, metric)
    known = [change.noise for change in found.changes if change.noise is not None]
    if ensemble and not known:
        raise ArgError(
            "--ensemble: no run of A and B has one in both; run the sweeps with the key ensemble"
        )
    _note_missing(before, found.missing_before)
    _note_missing(after, found.missing_after)
    if found.remark:
        note(found.remark)
    regression = gate.of_sweeps(found)
    if json:
        print_json({**asdict(found), "remark": found.remark, "regression": regression or None})
    elif markdown:
        show(sweeps_markdown(found, (before, after), regression, rows))
    if json or markdown:
        gate.close(regression)
        return
    listed = [["", number(f.before), f.error, f.label] for f in found.new_failures] + [
        [
            "" if change.ratio is None else f"{change.ratio:.4f}",
            number(change.before),
            number(change.after),
            f"{change.label} (within noise)"
            if change.noise and change.before != change.after
            else change.label,
        ]
        for change in found.changes
    ]
    larger = sum(change.after > change.before for change in found.changes)
    smaller = sum(change.after < change.before for change in found.changes)
    mean = "" if found.mean_ratio is None else f", geometric mean {found.mean_ratio:.4f}"
    order = "largest changes first" if found.better is None else f"{found.better} is better"
    ends = {
        "newly failing": len(found.new_failures),
        "newly succeeding": found.recovered,
        "failing in both": found.failing_in_both,
    }
    show(
        f"{found.title} ({order}): {counted(len(found.changes), 'run')} in both, {larger} larger, "
        f"{smaller} smaller, {len(found.changes) - larger - smaller} equal{mean}; "
        + "".join(f"{count} {name}, " for name, count in ends.items() if count)
        + f"{found.only_before} only in A, {found.only_after} only in B\n",
    )
    show_table(["B / A", "A", "B", "run"], listed[:rows], folding="run")
    if len(listed) > rows:
        note(f"{len(listed) - rows:,} more; --rows N shows N of them, --json all")
    if known:
        noisy = f"{sum(known):,} of {counted(len(known), 'difference')}"
        note(f"{noisy} within the spread of the ensembles (p5 to p95 overlap), that is noise")
    if found.new_failures:
        note(f'to see why they fail: stepsim query {after} "SELECT design, message FROM failures"')
    gate.close(regression)


def query(
    folder: Folder,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="SELECT ... FROM runs ...")],
    json: Json = False,
) -> None:
    """Query the tables runs, failures and units of a sweep with DuckDB."""
    found = stepsim.sweep.query(folder, sql)
    _note_missing(folder, stepsim.sweep.count_missing(folder))
    if json:
        print_json({"rows": [_plain(row) for row in found.to_pylist()]})
        return
    columns = [column.to_pylist() for column in found.columns]
    show_table(found.column_names, list(zip(*columns, strict=True)))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    simple = (str, int, float, bool, type(None))
    return {k: v if isinstance(v, simple) else str(v) for k, v in row.items()}
