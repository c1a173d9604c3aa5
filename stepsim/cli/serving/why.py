"""``stepsim why DIR`` of a service: where the time of its requests went."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import stepsim.serving
from stepsim.cli.console import print_json, show
from stepsim.cli.heartbeat import Heartbeat
from stepsim.cli.options import Json


def why_service_command(folder: Path) -> Any:
    """The command that explains the service in a folder."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

    @app.command(name=str(folder))
    def why(
        what_if: Annotated[
            list[str] | None,
            typer.Option(
                "--what-if",
                metavar="CHANGE",
                help="Serve the same requests with a change, as 'hbm.bandwidth x2' or "
                "max_num_batched_tokens=4096, and compare; repeatable.",
            ),
        ] = None,
        json: Json = False,
    ) -> None:
        """Explain where the time of the requests of a service went."""
        result = stepsim.serving.ServeResult.read(folder)
        with Heartbeat() as heartbeat:
            heartbeat.phase("explaining")
            found = stepsim.serving.why_served(result)
            changed = []
            for change in what_if or []:
                heartbeat.phase(f"serving with {change}")
                changed.append(stepsim.serving.what_if_served(result, change, heartbeat.progress))
        if json:
            whats = [{"change": one.change, **one.comparison.to_dict()} for one in changed]
            print_json({**found.to_dict(), "what_if": whats})
            return
        show(str(found))
        for one in changed:
            show("", str(one))

    return typer.main.get_command(app)
