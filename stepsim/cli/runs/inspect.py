"""``stepsim inspect``: look at a workload without simulating it."""

from __future__ import annotations

from stepsim.cli.runs.listing import ListOptions, list_choice
from stepsim.cli.runs.workload_group import workload_app

app = workload_app(
    "Show the graph, shapes and metrics of a workload without simulating it.\n\nWithout traces the "
    "metrics are formulas, for 64 tokens or requests unless --batch is given. WORKLOAD and its "
    "options are those of `stepsim run`.",
    ListOptions,
    list_choice,
)
