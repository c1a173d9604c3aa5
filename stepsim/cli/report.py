"""``stepsim report``: the HTML page of a run, a sweep or services."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

import stepsim.report
import stepsim.results
import stepsim.serving
import stepsim.sweep
import stepsim.workloads
from stepsim.cli.console import note, show
from stepsim.cli.options import check_output
from stepsim.cli.serving.pictures import PictureOptions
from stepsim.cli.signature import takes
from stepsim.deferred import deferred
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.cli.runs import execution, workload
    from stepsim.report import RunTables
else:
    execution = deferred("stepsim.cli.runs.execution")
    workload = deferred("stepsim.cli.runs.workload")


@takes(PictureOptions)
def report(
    pictures: PictureOptions,
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE|DIR",
            help="The --out of `run`, `sweep run`, `sweep tune` or `serve`, or a plan, which is "
            "run first. Of services, several are shown side by side.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE.html", help="HTML file to write.")] = Path(
        "report.html"
    ),
) -> None:
    """Write one self-contained HTML page that shows a run, a sweep, a plan or services."""
    check_output(out, ".html")
    stepsim.report.require_plotly()
    source, *others = sources
    services = [stepsim.serving.is_service(one) for one in sources]
    if others and not all(services):
        raise ArgError(
            f"{sources[services.index(False)]}: is not the folder of a service; of runs, sweeps "
            "and plans a page shows one, so name that alone"
        )
    if pictures.given and not services[0]:
        raise ArgError(
            f"{pictures.given[0]}: draws services, and {source} is not one; leave it out"
        )
    if pictures.perfetto is not None and others:
        raise ArgError("--perfetto: shows one service; name one folder")
    pictures.check()
    if services[0]:
        results = _services_of(sources)
        document: dict[str, Any] = stepsim.report.service_document(results)
        pictures.write(results)
    elif stepsim.workloads.plan_file(str(source)) is not None:
        document = _plan_document(source)
    elif source.is_dir():
        document = stepsim.report.sweep_document(_sweep_tables(source))
        if document["missing"]:
            note(f"{source}: {document['missing']:,} runs are not done yet")
    else:
        document = _run_document(stepsim.report.read_run(source))
    size = stepsim.report.write_page(out, document)
    show(f"wrote {out}, {size / 1e6:.1f} MB")


def _services_of(folders: Sequence[Path]) -> dict[str, stepsim.serving.ServeResult]:
    """The services of folders by their names, or by their paths where names are alike.

    Raises
    ------
    ArgError : a folder is given twice.
    """
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    if len(set(names)) < len(names):
        raise ArgError(f"{folders[0]}: a service is given twice; name each once")
    read = stepsim.serving.ServeResult.read
    return {name: read(folder) for name, folder in zip(names, folders, strict=True)}


def _plan_document(source: Path) -> dict[str, Any]:
    """The page of a plan, which is run for it.

    Raises
    ------
    ArgError : the plan has several groups, or needs a routing; a run of it can be shown instead.
    """
    plan: Any = stepsim.workloads.find_workload(str(source.resolve())).load()
    if plan.inputs or len(plan.plan.graph.groups) > 1:
        needed = "--routing FILE" if plan.inputs else "--group N"
        raise ArgError(
            f"{source}: the plan needs {needed}; run it, then write the page: stepsim run "
            f"{source} {needed} --record --out run.parquet, stepsim report run.parquet"
        )

    def perform(choice: Any, options: Any) -> None:
        execution.run_choice(choice, options)

    with TemporaryDirectory() as folder:
        run = Path(folder) / "run.parquet"
        workload.command_of(str(source.resolve()), execution.RunOptions, perform).main(
            ["--record", "--out", str(run)], prog_name="stepsim report", standalone_mode=False
        )
        return _run_document(stepsim.report.read_run(run))


def _run_document(tables: RunTables) -> dict[str, Any]:
    return stepsim.report.run_document(
        tables, stepsim.results.stall_tree(tables.units, tables.fifos).to_dict()
    )


def _sweep_tables(folder: Path) -> stepsim.report.SweepTables:
    manifest = stepsim.sweep.read_manifest(folder)
    columns = [*stepsim.sweep.TRACE_COLUMNS, *stepsim.sweep.CONTENT_COLUMNS, "model", "counting"]
    metrics = stepsim.sweep.usual_measures(folder)
    runs, labels = stepsim.sweep.read_succeeded(folder, metrics, columns)
    points = runs["point"].to_numpy()
    numbers = stepsim.sweep.trace_numbers(runs)
    constraints = stepsim.sweep.search_constraints(folder)
    return stepsim.report.SweepTables(
        name=str(manifest.spec.get("name") or folder.name),
        runs=runs,
        traces=stepsim.sweep.TRACE_COLUMNS,
        metrics=metrics,
        labels=labels,
        designs=dict(enumerate(manifest.designs.values())),
        trace_of=numbers,
        compare=lambda kept: stepsim.sweep.compared_traces(
            points[kept], numbers[kept], manifest.traces
        ),
        failures=stepsim.sweep.read_failures(
            folder, ["design", "layer", "step", "error", "message"]
        ),
        missing=stepsim.sweep.count_missing(folder),
        spec=manifest.spec,
        versions=stepsim.sweep.load_manifest(folder).get("versions", {}),
        constraints=constraints,
        violated=stepsim.sweep.violated_constraints(stepsim.sweep.read_frame(folder))
        if constraints and len(runs)
        else {},
    )
