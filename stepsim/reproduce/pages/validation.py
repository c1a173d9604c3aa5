"""The validation page: every recorded point with our, canonical and published cycles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stepsim._version import MODEL_VERSION
from stepsim.errors import ArgError
from stepsim.processes import Pool
from stepsim.reproduce.compare import headline_rows
from stepsim.reproduce.figures import FIGURES, headlines as paper_headlines, points_of
from stepsim.reproduce.figures.archived import archived_points
from stepsim.reproduce.hardware_errors import Model, errors_of, models, noise
from stepsim.reproduce.pages.files import write_file
from stepsim.reproduce.pages.report import agreement, counted, headline_cells, signed_percent
from stepsim.reproduce.points import Run
from stepsim.reproduce.published import Published, PublishedRow, RunKey, published, run_key
from stepsim.reproduce.reproduction import Notice, check_inputs, fetch_inputs, make_runs
from stepsim.reproduce.rows import figure_rows
from stepsim.reproduce.runs import Outcome

_SLACKS: Final = (0, 1, 2)

_HEAD: Final = """\
# Validation

How close are simulated cycles to those of the STeP paper's simulator and hardware? Every recorded
run that is available is simulated again. Written by
`stepsim reproduce validation` with model version {version}; do not edit.

*Published* cycles were read from the plots of the paper, or from tables of earlier runs in the
published artifacts: points named `aug_` are runs of August 2025, those named `stepcsv` rows of
`step_reference.csv` of December 2025. The published simulator runs on threads and is not
deterministic: where a run was recorded twice, its two numbers differ by up to 1.3 %
(`f9_mixtral_dyn`, `aug_mix64_dyn`), so our deviations of about 1e-3 are within its own spread.
*Canonical* cycles are those of an independent implementation of the same rules. No value below was
tuned or fitted.

{{doc}}`stepdb` compares runs of another project's programs.

## Agreement

{agreement}

Bytes are off-chip traffic and on-chip memory; all tables count bytes and FLOPs as published. The
largest difference is that of cycles from the published ones. Of figure 17, neither the graph nor
cycles are published: ours is inferred from totals, and only its compute can be expected to be
equal.

## Against hardware

{hardware}

Between the paper's simulator and its hardware lie the steps of this ladder, each a machine that a
program of your own can run on ({{doc}}`addresses`, {{doc}}`hardware`): each refinement adds to the
one before. Errors are those of cycles against the {tilings} recorded counts in percent, first ours,
then those that others found with models of their own. Nothing was fitted.

{ladder}

The last steps are no larger than the effect of a single cycle. Five streams hit the same banks, so
the layer is chaotic in time: a change of one cycle anywhere moves the hardware's own count, in
either direction. Where another port has the first turn at the arbiter, the exact model differs from
the recorded counts by {noise.mean:.1f} % on average and by up to {noise.worst:.1f} %. That is the
noise floor. A model that is not exact gets below 2 to 3 % on average only by luck, and a difference
of a percent or two between two designs is not significant. `--ensemble` of `stepsim run` gives the
spread instead of one number ({{doc}}`ensembles`).

{changes}

Not modeled, because the reference does not have it or does not document it:

* *Refresh.* The DRAM of the reference never refreshes. Machines can, with `dram.refresh`, and there
  is no count to compare with.
* *Seven of eight channels.* Addresses of the HDL reach one channel of its HBM2, which gives 256
  bytes per cycle; the others idle. How a design with more channels in use behaves was not recorded.
* *Writes in the published traffic.* Reads are exact. Published accesses exceed them by the same
  number in every point, while the writes sent when the last tile is accepted differ with its rows;
  what was counted is not explained. It does not touch cycles.
* *Other sizes* than the published ones rest on the rules of the units alone, not on runs of the
  HDL. The same holds for the five tilings of 32 rows, for which no counts were available.

## Headlines

Each ratio of the paper, recomputed from our runs and from the published data. Deviations of
percentages above 100 are relative to the whole.

{headlines}

## Closure slack

The published simulator notices the end of a stream a cycle or two earlier or later, depending on
how the host schedules its threads; where many loads compete for the memory, that can change who
wins from then on. `closure_slack` of a machine moves that moment ({{doc}}`timing`); 0 is canonical.
It moves these points, and no other:

{slack}

## All points

{points}
"""


@dataclass(frozen=True, slots=True)
class RecordedPoint:
    """A published point with cycles, and its run."""

    published: PublishedRow
    canonical: int | None
    run: Run


def recorded_points(table: Published) -> list[RecordedPoint]:
    """Published points that can be run, in the order of their table, archived ones included."""
    known: dict[RunKey, Run] = {}
    points = [p for figure in FIGURES for p in points_of(figure)] + archived_points()
    for point in points:
        known.setdefault(run_key(point.run), point.run)
    return [
        RecordedPoint(row, table.canonical.get(row.point_id), known[row.key])
        for row in table.rows
        if row.key in known and row.cycles is not None
    ]


def write_validation(
    path: Path,
    data: Path | None = None,
    *,
    fetch: bool = False,
    pool: Pool | None = None,
    notice: Notice = lambda text: None,
) -> None:
    """Run every recorded point with several closure slacks, and write the page.

    The recorded traces are those of the folder ``data``, or fetched as by `reproduce`. Without a
    ``pool``, runs are made in this process.

    Raises
    ------
    ArgError : both of ``data`` and ``fetch`` are given, or neither.
    DataError : a trace cannot be fetched.
    TraceError : a file of ``data`` is missing or cannot be used.
    OutputError : the page cannot be written.
    """
    figures = {figure: points_of(figure) for figure in FIGURES}
    plain = [point.run for points in figures.values() for point in points]
    table = published()
    recorded = recorded_points(table)
    runs = [p.run.with_slack(slack) for p in recorded for slack in _SLACKS]
    refined = [model.run(tiling) for model in models() for tiling in table.hardware]
    needed = [*plain, *runs, *refined]
    if data is None and not fetch:
        raise ArgError("recorded traces are needed; give their folder with --data, or --fetch")
    inputs = fetch_inputs(data, needed, notice) if fetch else check_inputs(data, needed)
    outcomes = make_runs(pool or Pool(), needed, inputs, notice)
    rows = {f: figure_rows(FIGURES[f], points, outcomes, table) for f, points in figures.items()}
    every = [row for own in rows.values() for row in own]
    headlines = headline_rows(every, table, paper_headlines(), whole=True)
    page = _HEAD.format(
        version=MODEL_VERSION,
        agreement=_agreement_table(rows, recorded, outcomes),
        hardware="\n".join(f"* {line}" for line in FIGURES["8"].remarks(rows["8"])),
        tilings=len(table.hardware),
        ladder=_error_table([m for m in models() if m.step], table, outcomes),
        noise=noise(table.hardware, outcomes),
        changes=_error_table([m for m in models() if not m.step], table, outcomes),
        headlines=_headline_table(headlines),
        slack=_slack_table(recorded, outcomes),
        points=_points_table(recorded, outcomes),
    )
    write_file(path, page.encode())


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Markdown; the first ``left`` columns and notes are aligned left, the others right."""
    numbers = [f"---{'' if name == 'note' else ':'}" for name in heading[left:]]
    rule = ["---"] * left + numbers
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heading, rule, *rows))


def _agreement_table(
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    recorded: Sequence[RecordedPoint],
    outcomes: Mapping[Run, Outcome],
) -> str:
    table = []
    for figure, own in rows.items():
        found = agreement(own)
        table.append([
            figure, str(found["points"]), counted(found["same"], found["canonical"]),
            counted(found["exact"], found["published"]),
            signed_percent(found["worst"]) if found["published"] else "-",
            counted(found["same_bytes"], found["bytes"]),
        ])  # fmt: skip
    archived = [p for p in recorded if p.published.archived]
    known = [p for p in archived if p.canonical is not None]
    differences = [_relative(p, outcomes) for p in archived]
    same = sum(outcomes[p.run].cycles == p.canonical for p in known)
    exact = sum(outcomes[p.run].cycles == p.published.cycles for p in archived)
    table.append([
        "archived runs", str(len({p.run for p in archived})), counted(same, len(known)),
        counted(exact, len(archived)), signed_percent(max(differences, key=abs, default=None)), "-",
    ])  # fmt: skip
    heading = (
        "figure", "points", "equal to canonical", "equal to published", "largest difference",
        "bytes equal",
    )  # fmt: skip
    return _table(heading, table)


def _error_table(chosen: Sequence[Model], table: Published, outcomes: Mapping[Run, Outcome]) -> str:
    """Errors of models against the hardware, with those found by others."""
    rows = []
    for model in chosen:
        ours = errors_of(model, table.hardware, outcomes)
        changes = " ".join(f"{key}={value}" for key, value in model.changes.items())
        rows.append([
            model.step or f"`{changes}`", model.words, f"`{model.machine}`",
            f"{ours.mean:.1f}", f"{ours.worst:.1f}", f"{ours.bias:+.1f}",
            model.mean, model.worst, model.bias or "-",
        ])  # fmt: skip
    first = "step" if chosen[0].step else "change"
    heading = (
        first, "model", "machine", "mean", "worst", "bias", "mean there", "worst there",
        "bias there",
    )  # fmt: skip
    return _table(heading, rows, left=3)


def _headline_table(headlines: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [row["figure"], row["claim"], row["unit"], *headline_cells(row), row["note"]]
        for row in headlines
    ]
    heading = (
        "figure", "headline", "unit", "ours", "printed", "from published data", "deviation", "note",
    )  # fmt: skip
    return _table(heading, rows, left=3)


def _slack_table(recorded: Sequence[RecordedPoint], outcomes: Mapping[Run, Outcome]) -> str:
    rows = []
    for point in recorded:
        cycles = [outcomes[point.run.with_slack(k)].cycles for k in _SLACKS]
        if len(set(cycles)) > 1:
            published = point.published.cycles
            cells = [f"**{c:,}**" if c == published else f"{c:,}" for c in cycles]
            rows.append([f"`{point.published.point_id}`", f"{published:,}", *cells])
    heading = ("point", "published", *(f"slack {k}" for k in _SLACKS))
    count = f"{len(rows)} of {len(recorded)} points; equal to published ones in bold."
    return f"{_table(heading, rows)}\n\n{count}"


def _points_table(recorded: Sequence[RecordedPoint], outcomes: Mapping[Run, Outcome]) -> str:
    rows = []
    for point in recorded:
        ours, published = outcomes[point.run].cycles, point.published.cycles or 0
        canonical = "-" if point.canonical is None else f"{point.canonical:,}"
        rows.append([
            f"`{point.published.point_id}`", f"{ours:,}", canonical, f"{published:,}",
            f"{ours - published:+,}" if ours != published else "0",
            signed_percent(_relative(point, outcomes)),
        ])  # fmt: skip
    heading = ("point", "ours", "canonical", "published", "ours - published", "relative")
    return _table(heading, rows)


def _relative(point: RecordedPoint, outcomes: Mapping[Run, Outcome]) -> float:
    return outcomes[point.run].cycles / (point.published.cycles or 1) - 1
