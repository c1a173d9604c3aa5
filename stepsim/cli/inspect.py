"""``stepsim inspect``: look at a workload without simulating it."""

from __future__ import annotations

from typing import Any

import typer

from stepsim.cli.listing import ListOptions, list_choice
from stepsim.cli.workload import WorkloadGroup

__all__ = ["app"]


class _Inspect(WorkloadGroup):
    options = ListOptions
    perform: Any = staticmethod(list_choice)


app = typer.Typer(
    cls=_Inspect,
    help="Show the graph, shapes and metrics of a workload, or of FILE.py[:NAME], without "
    "simulating it. Without traces the metrics are formulas, for 64 tokens or requests or --batch.",
    no_args_is_help=True,
    subcommand_metavar="WORKLOAD|FILE.py[:NAME] [ARGS]...",
)


@app.callback()
def _group() -> None:
    pass
