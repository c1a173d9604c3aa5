"""From the names of figures to runs, tables, pictures and a report."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from stepsim._version import MODEL_VERSION, __version__
from stepsim.data import data_folder, datasets, fetch_datasets
from stepsim.errors import ArgError, TraceError
from stepsim.machine import load_machine
from stepsim.report.saving import require_matplotlib
from stepsim.reproduce.compare import headline_rows
from stepsim.reproduce.drawing import draw
from stepsim.reproduce.figure import Row
from stepsim.reproduce.figures import FIGURES, points_of
from stepsim.reproduce.files import csv_of, make_folder, write_file
from stepsim.reproduce.inputs import Inputs
from stepsim.reproduce.points import Point, Run
from stepsim.reproduce.pool import Pool, workers
from stepsim.reproduce.published import published
from stepsim.reproduce.report import report
from stepsim.reproduce.result import Reproduction
from stepsim.reproduce.rows import figure_rows
from stepsim.reproduce.runs import Outcome, make
from stepsim.reproduce.schema import HEADLINES_SCHEMA, TIMES, points_schema
from stepsim.results.writing import write_tables

__all__ = [
    "check_inputs",
    "choose_figures",
    "fetch_inputs",
    "make_runs",
    "reproduce",
]

Notice = Callable[[str], None]


def choose_figures(names: Iterable[str]) -> list[str]:
    """Figures by number in the paper's order, each once; ``all`` stands for every one.

    Raises
    ------
    ArgError : a figure is not known, or none is named.
    """
    asked = [name.lower().removeprefix("fig").removeprefix("ure").lstrip(". 0") for name in names]
    unknown = [given for given, name in zip(names, asked, strict=True)
               if name != "all" and name not in FIGURES]  # fmt: skip
    if unknown or not asked:
        found = f"found {unknown[0]!r}" if unknown else "found none"
        raise ArgError(f"figures: expected some of {', '.join(FIGURES)}, or 'all', {found}")
    return [figure for figure in FIGURES if figure in asked or "all" in asked]


def reproduce(
    figures: Iterable[str],
    out: Path,
    *,
    data: Path | None = None,
    fetch: bool = False,
    jobs: int = 1,
    closure_slack: int = 0,
    notice: Notice = lambda text: None,
) -> Reproduction:
    """Simulate every point of some figures, compare, draw and write it all into a folder.

    Each figure gets a Parquet and a CSV table, a PNG and an SVG picture; ``headlines`` is a table
    of its own, and ``report.md`` shows everything.

    Parameters
    ----------
    figures : numbers, or ``all``.
    data : folder of recorded traces, with which the runs are compared with what is published;
        synthetic traces when not given.
    fetch : take the recorded traces from the data folder of `stepsim.data`, and fetch what is
        missing there.
    jobs : processes. No number depends on it.
    closure_slack : of the machines; 0 is canonical.
    notice : hears what is going on.

    Raises
    ------
    ArgError : a figure is not known, ``jobs`` is below 1, or both ``data`` and ``fetch`` are given.
    DataError : a trace cannot be fetched.
    TraceError : a file of ``data`` is missing or cannot be used.
    OutputError : the folder cannot be written, or matplotlib is missing.
    """
    begin = time.perf_counter()
    chosen = choose_figures(list(figures))
    if jobs < 1:
        raise ArgError(f"jobs: expected a whole number from 1, found {jobs}")
    require_matplotlib()
    points = {figure: _points(figure, closure_slack) for figure in chosen}
    runs = [p.run for ps in points.values() for p in ps]
    inputs = fetch_inputs(data, runs, notice) if fetch else check_inputs(data, runs)
    known = None if inputs.folder is None else published()
    make_folder(out)
    notice("loading the engine (compiled on first use)")
    with workers(jobs) as pool:
        outcomes = make_runs(pool, runs, inputs, notice)
        rows = {f: figure_rows(FIGURES[f], ps, outcomes, known) for f, ps in points.items()}
        notice("drawing the figures")
        tasks = list(rows.items())
        drawn = dict(zip(rows, pool.map(draw, tasks), strict=True))
    notice("writing")
    seconds = {f: sum(outcomes[run].seconds for run in {p.run for p in ps})
               for f, ps in points.items()}  # fmt: skip
    result = Reproduction(
        figures=rows,
        headlines=headline_rows([row for own in rows.values() for row in own], known),
        seconds=seconds,
        elapsed=time.perf_counter() - begin,
        runs=len(outcomes),
        jobs=jobs,
        compared=known is not None,
        closure_slack=closure_slack,
        problems=_problems(points, outcomes),
    )
    _write(result, drawn, out)
    return result


def check_inputs(data: Path | None, runs: Iterable[Run]) -> Inputs:
    """The traces of a folder, all of them there; synthetic ones without a folder.

    Raises
    ------
    TraceError : a file is missing; the message names the first one.
    """
    inputs = Inputs(data)
    if data is not None and not data.is_dir():
        raise TraceError(f"{data}: is no folder; name one with a folder of recorded traces")
    missing = list(dict.fromkeys(path for run in runs for path in inputs.missing(run)))
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise TraceError(
            f"{missing[0]}: is missing{more}; the figures asked for need it. Restore it, ask for "
            "other figures, leave --data out to run on synthetic traces, or fetch the recorded "
            "ones with --fetch"
        )
    return inputs


def fetch_inputs(data: Path | None, runs: Iterable[Run], notice: Notice) -> Inputs:
    """The recorded traces of runs in the data folder; missing ones are fetched.

    Raises
    ------
    ArgError : ``data`` names another folder.
    DataError : a trace cannot be fetched.
    OutputError : the data folder cannot be written.
    """
    if data is not None:
        raise ArgError("--data and --fetch both say where the traces are; leave one out")
    names = {name for run in runs for name in (run.routing, run.lengths)}
    fetch_datasets([d for d in datasets().values() if d.file in names], notice=notice)
    return Inputs(data_folder())


def make_runs(
    pool: Pool, runs: Iterable[Run], inputs: Inputs, notice: Notice
) -> dict[Run, Outcome]:
    """Outcomes of all different runs, longest ones started first."""
    different = sorted(dict.fromkeys(runs), key=lambda run: -run.weight)
    ended: list[Run] = []

    def done(run: Run) -> None:
        ended.append(run)
        notice(f"simulating: {len(ended)} of {len(different)} runs done")

    notice(f"simulating: {len(different)} runs")
    made = pool.map(partial(make, inputs=inputs), different, done)
    return dict(zip(different, made, strict=True))


def _points(figure: str, slack: int) -> list[Point]:
    return [replace(p, run=replace(p.run, closure_slack=slack)) for p in points_of(figure)]


def _problems(
    points: Mapping[str, Sequence[Point]], outcomes: Mapping[Run, Outcome]
) -> tuple[str, ...]:
    found = {
        point.point_id: f"{point.point_id}: {outcome.status}: {outcome.problem}"
        for own in points.values()
        for point in own
        if (outcome := outcomes[point.run]).status != "ok"
    }
    return tuple(found.values())


_TIME_NAMES: Final = [field.name for field in TIMES]


def _write(result: Reproduction, drawn: Mapping[str, Mapping[str, bytes]], out: Path) -> None:
    for figure, rows in result.figures.items():
        table = _table(rows, points_schema(result.compared), result, figure)
        write_tables(out / f"{FIGURES[figure].stem}.parquet", {"": table})
        write_file(out / f"{FIGURES[figure].stem}.csv", csv_of(table.drop_columns(_TIME_NAMES)))
        for kind, content in drawn[figure].items():
            write_file(out / f"{FIGURES[figure].stem}.{kind}", content)
    headlines = _table(result.headlines, HEADLINES_SCHEMA, result)
    write_tables(out / "headlines.parquet", {"": headlines})
    write_file(out / "headlines.csv", csv_of(headlines))
    write_file(out / "report.md", report(result).encode())


def _table(
    rows: Sequence[Row], schema: pa.Schema, result: Reproduction, figure: str | None = None
) -> pa.Table:
    machines = sorted({row["machine"] for row in rows if row.get("machine")})
    overrides = {"closure_slack": result.closure_slack}
    provenance = {
        "stepsim": __version__,
        "model_version": MODEL_VERSION,
        "machines": [load_machine(name, overrides).to_dict() for name in machines],
    }
    metadata = {**schema.metadata, b"provenance": json.dumps(provenance).encode()}
    if figure is not None:
        metadata[b"seconds"] = f"{result.seconds[figure]:.3f}".encode()
    return pa.Table.from_pylist(list(rows), schema=schema.with_metadata(metadata))
