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
from stepsim.cli.parts import file_and_parts, single
from stepsim.errors import ArgError
from stepsim.frozen import frozen

if TYPE_CHECKING:
    import pyarrow as pa

    from stepsim.results import Result


@frozen
class Timeline:
    """A file for Perfetto: the cycles that it shows, all by default, and FIFOs drawn as arrows."""

    file: Path
    span: tuple[int, int] | None = None
    streams: tuple[str, ...] = ()


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
    perfetto: Annotated[
        str | None,
        typer.Option(
            metavar="FILE[,KEY=VALUE]...",
            help="Write the timeline of the run for https://ui.perfetto.dev. The cycles that it "
            "shows and FIFOs whose tokens are drawn as arrows may follow, as in "
            "FILE,span=100:200,stream=silu.",
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

    def check(self, out: Path | None) -> None:
        """Refuse options that have no effect or certainly fail, before time is spent on the run.

        Raises
        ------
        ArgError : the value of an option is invalid.
        OutputError : a file certainly cannot be written.
        """
        timeline = self.timeline()
        self._check_distinct(out, timeline)
        if timeline is not None:
            check_output(timeline.file)
            stepsim.report.require_perfetto()
        if self.events is not None:
            check_output(self.events, ".parquet")

    def check_streams(self, fifos: Sequence[str]) -> None:
        """Refuse streams that the program, with FIFOs of these names, does not have.

        Raises
        ------
        ArgError : there is no such FIFO.
        """
        timeline = self.timeline()
        for name in () if timeline is None else timeline.streams:
            stepsim.report.fifos_of(name, fifos, "--perfetto: stream")

    def timeline(self) -> Timeline | None:
        """What ``--perfetto`` asks for, if it is given.

        Raises
        ------
        ArgError : what follows the name of the file is not known, or is invalid.
        """
        if self.perfetto is None:
            return None
        option = "--perfetto"
        file, parts = file_and_parts(option, self.perfetto, {"span": _cycles, "stream": str})
        streams = tuple(parts.pop("stream", ()))
        return Timeline(file, streams=streams, **single(option, parts))

    def check_span(self, cycles: int) -> None:
        """Refuse a span of cycles that a run of this length does not have.

        Raises
        ------
        ArgError : it begins after the end.
        """
        timeline = self.timeline()
        if timeline is not None:
            stepsim.report.checked_span(timeline.span, cycles)

    def _check_distinct(self, out: Path | None, timeline: Timeline | None) -> None:
        """Refuse two outputs with one file name; tables next to ``out`` count too."""
        files = [
            ("--perfetto", None if timeline is None else timeline.file),
            ("--events", self.events),
        ]
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
        timeline = self.timeline()
        if timeline is not None:
            phase("writing the timeline")
            written = stepsim.report.write_perfetto(
                result,
                timeline.file,
                span=timeline.span,
                streams=timeline.streams,
                segments=segments(),
            )
            if written.remark:
                note(f"{timeline.file}: {written.remark}")
        if self.events is not None:
            phase("writing events")
            stepsim.results.write_events(result, self.events)


def _cycles(text: str) -> tuple[int, int]:
    first, colon, after = text.partition(":")
    if not (colon and first.isdecimal() and after.isdecimal() and int(first) < int(after)):
        raise ArgError(
            f"--perfetto: span: expected two ascending cycles as in 1000:2000, found '{text}'"
        )
    return int(first), int(after)
