"""``stepsim run``: simulate a workload."""

from __future__ import annotations

from typing import Any

import typer

from stepsim.cli.execution import RunOptions, run_choice
from stepsim.cli.workload import WorkloadGroup

__all__ = ["app"]


class _Run(WorkloadGroup):
    options = RunOptions
    perform: Any = staticmethod(run_choice)


app = typer.Typer(
    cls=_Run,
    help="Simulate a workload: one of those below, or FILE.py[:NAME] with a function that returns "
    "a program.",
    no_args_is_help=True,
    subcommand_metavar="WORKLOAD|FILE.py[:NAME] [ARGS]...",
)


@app.callback()
def _group() -> None:
    pass
