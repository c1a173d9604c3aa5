"""Commands that analyze the results of sweeps: ``stepsim pareto``, ``compare`` and ``query``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from stepsim.cli.console import note, print_json, show, show_table
from stepsim.cli.options import Json, check_output

__all__ = ["compare", "pareto", "query"]

_SHOWN_LEFT_OUT = 5

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a sweep.")]


def pareto(
    folder: Folder,
    x: Annotated[
        str, typer.Option(help="Metric of the x axis; smaller is better.")
    ] = "onchip_bytes",
    y: Annotated[str, typer.Option(help="Metric of the y axis; smaller is better.")] = "cycles",
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Plot the design points to this file.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the Pareto-optimal design points of a sweep."""
    from dataclasses import asdict

    from stepsim.sweep import design_costs
    from stepsim.sweep.problems import listing

    if plot is not None:
        from stepsim.report.saving import check_picture

        check_output(plot)
        check_picture(plot)
    costs = design_costs(folder, x, y)
    _note_missing(folder, costs.missing)
    designs = costs.designs
    absent = designs - len(costs) - len(costs.left_out)
    if absent:
        note(
            f"{absent} of {designs} design points are left out: none of their runs succeeded and "
            "has both metrics"
        )
    if costs.left_out:
        few = [f"{c.label}: {c.lost:,} of {costs.all_traces:,} lost" for c in costs.left_out]
        note(
            f"{len(few)} of {designs} design points are left out: with them, too few traces would "
            f"be left that all points finished{listing(few, _SHOWN_LEFT_OUT)}"
        )
    if costs.remark:
        note(costs.remark)
    if plot is not None:
        from stepsim.report import draw_designs

        labels = f"mean {costs.title(x)}", f"mean {costs.title(y)}"
        draw_designs(costs, *labels, plot, costs.remark)
    if json:
        print_json({"x": x, "y": y, **asdict(costs)})
        return
    lost = any(cost.lost for cost in costs)
    show_table(
        [
            "design point",
            "runs",
            *(["lost"] if lost else []),
            f"mean {costs.title(x)}",
            f"mean {costs.title(y)}",
            "Pareto-optimal",
        ],
        [
            [
                c.label,
                c.runs,
                *([c.lost] if lost else []),
                _number(c.x),
                _number(c.y),
                "yes" if c.pareto_optimal else "",
            ]
            for c in sorted(costs, key=lambda cost: (cost.x, cost.y))
        ],
        folding="design point",
    )


def _note_missing(folder: Path, missing: int) -> None:
    if missing:
        note(f"{folder}: {missing:,} runs are not done yet; continue the sweep with --resume")


def compare(
    before: Annotated[Path, typer.Argument(metavar="A", help="Folder of a sweep.")],
    after: Annotated[
        Path, typer.Argument(metavar="B", help="Folder of the sweep to compare it with.")
    ],
    metric: Annotated[str, typer.Option(help="Metric to compare.")] = "cycles",
    rows: Annotated[int, typer.Option(min=1, help="Number of runs to show.")] = 20,
    json: Json = False,
) -> None:
    """Compare two sweeps run by run: new failures first, then regressions."""
    from dataclasses import asdict

    from stepsim.sweep import compare as compare_sweeps

    found = compare_sweeps(before, after, metric)
    _note_missing(before, found.missing_before)
    _note_missing(after, found.missing_after)
    if found.remark:
        note(found.remark)
    if json:
        print_json({**asdict(found), "remark": found.remark})
        return
    listed = [["", _number(f.before), f.error, f.label] for f in found.new_failures] + [
        [
            "" if change.ratio is None else f"{change.ratio:.4f}",
            _number(change.before),
            _number(change.after),
            change.label,
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
        f"{found.title} ({order}): {len(found.changes)} runs in both, {larger} larger, "
        f"{smaller} smaller, {len(found.changes) - larger - smaller} equal{mean}; "
        + "".join(f"{count} {name}, " for name, count in ends.items() if count)
        + f"{found.only_before} only in A, {found.only_after} only in B\n",
    )
    show_table(["B / A", "A", "B", "run"], listed[:rows], folding="run")
    if len(listed) > rows:
        note(f"{len(listed) - rows:,} more; --rows N shows N of them, --json all")
    if found.new_failures:
        note(f'to see why they fail: stepsim query {after} "SELECT design, message FROM failures"')


def query(
    folder: Folder,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="SELECT ... FROM runs ...")],
    json: Json = False,
) -> None:
    """Query the tables runs, failures and units of a sweep with DuckDB."""
    from stepsim.sweep import query as ask
    from stepsim.sweep.analysis import count_missing

    found = ask(folder, sql)
    _note_missing(folder, count_missing(folder))
    if json:
        print_json({"rows": [_plain(row) for row in found.to_pylist()]})
        return
    columns = [column.to_pylist() for column in found.columns]
    show_table(found.column_names, list(zip(*columns, strict=True)))


def _number(value: float) -> str:
    """To the unit where it is large, to four digits where it is not."""
    return f"{value:,.0f}" if abs(value) >= 1000 or value.is_integer() else f"{value:.4g}"


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    simple = (str, int, float, bool, type(None))
    return {k: v if isinstance(v, simple) else str(v) for k, v in row.items()}
