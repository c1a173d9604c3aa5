"""``stepsim trace info`` and ``plot``: the content of a trace, in words and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import stepsim.report
from stepsim.cli.console import note, print_json, show
from stepsim.cli.options import check_output
from stepsim.cli.signature import takes
from stepsim.cli.traces.reading import TraceReading
from stepsim.cli.traces.show import (
    MAX_ROWS,
    load_table,
    request_lines,
    request_record,
    routing_lines,
    routing_record,
    show_tables,
    table_record,
)


@takes(TraceReading)
def info(
    reading: TraceReading,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check a trace and summarize its expert loads or its requests.

    A short routing table is listed by layer and step, anything else by layer.
    """
    if reading.holds_requests:
        trace = reading.requests()
        if json:
            print_json({"file": str(reading.file), "format": reading.kind, **request_record(trace)})
        else:
            show(*request_lines(trace))
        return
    tables = reading.tables()
    summary = reading.summary(tables)
    for sentence in summary.notes:
        note(sentence)
    rows = [table_record(table, summary.experts) for table in tables or ()]
    if json:
        record = {
            "file": str(reading.file),
            "format": reading.kind,
            "summary": routing_record(summary),
        }
        print_json({**record, "tables": rows})
        return
    if reading.experts_are_guessed(summary):
        note("number of experts not given, using the highest id + 1; give --model or --experts")
    if rows:
        show_tables(rows)
    else:
        show(load_table(summary))
        if len(summary.layers) > MAX_ROWS:
            more = len(summary.layers) - MAX_ROWS
            note(f"{more} more layers; --layer selects one, --json shows all")
    show("", *routing_lines(summary))


@takes(TraceReading)
def plot(
    reading: TraceReading,
    out: Annotated[Path, typer.Option(help="PNG, SVG or PDF file to write.")],
    title: Annotated[
        str | None, typer.Option(help="Title of the plot. (default: the file name)")
    ] = None,
) -> None:
    """Plot the expert loads or the request lengths."""
    check_output(out)
    stepsim.report.check_picture(out)
    heading = reading.file.name if title is None else title
    if reading.holds_requests:
        stepsim.report.draw_requests(reading.requests(), heading, out)
    else:
        summary = reading.summary(reading.tables())
        for sentence in summary.notes:
            note(sentence)
        stepsim.report.draw_routing(summary, heading, out)
    note(f"wrote {out}")
