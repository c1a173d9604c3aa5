"""``stepsim run``: simulate a workload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from stepsim.cli.console import show
from stepsim.cli.runs.execution import RunOptions, run_choice
from stepsim.cli.runs.workload_group import workload_app
from stepsim.deferred import deferred
from stepsim.errors import ArgError

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


def run_groups(run: Callable[[Choice, RunOptions], int]) -> Callable[[Choice, RunOptions], None]:
    """Call ``run`` for the choice, or for each group of a plan that has several.

    Files and JSON hold one run, so they need the name of a group.
    """

    def perform(choice: Choice, options: RunOptions) -> None:
        plan = getattr(choice.workload, "plan", None)
        groups = [] if plan is None else [kernels[0].group for kernels in plan.graph.groups]
        if len(groups) < 2 or choice.given.get("group") is not None:
            run(choice, options)
            return
        if options.json or options.out is not None or options.is_recorded:
            raise ArgError(
                f"--group: the plan has groups {', '.join(map(str, groups))}, of which one must be "
                "named for --json, --out and recordings"
            )
        cycles = 0
        for group in groups:
            show(f"group {group} of {len(groups)}")
            cycles += run(replace(choice, given={**choice.given, "group": group}), options)
            show("")
        machine = choice.load_machine(options.config)
        time = machine.milliseconds(cycles)
        duration = "" if time is None else f" = {time:.4f} ms"
        show(f"all {len(groups)} groups, one after another: {cycles:,} cycles{duration}")

    return perform


app = workload_app(
    "Simulate a workload.\n\nA workload is one of those below, FILE.py[:NAME] with a function "
    "that returns a program, graph.pb, a program of the public graph format, or DIR, what "
    "`stepsim compile --out DIR` wrote. `stepsim run moe --help` lists all options of runs.",
    RunOptions,
    run_groups(_run_at_level),
)
