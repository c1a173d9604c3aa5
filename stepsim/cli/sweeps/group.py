"""``stepsim sweep``: run sweeps and searches, and read what they wrote."""

from __future__ import annotations

from typing import ClassVar

import typer

from stepsim.cli.commands import CommandGroup


class _SweepGroup(CommandGroup):
    places: ClassVar = {
        "Run": {"run": "sweeps.run:run", "tune": "sweeps.tune:tune"},
        "Read": {
            "pareto": "sweeps.pareto:pareto",
            "best": "sweeps.best:best",
            "compare": "sweeps.compare:compare",
            "query": "sweeps.query:query",
        },
    }


app = typer.Typer(
    cls=_SweepGroup,
    help="Run the design points of a specification on its traces or search among them; show, "
    "compare and query the results.",
    no_args_is_help=True,
)
# Without a callback typer would take a group for a single command.
app.callback()(lambda: None)
