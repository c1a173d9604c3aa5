"""``stepsim reproduce``: figures of the STeP paper, figures of users, and the validation pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import stepsim.report
import stepsim.reproduce
from stepsim.cli.console import note, show
from stepsim.cli.exit_codes import RUN_FAILED
from stepsim.cli.heartbeat import Heartbeat
from stepsim.deferred import deferred
from stepsim.errors import ArgError
from stepsim.processes import usable_cpus

if TYPE_CHECKING:
    import rich.table
    import rich.text

    from stepsim.processes import Pool
    from stepsim.reproduce import Reproduction
else:
    rich = deferred("rich")

_NONE = "-"
Rows = Sequence[Mapping[str, Any]]

_FETCH_HELP = "Use the recorded traces and fetch those that are missing; see `stepsim data`."


def reproduce(
    figures: Annotated[
        list[str],
        typer.Argument(
            metavar="FIG...|PAGE",
            help="Numbers of figures, all, or FILE.py with your own figures; or one validation "
            "page: validation (STeP), streamtensor-validation, serving-validation or "
            "noc-validation.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to write to.")],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of recorded traces; without it and --fetch, traces are synthetic.",
        ),
    ] = None,
    fetch: Annotated[bool, typer.Option("--fetch", help=_FETCH_HELP)] = False,
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of worker processes. (default: one per core)"),
    ] = None,
    closure_slack: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=2,
            help="Closure slack of the machine in cycles; 0 is canonical.",
        ),
    ] = 0,
) -> None:
    """Simulate figures of the STeP paper or your own, then compare, draw and report them.

    Figures of the paper are compared with the published values. The page validation simulates every
    recorded point with several closure slacks; streamtensor-validation needs no traces, and
    serving-validation and noc-validation replay the folders serving and noc of --data.
    """
    if page := next((one for one in figures if one in _PAGES), None):
        if len(figures) > 1:
            raise ArgError(f"{page}: expected alone, found with other names; leave them out")
        if closure_slack:
            raise ArgError(f"--closure-slack has no effect on {page}; leave it out")
        _PAGES[page](out / f"{page}.md", data, fetch, jobs)
        return

    with Heartbeat() as heartbeat:
        heartbeat.phase("loading")
        # Everything that the processes need is loaded before they are forked.
        stepsim.report.require_matplotlib()
    # No heartbeat thread may run during the fork.
    with _pool(jobs) as pool, Heartbeat() as heartbeat:
        result = stepsim.reproduce.reproduce(
            figures, out, data=data, fetch=fetch, pool=pool, closure_slack=closure_slack,
            notice=heartbeat.phase,
        )  # fmt: skip
    _show(result)
    note(f"wrote {out / 'report.md'}, with tables and pictures in the same folder")
    if result.problems:
        for text in result.problems:
            note(f"run failed: {text}")
        raise typer.Exit(RUN_FAILED)


def _write_validation(page: Path, data: Path | None, fetch: bool, jobs: int | None) -> None:
    with Heartbeat() as heartbeat:
        heartbeat.phase("loading")
    with _pool(jobs) as pool, Heartbeat() as heartbeat:
        stepsim.reproduce.make_folder(page.parent)
        stepsim.reproduce.write_validation(
            page, data, fetch=fetch, pool=pool, notice=heartbeat.phase
        )
    note(f"wrote {page}")


def _write_streamtensor(page: Path, data: Path | None, fetch: bool, jobs: int | None) -> None:

    given = {"--data": data is not None, "--fetch": fetch, "--jobs": jobs is not None}
    if named := [name for name, is_given in given.items() if is_given]:
        raise ArgError(f"{', '.join(named)}: no effect on {page.stem}; leave it out")
    stepsim.reproduce.make_folder(page.parent)
    with Heartbeat() as heartbeat:
        heartbeat.phase("simulating")
        stepsim.reproduce.write_streamtensor_validation(page)
    note(f"wrote {page}")


def _write_serving(page: Path, data: Path | None, fetch: bool, jobs: int | None) -> None:
    given = {"--fetch": fetch, "--jobs": jobs is not None}
    if named := [name for name, is_given in given.items() if is_given]:
        raise ArgError(f"{', '.join(named)}: no effect on {page.stem}; leave it out")
    if data is None:
        raise ArgError(
            f"{page.stem}: recorded runs are needed; give the folder of serving/runs and traces "
            "with --data"
        )
    stepsim.reproduce.make_folder(page.parent)
    with Heartbeat() as heartbeat:
        heartbeat.phase("simulating")
        stepsim.reproduce.write_serving_validation(page, data)
    note(f"wrote {page}")


def _write_noc(page: Path, data: Path | None, fetch: bool, jobs: int | None) -> None:
    given = {"--fetch": fetch, "--jobs": jobs is not None}
    if named := [name for name, is_given in given.items() if is_given]:
        raise ArgError(f"{', '.join(named)}: no effect on {page.stem}; leave it out")
    if data is None:
        raise ArgError(
            f"{page.stem}: recorded cases are needed; give the folder of noc/cases with --data"
        )
    stepsim.reproduce.make_folder(page.parent)
    with Heartbeat() as heartbeat:
        heartbeat.phase("simulating")
        stepsim.reproduce.write_noc_validation(page, data / "noc" / "cases")
    note(f"wrote {page}")


_PAGES: Final = {
    "validation": _write_validation,
    "streamtensor-validation": _write_streamtensor,
    "serving-validation": _write_serving,
    "noc-validation": _write_noc,
}
"""The validation pages; each is a file of its name in the folder."""


def _pool(jobs: int | None) -> AbstractContextManager[Pool]:
    count = usable_cpus() if jobs is None else jobs
    return stepsim.reproduce.workers(count, fork=True)


def _show(result: Reproduction) -> None:
    if result.traces:
        show(f"{result.traces}\n")
    if result.compared:
        show("= equal to the published value, ! different\n")
    for figure, rows in result.figures.items():
        seconds, counting = result.seconds[figure], stepsim.reproduce.countings(rows)
        show(f"Figure {figure}: {seconds:.2f} s of runs, counting {counting}")
        show(_points_table(figure, rows, result))
        show(*result.remarks[figure])
        show("")
    if result.headlines:
        show(_headlines_table(result))
    show(
        f"\n{result.runs} runs in {result.elapsed:.1f} s with {result.jobs} processes",
        _times_table(result),
    )


def _points_table(figure: str, rows: Rows, result: Reproduction) -> rich.table.Table:
    """Every point of a figure, without columns that have no values."""
    columns: dict[str, list[str]] = {
        "cycles": [_whole(row.get("cycles")) for row in rows],
        "published": [_whole(row.get("published_cycles")) for row in rows],
        "difference": [
            stepsim.reproduce.signed_percent(row.get("cycles_relative")) for row in rows
        ],
        "canonical": [_canonical(row) for row in rows],
        "HDL": [_whole(row.get("hdl_cycles")) for row in rows],
    }
    for name in result.chosen[figure].figure.columns:
        heading, cell = _COLUMNS.get(name, (name, _plain))
        columns[heading] = [cell(row, name) for row in rows]
    columns["ratio"] = [_ratio(row.get("ratio")) for row in rows]
    columns["published ratio"] = [_ratio(row.get("published_ratio")) for row in rows]
    known = {name: cells for name, cells in columns.items() if set(cells) != {_NONE}}
    table = rich.table.Table(box=None, pad_edge=False)
    table.add_column("point", no_wrap=True)
    for name in known:
        table.add_column(name, justify="right", no_wrap=True)
    for row, *cells in zip(rows, *known.values(), strict=True):
        style = "" if row.get("status") in (None, "ok") else "bold red"
        table.add_row(rich.text.Text(row["point_id"], style), *cells)
    return table


def _headlines_table(result: Reproduction) -> rich.table.Table:
    table = rich.table.Table(title="Headlines", title_justify="left", box=None, pad_edge=False)
    table.add_column("figure")
    table.add_column("headline")
    table.add_column("unit")
    headings = ("ours", "printed", "published data", "deviation")
    for heading in headings if result.compared else headings[:1]:
        table.add_column(heading, justify="right", max_width=16)
    for row in result.headlines:
        cells = stepsim.reproduce.headline_cells(row)
        shown = cells if result.compared else cells[:1]
        table.add_row(row["figure"], rich.text.Text(row["claim"]), row["unit"], *shown)
    return table


def _times_table(result: Reproduction) -> rich.table.Table:
    table = rich.table.Table(box=None, pad_edge=False)
    table.add_column("figure")
    for figure in result.figures:
        table.add_column(figure, justify="right")
    table.add_row("seconds of runs", *(f"{s:.2f}" for s in result.seconds.values()))
    return table


def _whole(value: int | None) -> str:
    return _NONE if value is None else f"{value:,}"


def _canonical(row: Mapping[str, Any]) -> str:
    canonical = row.get("canonical_cycles")
    return "equal" if canonical is not None and canonical == row["cycles"] else _whole(canonical)


def _marked(row: Mapping[str, Any], name: str, scale: float, digits: int) -> str:
    """A number, and whether it equals the published one."""
    value, published = row.get(name), row.get(f"published_{name}")
    if value is None:
        return _NONE
    mark = "" if published is None else " =" if published == value else " !"
    return f"{value / scale:,.{digits}f}{mark}"


def _percent(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return _NONE if value is None else f"{100 * value:.2f} %"


def _plain(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return _NONE if value is None else str(value)


def _ratio(value: float | None) -> str:
    return _NONE if value is None else f"{value:.4f}"


_COLUMNS: Final[dict[str, tuple[str, Callable[[Mapping[str, Any], str], str]]]] = {
    "offchip_bytes": ("off-chip MB", partial(_marked, scale=1e6, digits=2)),
    "onchip_bytes": ("on-chip MB", partial(_marked, scale=1e6, digits=2)),
    "compute_utilization": ("compute", _percent),
    "bandwidth_utilization": ("bandwidth", _percent),
    "allocated_flops_per_cycle": ("kFLOPs/cycle", partial(_marked, scale=1e3, digits=0)),
}
"""Columns that are shown with another heading or format."""
