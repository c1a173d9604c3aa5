"""Outputs of a recorded run: occupancy and timeline tables, a Perfetto trace, raw events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import stepsim.report
import stepsim.results
from stepsim.cli.console import note
from stepsim.cli.options import check_output
from stepsim.errors import ArgError
from stepsim.frozen import frozen

if TYPE_CHECKING:
    import pyarrow as pa

    from stepsim.results import Result

_BINS = 100


@frozen
class RecordOptions:
    """The options of recorded runs, as given."""

    record: Annotated[
        bool,
        typer.Option(
            "--record",
            help="Measure occupancy: on-chip memory in use, and with --out also FIFOs and "
            "buffers, the run over time in FILE.timeline.parquet, and its critical path in "
            "FILE.path.parquet.",
        ),
    ] = False
    bins: Annotated[
        int | None,
        typer.Option(
            metavar="N", help=f"Number of rows of FILE.timeline.parquet. (default: {_BINS})"
        ),
    ] = None
    perfetto: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the timeline of the run for https://ui.perfetto.dev."
        ),
    ] = None
    span: Annotated[
        str | None,
        typer.Option(metavar="FIRST:AFTER", help="Cycles that the --perfetto file shows."),
    ] = None
    stream: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIFO",
            help="Draw the tokens of a FIFO as arrows in the --perfetto file; repeatable.",
        ),
    ] = None
    events: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.parquet",
            help="Write the raw events: work, waits, off-chip accesses, tokens, buffers.",
        ),
    ] = None

    @property
    def is_recorded(self) -> bool:
        """Whether the run is to be recorded."""
        return self.record or self.perfetto is not None or self.events is not None

    @property
    def timeline_bins(self) -> int | None:
        """Rows of the table over time; None for no table."""
        return (self.bins or _BINS) if self.record else None

    def check(self, out: Path | None) -> None:
        """Refuse options that have no effect or certainly fail, before time is spent on the run.

        Raises
        ------
        ArgError : an option lacks the one that it belongs to, or its value is invalid.
        OutputError : a file certainly cannot be written.
        """
        if self.bins is not None and (not self.record or out is None):
            raise ArgError("--bins: add --record and --out FILE.parquet, which gets the table")
        if self.bins is not None and self.bins < 1:
            raise ArgError(f"--bins: expected a number from 1 to 1,000,000, found {self.bins}")
        for name, given in (("span", self.span), ("stream", self.stream)):
            if given and self.perfetto is None:
                raise ArgError(f"--{name}: add --perfetto FILE, which shows it")
        self._cycles()
        self._check_distinct(out)
        if self.perfetto is not None:
            check_output(self.perfetto)
            stepsim.report.require_perfetto()
        if self.events is not None:
            check_output(self.events, ".parquet")

    def check_streams(self, fifos: Sequence[str]) -> None:
        """Refuse streams that the program, with FIFOs of these names, does not have.

        Raises
        ------
        ArgError : there is no such FIFO.
        """
        if self.stream:
            for name in self.stream:
                stepsim.report.fifos_of(name, fifos, "--stream")

    def _check_distinct(self, out: Path | None) -> None:
        """Refuse two outputs with one file name; tables next to ``out`` count too."""
        files = [("--perfetto", self.perfetto), ("--events", self.events)]
        if out is not None:
            beside = [
                (f"the {name} of --out", stepsim.results.neighbor(out, name))
                for name in stepsim.results.NEEDED + stepsim.results.OPTIONAL
            ]
            files = [("--out", out), *beside, *files]
        taken: dict[Path, str] = {}
        for what, file in files:
            if file is None:
                continue
            other = taken.setdefault(file.resolve(), what)
            if other != what:
                raise ArgError(f"{what}: {file} is also the file of {other}; choose another name")

    def write(
        self,
        result: Result,
        phase: Callable[[str], None],
        segments: Callable[[], pa.Table | None],
    ) -> None:
        """Write the files that were asked for.

        Parameters
        ----------
        result : the result of the recorded run.
        phase : called with the name of each step.
        segments : finds the critical path.
        """
        if self.perfetto is not None:
            phase("writing the timeline")
            written = stepsim.report.write_perfetto(
                result,
                self.perfetto,
                span=self._cycles(),
                streams=self.stream or (),
                segments=segments(),
            )
            if written.remark:
                note(f"{self.perfetto}: {written.remark}")
        if self.events is not None:
            phase("writing events")
            stepsim.results.write_events(result, self.events)

    def _cycles(self) -> tuple[int, int] | None:
        if self.span is None:
            return None
        first, colon, after = self.span.partition(":")
        if not (colon and first.isdecimal() and after.isdecimal() and int(first) < int(after)):
            raise ArgError(
                f"--span: expected two ascending cycles as in 1000:2000, found '{self.span}'"
            )
        return int(first), int(after)
