"""``stepsim report``: the page of a run or a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepsim.cli.console import note, show
from stepsim.cli.options import check_output

if TYPE_CHECKING:
    from stepsim.report.html import RunTables, SweepTables

__all__ = ["report"]


def report(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="RUN.parquet|SWEEP_DIR",
            help="What `stepsim run --out` or `stepsim sweep --out` wrote.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE.html", help="The page to write.")] = Path(
        "report.html"
    ),
) -> None:
    """Write one HTML page that shows a run or a sweep; it needs no network."""
    from stepsim.report.html import (
        read_run,
        require_plotly,
        sweep_document,
        write_page,
    )

    check_output(out, ".html")
    require_plotly()
    if source.is_dir():
        document: dict[str, Any] = sweep_document(_sweep_tables(source))
        if document["missing"]:
            note(f"{source}: {document['missing']:,} runs are not done yet")
    else:
        document = _run_document(read_run(source))
    size = write_page(out, document)
    show(f"wrote {out}, {size / 1e6:.1f} MB")


def _run_document(tables: RunTables) -> dict[str, Any]:
    from stepsim.explain import stall_tree
    from stepsim.report.html import run_document

    return run_document(tables, stall_tree(tables.units, tables.fifos).to_dict())


def _sweep_tables(folder: Path) -> SweepTables:
    from stepsim.report.html import SweepTables
    from stepsim.results.columns import MEASURES
    from stepsim.sweep.analysis.common_traces import CONTENT_COLUMNS, compared_traces, trace_numbers
    from stepsim.sweep.analysis.feasibility import search_constraints, violated_constraints
    from stepsim.sweep.analysis.frame import read_frame
    from stepsim.sweep.analysis.labels import TRACE_COLUMNS
    from stepsim.sweep.analysis.measured import count_missing, read_succeeded
    from stepsim.sweep.analysis.tables import read_failures
    from stepsim.sweep.manifest import load_manifest, read_manifest

    manifest = read_manifest(folder)
    columns = [*TRACE_COLUMNS, *CONTENT_COLUMNS, "model", "counting"]
    runs, labels = read_succeeded(folder, MEASURES, columns)
    points = runs["point"].to_numpy()
    numbers = trace_numbers(runs)
    constraints = search_constraints(folder)
    return SweepTables(
        name=str(manifest.spec.get("name") or folder.name),
        runs=runs,
        traces=TRACE_COLUMNS,
        metrics=MEASURES,
        labels=labels,
        designs=dict(enumerate(manifest.designs.values())),
        trace_of=numbers,
        compare=lambda kept: compared_traces(points[kept], numbers[kept], manifest.traces),
        failures=read_failures(folder, ["design", "layer", "step", "error", "message"]),
        missing=count_missing(folder),
        spec=manifest.spec,
        versions=load_manifest(folder).get("versions", {}),
        constraints=constraints,
        violated=violated_constraints(read_frame(folder)) if constraints and len(runs) else {},
    )
