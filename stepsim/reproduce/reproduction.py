"""From the names of figures to runs, tables, pictures and a report."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from stepsim._version import MODEL_VERSION, __version__
from stepsim.data import data_folder, datasets, fetch_datasets
from stepsim.errors import ArgError, TraceError
from stepsim.machine import Machine
from stepsim.processes import Pool
from stepsim.report import require_matplotlib
from stepsim.reproduce.choice import Chosen, choose_figures
from stepsim.reproduce.compare import headline_rows
from stepsim.reproduce.figure import Row
from stepsim.reproduce.figures import FIGURES, headlines
from stepsim.reproduce.inputs import Inputs
from stepsim.reproduce.pages.drawing import draw
from stepsim.reproduce.pages.files import csv_of, make_folder, write_file
from stepsim.reproduce.pages.report import report
from stepsim.reproduce.points import Point, Run
from stepsim.reproduce.pool import make_ready, workers
from stepsim.reproduce.published import Published, published
from stepsim.reproduce.result import Reproduction
from stepsim.reproduce.rows import point_rows
from stepsim.reproduce.runs import Outcome, machine_of, make, weight_of
from stepsim.reproduce.schema import HEADLINES_SCHEMA, TIMES
from stepsim.results import write_tables

Notice = Callable[[str], None]


def reproduce(
    figures: Iterable[str],
    out: Path,
    *,
    data: Path | None = None,
    fetch: bool = False,
    jobs: int = 1,
    pool: Pool | None = None,
    closure_slack: int = 0,
    notice: Notice = lambda text: None,
) -> Reproduction:
    """Simulate every point of some figures, compare and draw them, and write the results.

    Figures of a user's file name their own traces and are not compared.

    Each figure gets a Parquet and a CSV table, a PNG and an SVG picture; ``headlines`` is a
    separate table, and ``report.md`` shows everything.

    Parameters
    ----------
    figures : numbers, ``all`` for those of the paper, or Python files with one or more `Figure`
        objects.
    data : folder of recorded traces; runs on them are compared with published values. By default
        traces are synthetic. Figures without traces, such as 8, are always compared.
    fetch : take the recorded traces from the data folder of `stepsim.data`, and fetch missing ones.
    jobs : number of processes. Results do not depend on it.
    pool : existing processes, in place of ``jobs`` new ones.
    closure_slack : of the machines; 0 is canonical.
    notice : called with progress messages.

    Raises
    ------
    ArgError : a figure is unknown or cannot be run, ``jobs`` is below 1, both ``data`` and
        ``fetch`` are given, or one of them without a figure of the paper.
    UserCodeError : the file of a figure raises.
    DataError : a trace cannot be fetched.
    TraceError : a file of ``data`` is missing or cannot be used.
    OutputError : the folder cannot be written, or matplotlib is missing.
    """
    if pool is None:
        with workers(jobs) as pool:
            return reproduce(
                figures, out, data=data, fetch=fetch, pool=pool, closure_slack=closure_slack,
                notice=notice,
            )  # fmt: skip
    begin = time.perf_counter()
    chosen = choose_figures(list(figures))
    require_matplotlib()
    if (data is not None or fetch) and all(one.is_own for one in chosen):
        raise ArgError(
            "--data and --fetch apply only to figures of the paper; figures of your own name "
            "their traces themselves: leave it out"
        )
    points = {one: _points(one, closure_slack) for one in chosen}
    runs = [p.run for ps in points.values() for p in ps]
    inputs = fetch_inputs(data, runs, notice) if fetch else check_inputs(data, runs)
    known = published() if _is_compared(points, inputs) else None
    make_folder(out)
    outcomes = make_runs(pool, runs, inputs, notice)
    compared = known is not None
    tables = {
        one: _Table(
            out / one.figure.stem,
            one.schema(ps, compared=compared),
            sum(outcomes[run].seconds for run in {p.run for p in ps}),
        )
        for one, ps in points.items()
    }
    rows = {
        one: point_rows(one.figure, ps, outcomes, None if one.is_own else known)
        for one, ps in points.items()
    }
    # Written before a figure's own code runs: if it raises, the simulated results are kept.
    for one, table in tables.items():
        table.write(rows[one], one)
    for one, own in rows.items():
        summary = _summary(one, own, known)
        if summary:
            own += summary
            tables[one].write(own, one)
    notice("drawing the figures")
    drawn = pool.map(draw, list(rows.items()))
    notice("writing")
    for one, pictures in zip(rows, drawn, strict=True):
        for kind, content in pictures.items():
            write_file(tables[one].stem.with_suffix(f".{kind}"), content)
    result = Reproduction(
        figures={one.number: own for one, own in rows.items()},
        chosen={one.number: one for one in chosen},
        remarks={one.number: _remarks(one, own) for one, own in rows.items()},
        headlines=_headlines(rows, known),
        seconds={one.number: table.seconds for one, table in tables.items()},
        elapsed=time.perf_counter() - begin,
        runs=len(outcomes),
        jobs=pool.jobs,
        compared=compared,
        closure_slack=closure_slack,
        problems=_problems(points, outcomes),
    )
    table = _arrow(result.headlines, HEADLINES_SCHEMA)
    write_tables(out / "headlines.parquet", {"": table})
    write_file(out / "headlines.csv", csv_of(table))
    write_file(out / "report.md", report(result).encode())
    return result


def _is_compared(points: Mapping[Chosen, Sequence[Point]], inputs: Inputs) -> bool:
    """Whether runs of the paper are the published ones: on recorded traces, or without traces."""
    paper = [p.run for one, ps in points.items() if not one.is_own for p in ps]
    if inputs.folder is not None:
        return True
    return bool(paper) and not any(run.routing or run.lengths for run in paper)


def check_inputs(data: Path | None, runs: Iterable[Run]) -> Inputs:
    """The traces of a folder, checked to be complete; synthetic ones without a folder.

    Raises
    ------
    TraceError : a file is missing; the message names the first one.
    """
    inputs = Inputs(data)
    if data is not None and not data.is_dir():
        raise TraceError(f"{data}: is not a folder; name a folder of recorded traces")
    missing = list(dict.fromkeys(path for run in runs for path in inputs.missing(run)))
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise TraceError(
            f"{missing[0]}: is missing{more}; the selected figures need it. Restore it, select "
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
        raise ArgError("--data and --fetch both name the source of the traces; leave one out")
    names = {name for run in runs for name in (run.routing, run.lengths)}
    fetch_datasets([d for d in datasets().values() if d.file in names], notice=notice)
    return Inputs(data_folder())


def make_runs(
    pool: Pool, runs: Iterable[Run], inputs: Inputs, notice: Notice
) -> dict[Run, Outcome]:
    """Outcomes of all distinct runs; the longest start first."""
    different = sorted(dict.fromkeys(runs), key=lambda run: -weight_of(run))
    ended: list[Run] = []

    def done(run: Run) -> None:
        ended.append(run)
        notice(f"simulating: {len(ended)} of {len(different)} runs done")

    notice("loading the engine (compiled on first use)")
    machines = [machine_of(run) for run in different]
    models = {machine.hbm.model for machine in machines if isinstance(machine, Machine)}
    make_ready(pool, sorted(models), hardware=any(run.level == "hardware" for run in different))
    notice(f"simulating: {len(different)} runs")
    made = pool.map(partial(make, inputs=inputs), different, done)
    return dict(zip(different, made, strict=True))


def _points(chosen: Chosen, slack: int) -> list[Point]:
    return [replace(p, run=p.run.with_slack(slack)) for p in chosen.points()]


def _summary(chosen: Chosen, rows: Sequence[Row], known: Published | None) -> list[Row]:
    with chosen.user_code("summary"):
        return chosen.figure.summary(rows, None if chosen.is_own else known)


def _remarks(chosen: Chosen, rows: Sequence[Row]) -> list[str]:
    with chosen.user_code("remarks"):
        return chosen.figure.remarks(rows)


def _headlines(rows: Mapping[Chosen, Sequence[Row]], known: Published | None) -> list[Row]:
    """Headlines: the paper's from the points of all its figures, a user's from the figure's own."""
    paper = [row for one, found in rows.items() if not one.is_own for row in found]
    whole = {one.number for one in rows if not one.is_own} == set(FIGURES)
    table = headline_rows(paper, known, headlines(), whole=whole) if paper else []
    for one, found in rows.items():
        if one.is_own:
            with one.user_code("headlines"):
                table += headline_rows(found, None, one.figure.headlines, whole=True)
    return table


def _problems(
    points: Mapping[Chosen, Sequence[Point]], outcomes: Mapping[Run, Outcome]
) -> tuple[str, ...]:
    found = {
        point.point_id: f"{point.point_id}: {outcome.status}: {outcome.problem}"
        for own in points.values()
        for point in own
        if (outcome := outcomes[point.run]).status != "ok"
    }
    return tuple(found.values())


_TIME_NAMES: Final = [field.name for field in TIMES]


@dataclass(frozen=True, slots=True)
class _Table:
    """The files of the table of a figure.

    Attributes
    ----------
    stem : path without suffix.
    seconds : time of its runs.
    """

    stem: Path
    schema: pa.Schema
    seconds: float

    def write(self, rows: Sequence[Row], chosen: Chosen) -> None:
        own = {"file": Path(chosen.file).name, "file_sha256": chosen.digest}
        table = _arrow(rows, self.schema, own if chosen.is_own else {})
        metadata = {**table.schema.metadata, b"seconds": f"{self.seconds:.3f}".encode()}
        table = table.replace_schema_metadata(metadata)
        write_tables(self.stem.with_suffix(".parquet"), {"": table})
        write_file(self.stem.with_suffix(".csv"), csv_of(table.drop_columns(_TIME_NAMES)))


def _arrow(
    rows: Sequence[Row], schema: pa.Schema, source: Mapping[str, str] | None = None
) -> pa.Table:
    """Rows with their provenance; ``source`` adds the file of a figure to it."""
    machines = {row["machine_json"]: None for row in rows if row.get("machine_json")}
    provenance: dict[str, Any] = {
        "stepsim": __version__,
        "model_version": MODEL_VERSION,
        "machines": [json.loads(text) for text in sorted(machines)],
        **(source or {}),
    }
    metadata = {**schema.metadata, b"provenance": json.dumps(provenance, allow_nan=False).encode()}
    return pa.Table.from_pylist(list(rows), schema=schema.with_metadata(metadata))
