"""``stepsim run``: simulate a workload."""

from __future__ import annotations

from stepsim.cli.execution import RunOptions, run_choice
from stepsim.cli.groups import run_groups
from stepsim.cli.workload_group import workload_app

__all__ = ["app"]

app = workload_app(
    "Simulate a workload: one of those below, FILE.py[:NAME] with a function that returns a "
    "program, or graph.pb, a program of the public graph format.",
    RunOptions,
    run_groups(run_choice),
)
