"""``stepsim run``: simulate a workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepsim.cli.runs.execution import RunOptions, run_choice
from stepsim.cli.runs.groups import run_groups
from stepsim.cli.runs.workload_group import workload_app
from stepsim.deferred import deferred

if TYPE_CHECKING:
    from stepsim.cli.runs import hardware_run
    from stepsim.cli.runs.workload import Choice
else:
    hardware_run = deferred("stepsim.cli.runs.hardware_run")


def _run_at_level(choice: Choice, options: RunOptions) -> int:
    """Run the chosen workload at the chosen level; returns its cycles."""
    if options.level == "hardware":
        return hardware_run.run_on_hardware(choice, options)
    return run_choice(choice, options)


app = workload_app(
    "Simulate a workload.\n\nA workload is one of those below, FILE.py[:NAME] with a function "
    "that returns a program, graph.pb, a program of the public graph format, or DIR, what "
    "`stepsim compile --out DIR` wrote. `stepsim run moe --help` lists all options of runs.",
    RunOptions,
    run_groups(_run_at_level),
)
