"""``stepsim compare``: two runs side by side, with Markdown and an exit code for pull requests."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import stepsim.report
import stepsim.results
import stepsim.serving
from stepsim.cli.console import note, print_json, show
from stepsim.cli.gate import Gate
from stepsim.cli.options import Ensemble, FailAbove, Json, Markdown, Rows
from stepsim.cli.stalls import HEADINGS, stalls_markdown, stalls_text
from stepsim.errors import ArgError, did_you_mean

if TYPE_CHECKING:
    from stepsim.report import RunTables

_ROWS = 20


def compare(
    before: Annotated[
        Path,
        typer.Argument(
            metavar="A",
            help="File of a run, written by `stepsim run --out`, or folder of a service.",
        ),
    ],
    after: Annotated[Path, typer.Argument(metavar="B", help="File or folder of the other one.")],
    metric: Annotated[str, typer.Option(help="Metric to judge by.")] = "cycles",
    rows: Rows = _ROWS,
    json: Json = False,
    markdown: Markdown = False,
    fail_above: FailAbove = None,
    ensemble: Ensemble = False,
) -> None:
    """Compare two runs: their metrics, their inputs, and where their cycles went.

    Services of the same requests are compared request by request.

    Sweeps are compared with `stepsim sweep compare`.
    """
    if json and markdown:
        raise ArgError("--json and --markdown: only one can be printed; leave one out")
    services = [one for one in (before, after) if stepsim.serving.is_service(one)]
    if len(services) == 2:
        unused = markdown or ensemble or rows != _ROWS
        _compare_services(before, after, metric, fail_above, json=json, unused=unused)
        return
    if services:
        raise ArgError(
            f"{services[0]}: is the folder of a service, and the other one is not; compare two "
            "services, or two files of runs"
        )
    gate = Gate(metric, fail_above, ensemble=ensemble)
    for folder in (before, after):
        if folder.is_dir():
            raise ArgError(
                f"{folder}: expected the file of a run, found a folder; sweeps are compared with "
                f"`stepsim sweep compare {before} {after}`"
            )
    first, second = stepsim.report.read_run(before), stepsim.report.read_run(after)
    compared = _Compared(first, second, gate)
    if json:
        print_json(compared.to_dict())
    elif markdown:
        show(compared.markdown(rows))
    else:
        show(f"A {before}: {first.row['status']}\nB {after}: {second.row['status']}\n")
        show(compared.text(rows))
        left = len(compared.found.stalls) - rows
        if left > 0:
            note(f"{left:,} more; --rows N shows N rows, --json shows all")
    gate.close(compared.regression)


def _compare_services(
    before: Path, after: Path, metric: str, fail_above: str | None, *, json: bool, unused: bool
) -> None:
    if metric != "cycles" or fail_above is not None or unused:
        raise ArgError(
            "--metric, --fail-above, --markdown, --rows and --ensemble have no effect on services; "
            "leave them out"
        )
    found = stepsim.serving.compare_services(
        *(stepsim.serving.ServeResult.read(folder) for folder in (before, after))
    )
    if json:
        print_json(found.to_dict())
    else:
        show(str(found))


class _Compared:
    """The comparison of two runs as JSON, Markdown and text."""

    def __init__(self, before: RunTables, after: RunTables, gate: Gate) -> None:
        self.before, self.gate = before, gate
        stalls = (
            stepsim.results.stalls_of(before.units, before.fifos),
            stepsim.results.stalls_of(after.units, after.fifos),
        )
        self.found = stepsim.results.compare_runs(before.row, after.row, stalls)
        names = self.found.numbers
        if gate.metric not in names:
            raise ArgError(
                f"--metric: the runs have no metric '{gate.metric}' in common"
                f"{did_you_mean(gate.metric, names)} Known: {', '.join(names)}"
            )
        if self.found.counting.before != self.found.counting.after:
            counted = ", ".join(name for name in names if name in stepsim.results.COUNTED)
            ways = " and ".join(sorted(self.found.counting))
            note(f"A and B count differently ({ways}): {counted}")
        if gate.ensemble and self.found.noise is None:
            raise ArgError(
                "--ensemble: A and B must both have an ensemble; write them with "
                "stepsim run --ensemble N --out FILE"
            )
        self.regression = gate.of_runs(self.found)

    def to_dict(self) -> dict[str, Any]:
        found = self.found
        return {
            "metric": self.gate.metric,
            "regression": self.regression or None,
            **({} if found.noise is None else {"noise": found.noise}),
            "status": found.status._asdict(),
            "metrics": {name: pair._asdict() for name, pair in found.numbers.items()},
            "changed": list(found.changed),
            "stalls": [asdict(one) for one in found.stalls],
        }

    def markdown(self, rows: int) -> str:
        metric, status = self.gate.metric, self.found.status
        verdict = f"**{metric} {self._change(metric)}**"
        if self.regression:
            verdict = f"**Regression**: {self.regression}."
        elif not self.found.comparable:
            verdict = f"A ended with status {status.before} and B with {status.after}."
        causes = "No input of the run changed."
        if self.found.changed:
            causes = "What changed:\n\n" + "\n".join(f"* `{text}`" for text in self.found.changed)
        parts = [verdict, stepsim.report.markdown_table(*self._metrics()), causes]
        return "\n\n".join(filter(None, [*parts, stalls_markdown(self.found.stalls, rows)]))

    def text(self, rows: int) -> str:
        causes = self.found.changed or ["no input of the run"]
        parts = [
            stepsim.report.text_table(*self._metrics(), indent=""),
            "\n  ".join(["what changed:", *causes]),
        ]
        return "\n\n".join(filter(None, [*parts, stalls_text(self.found.stalls, rows)]))

    def _metrics(self) -> tuple[list[str], list[list[str]]]:
        """Column names and rows of a table, without the metrics that neither run has."""
        status = self.found.status
        ends = [] if status == ("ok", "ok") else [["status", *status, ""]]
        rows = [
            [self._title(name), *map(stepsim.report.number_text, pair), self._change(name)]
            for name, pair in self.found.numbers.items()
            if pair != (None, None)
        ]
        return ["metric", *HEADINGS, "change"], ends + rows

    def _change(self, name: str) -> str:
        if not self.found.comparable:
            return "not comparable"
        text = stepsim.report.change_text(*self.found.numbers[name])
        noise = name == "cycles" and self.found.noise and text != "equal"
        return f"{text}, within noise" if noise else text

    def _title(self, name: str) -> str:
        unit = self.before.fields.field(name).metadata.get(b"unit", b"").decode()
        shown = name.replace("_", " ")
        plain = unit == "fraction" or unit.partition("/")[0].lower() in shown
        return shown if plain else f"{shown} ({unit})"
