"""Many runs: described, executed, kept, compared."""

from stepsim.sweep.compare import Change, Comparison, DesignCost, compare, design_costs
from stepsim.sweep.pareto import dominates, frontier, pareto_improvement_distance
from stepsim.sweep.plan import Plan
from stepsim.sweep.run import (
    SweepProgress,
    SweepSummary,
    estimate_seconds,
    plan_sweep,
    run_sweep,
)
from stepsim.sweep.schema import FAILURES_SCHEMA, RUNS_SCHEMA, UNIT_ROWS_SCHEMA
from stepsim.sweep.spec import SweepSpec, load_spec
from stepsim.sweep.tables import open_table, query, read_runs

__all__ = [
    "FAILURES_SCHEMA",
    "RUNS_SCHEMA",
    "UNIT_ROWS_SCHEMA",
    "Change",
    "Comparison",
    "DesignCost",
    "Plan",
    "SweepProgress",
    "SweepSpec",
    "SweepSummary",
    "compare",
    "design_costs",
    "dominates",
    "estimate_seconds",
    "frontier",
    "load_spec",
    "open_table",
    "pareto_improvement_distance",
    "plan_sweep",
    "query",
    "read_runs",
    "run_sweep",
]
