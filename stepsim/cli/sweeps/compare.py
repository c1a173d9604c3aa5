"""``stepsim sweep compare``: two sweeps run by run, or designs against a baseline."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import stepsim.sweep
from stepsim.arguments import counted
from stepsim.cli.console import note, number, print_json, show, show_table
from stepsim.cli.gate import Gate
from stepsim.cli.options import (
    AllowMissing,
    Cost,
    Ensemble,
    FailAbove,
    Json,
    Markdown,
    Rows,
    Where,
)
from stepsim.cli.sweeps.baseline import show_against_baseline
from stepsim.cli.sweeps.markdown import sweeps_markdown
from stepsim.cli.sweeps.notes import failures_query, note_missing
from stepsim.errors import ArgError


def compare(
    before: Annotated[Path, typer.Argument(metavar="A", help="Folder of a sweep.")],
    after: Annotated[
        Path | None,
        typer.Argument(
            metavar="[B]", help="Folder of another sweep. (default: A, which needs --baseline)"
        ),
    ] = None,
    metric: Annotated[
        str,
        typer.Option(help="Metric to judge by; for designs also a percentile such as p95_cycles."),
    ] = "cycles",
    rows: Rows = 20,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="AXIS=VALUE,...",
            help="Compare designs with the designs that have these values.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS", help="Compare designs in groups of runs, for example layer,step."
        ),
    ] = None,
    where: Where = None,
    cost: Cost = None,
    json: Json = False,
    markdown: Markdown = False,
    fail_above: FailAbove = None,
    allow_missing: AllowMissing = False,
    ensemble: Ensemble = False,
) -> None:
    """Compare two sweeps run by run: new failures first, then regressions.

    With --baseline or --by, the designs of a sweep are compared with a baseline of the same or of
    another sweep. They are paired by their axes and traces; constants may differ. Two runs
    are compared with `stepsim compare`.
    """
    if json and markdown:
        raise ArgError("--json and --markdown: only one can be printed; leave one out")
    for file in (before, after):
        if file is not None and file.is_file():
            raise ArgError(
                f"{file}: expected the folder of a sweep, found a file; runs are compared with "
                f"`stepsim compare {before} {after or 'B'}`"
            )
    if baseline is not None or by is not None:
        if ensemble:
            raise ArgError("--ensemble compares sweeps run by run; leave out --baseline and --by")
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
    found = stepsim.sweep.compare(before, after, metric)
    known = [change.noise for change in found.changes if change.noise is not None]
    if ensemble and not known:
        raise ArgError(
            "--ensemble: no run has an ensemble in both A and B; run the sweeps with the key "
            "ensemble"
        )
    note_missing(before, found.missing_before)
    note_missing(after, found.missing_after)
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
        note(f"{len(listed) - rows:,} more; --rows N shows N rows, --json shows all")
    if known:
        noisy = f"{sum(known):,} of {counted(len(known), 'difference')}"
        note(f"{noisy} within the spread of the ensembles (p5 to p95 overlap), that is, noise")
    if found.new_failures:
        note(f"to see why they fail: {failures_query(after)}")
    gate.close(regression)
