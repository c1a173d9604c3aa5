"""``stepsim sweep``: run sweeps and searches, and read what they wrote."""

from __future__ import annotations

from typing import ClassVar

import typer

from stepsim.cli.commands import CommandGroup, Place


class _SweepGroup(CommandGroup):
    places: ClassVar = {
        "Run": {
            "run": Place(
                "sweeps.run:run", "Run every design point of a specification on every trace."
            ),
            "tune": Place(
                "sweeps.tune:tune",
                "Search the design space of a specification for the Pareto-optimal designs.",
            ),
        },
        "Read": {
            "pareto": Place(
                "sweeps.pareto:pareto", "Show the Pareto-optimal design points of a sweep."
            ),
            "best": Place(
                "sweeps.best:best",
                "Show the best design of a sweep for all runs, and per layer or any other columns.",
            ),
            "compare": Place(
                "sweeps.compare:compare",
                "Compare two sweeps run by run: new failures first, then regressions.",
            ),
            "plot": Place(
                "sweeps.plot:plot",
                "Show metrics of a sweep over one axis, with a curve for each value of the others.",
            ),
            "query": Place(
                "sweeps.query:query",
                "Query the tables runs, failures and units of a sweep with DuckDB.",
            ),
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
