"""``stepsim sweep`` and what looks at its results: ``pareto``, ``compare``, ``query``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stepsim.cli.console import note, print_json, show
from stepsim.cli.options import Json, check_output

if TYPE_CHECKING:
    from stepsim.sweep import DesignCost, Plan, SweepProgress, SweepSummary

__all__ = ["compare", "pareto", "query", "sweep"]

_SECONDS_BETWEEN_NOTES = 2.0
_SHOWN_FAILURES = 5
_INTERRUPTED = 130

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a sweep.")]


def sweep(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.yaml", help="What to run.")],
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the results.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 1,
    backend: Annotated[
        Literal["local", "dask", "ray"], typer.Option(help="Where the runs are computed.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="Of a running dask scheduler or ray cluster.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue in DIR.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check, count and estimate only.")
    ] = False,
    json: Json = False,
) -> None:
    """Run every design point of a specification on every trace."""
    from stepsim.errors import ArgError
    from stepsim.sweep import estimate_seconds, plan_sweep, run_sweep

    if out is None and not dry_run:
        raise ArgError("--out: missing; name a folder for the results, or use --dry-run")
    plan = plan_sweep(spec)
    estimate = estimate_seconds(plan, jobs)
    _note_plan(plan, estimate, jobs)
    if dry_run or out is None:
        if json:
            print_json(_plan_record(plan, estimate))
        return
    try:
        summary = run_sweep(
            plan, out, jobs=jobs, backend=backend, address=address, resume=resume,
            progress=_Notes(),
        )  # fmt: skip
    except KeyboardInterrupt:
        note(f"interrupted; what was finished is kept, continue with --resume --out {out}")
        raise typer.Exit(_INTERRUPTED) from None
    if json:
        print_json({**_plan_record(plan, estimate), **summary.to_dict(), "out": str(out)})
    else:
        _show_summary(summary, out)
    if summary.failures or not summary.complete:
        from stepsim.cli.main import RUN_FAILED

        raise typer.Exit(RUN_FAILED)


def pareto(
    folder: Folder,
    x: Annotated[str, typer.Option(help="Metric to be small.")] = "onchip_bytes",
    y: Annotated[str, typer.Option(help="Other metric to be small.")] = "cycles",
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw the design points.")
    ] = None,
    json: Json = False,
) -> None:
    """Which design points of a sweep are worth having, by the means of two metrics."""
    from dataclasses import asdict

    from stepsim.sweep import design_costs

    if plot is not None:
        check_output(plot)
    costs = design_costs(folder, x, y)
    if plot is not None:
        from stepsim.sweep.plot import plot_designs

        plot_designs(costs, x, y, plot)
    if json:
        print_json({"x": x, "y": y, "points": [asdict(cost) for cost in costs]})
        return
    rows = [_cost_row(cost) for cost in sorted(costs, key=lambda cost: (cost.x, cost.y))]
    show(_table(["design point", "runs", f"mean {x}", f"mean {y}", "frontier"], rows))


def compare(
    before: Annotated[Path, typer.Argument(metavar="A", help="Folder of a sweep.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="Folder of another one.")],
    metric: Annotated[str, typer.Option(help="What to compare.")] = "cycles",
    rows: Annotated[int, typer.Option(min=1, help="Runs to show.")] = 20,
    json: Json = False,
) -> None:
    """Ratios B / A run by run, largest first."""
    from dataclasses import asdict

    from stepsim.sweep import compare as compare_sweeps

    found = compare_sweeps(before, after, metric)
    if json:
        print_json(asdict(found))
        return
    shown = [
        [
            "" if change.ratio is None else f"{change.ratio:.4f}",
            f"{change.before:,.6g}",
            f"{change.after:,.6g}",
            change.label,
        ]
        for change in found.changes[:rows]
    ]
    ratios = [change.ratio for change in found.changes if change.ratio is not None]
    larger, smaller = sum(r > 1 for r in ratios), sum(r < 1 for r in ratios)
    mean = "" if found.mean_ratio is None else f", geometric mean {found.mean_ratio:.4f}"
    show(
        f"{metric}: {len(found.changes)} runs in both, {larger} larger, {smaller} smaller, "
        f"{len(found.changes) - larger - smaller} equal{mean}; "
        f"{found.only_before} only in A, {found.only_after} only in B\n",
        _table(["B / A", "A", "B", "run"], shown),
    )


def query(
    folder: Folder,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="SELECT ... FROM runs ...")],
    json: Json = False,
) -> None:
    """Ask DuckDB about the tables runs, failures and units of a sweep."""
    from stepsim.sweep import query as ask

    answer = ask(folder, sql)
    if json:
        print_json({"rows": [_plain(row) for row in answer.to_pylist()]})
        return
    rows = [["" if v is None else str(v) for v in row.values()] for row in answer.to_pylist()]
    show(_table(answer.column_names, rows))


class _Notes:
    """Progress on stderr, every few seconds."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, progress: SweepProgress) -> None:
        now = time.monotonic()
        if progress.done < progress.total and now - self._last < _SECONDS_BETWEEN_NOTES:
            return
        self._last = now
        left = progress.eta_seconds
        rest = "" if left is None else f", about {left:.0f} s left"
        note(f"{progress.done:,} of {progress.total:,} runs, {progress.seconds:.0f} s{rest}")


def _note_plan(plan: Plan, estimate: float, jobs: int) -> None:
    from stepsim.sweep.problems import listing

    bad = plan.unreadable
    note(
        f"{plan.runs:,} runs: {len(plan.points):,} design points x {len(plan.traces):,} traces"
        + (f" ({len(bad):,} of them cannot be used)" if bad else "")
        + f"; about {estimate:.0f} s with {jobs} worker{'s' if jobs > 1 else ''}"
        + listing(bad, _SHOWN_FAILURES)
    )


def _plan_record(plan: Plan, estimate: float) -> dict[str, Any]:
    return {
        "name": plan.spec.name,
        "runs": plan.runs,
        "design_points": [point.label for point in plan.points],
        "traces": len(plan.traces),
        "estimated_seconds": estimate,
    }


def _show_summary(summary: SweepSummary, out: Path) -> None:
    from stepsim.sweep.problems import listing

    kinds = "".join(f"\n  {count:,} x {error}" for error, count in summary.errors.items())
    lost = list(summary.unfinished.items())
    unfinished = "".join(f"\n  chunk {key}: {why}" for key, why in lost[:_SHOWN_FAILURES])
    rate = summary.computed / summary.seconds if summary.seconds else 0.0
    show(
        f"{summary.simulated:,} of {summary.runs:,} runs simulated, {summary.failures:,} failures"
        + (f" (table failures):{kinds}" if kinds else ""),
        f"{summary.computed:,} runs in {summary.seconds:.1f} s now ({rate:.1f} per second)",
        f"results in {out}",
    )
    if summary.damaged:
        note(
            f"{len(summary.damaged):,} chunks of an earlier start were damaged and ran again; "
            f"look after the disk:{listing(summary.damaged, _SHOWN_FAILURES)}"
        )
    if lost:
        note(f"{len(lost)} chunks lost their worker again and again; try --resume:{unfinished}")


def _cost_row(cost: DesignCost) -> list[str]:
    mark = "yes" if cost.on_frontier else ""
    return [cost.label, str(cost.runs), f"{cost.x:,.6g}", f"{cost.y:,.6g}", mark]


def _table(names: list[str], rows: list[list[str]]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    simple = (str, int, float, bool, type(None))
    return {k: v if isinstance(v, simple) else str(v) for k, v in row.items()}
