"""Pictures and timelines of services, as options of the commands that have results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

import stepsim.report
import stepsim.serving
from stepsim.cli.console import note
from stepsim.cli.options import check_output
from stepsim.errors import ArgError
from stepsim.frozen import frozen


@frozen
class PictureOptions:
    """Files that show services, as given."""

    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.png",
            help="Draw the latencies and the load of the service over time into this file.",
        ),
    ] = None
    perfetto: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the timeline of the service for https://ui.perfetto.dev."
        ),
    ] = None

    @property
    def given(self) -> list[str]:
        """The options that were given."""
        named = (("--plot", self.plot), ("--perfetto", self.perfetto))
        return [name for name, file in named if file is not None]

    def check(self) -> None:
        """Refuse files that certainly cannot be written, before time is spent.

        Raises
        ------
        ArgError : both options name one file.
        OutputError : a file certainly cannot be written, or a package is not installed.
        """
        if self.plot is not None:
            check_output(self.plot)
            stepsim.report.check_picture(self.plot)
        if self.perfetto is not None:
            check_output(self.perfetto)
            stepsim.report.require_perfetto()
            if self.plot is not None and self.plot.resolve() == self.perfetto.resolve():
                raise ArgError(
                    f"--perfetto: {self.perfetto} is also the file of --plot; choose another name"
                )

    def write(self, results: Mapping[str, stepsim.serving.ServeResult]) -> None:
        """Write the files that were asked for; the timeline is that of the only service."""
        if self.plot is not None:
            stepsim.report.draw_services(results, ", ".join(results), self.plot)
            note(f"wrote {self.plot}")
        if self.perfetto is not None:
            (result,) = results.values()
            written = stepsim.report.write_service_perfetto(result, self.perfetto)
            note(f"wrote {self.perfetto}")
            if written.remark:
                note(f"{self.perfetto}: {written.remark}")
