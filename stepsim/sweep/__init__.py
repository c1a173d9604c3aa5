"""Many runs: described, executed, kept, compared."""

from stepsim.sweep.compare import Change, Comparison, NewFailure, compare
from stepsim.sweep.costs import DesignCost, DesignCosts, LeftOut, design_costs
from stepsim.sweep.pareto import dominates, frontier, pareto_improvement_distance
from stepsim.sweep.plan import Plan
from stepsim.sweep.run import (
    SweepProgress,
    SweepSummary,
    check_backend,
    estimate_seconds,
    plan_sweep,
    run_sweep,
    runs_left,
)
from stepsim.sweep.schema import FAILURES_SCHEMA, UNIT_ROWS_SCHEMA, runs_schema
from stepsim.sweep.spec import SweepSpec, load_spec
from stepsim.sweep.tables import open_table, query, read_designs, read_runs

__all__ = [
    "FAILURES_SCHEMA",
    "UNIT_ROWS_SCHEMA",
    "Change",
    "Comparison",
    "DesignCost",
    "DesignCosts",
    "LeftOut",
    "NewFailure",
    "Plan",
    "SweepProgress",
    "SweepSpec",
    "SweepSummary",
    "check_backend",
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
    "read_designs",
    "read_runs",
    "run_sweep",
    "runs_left",
    "runs_schema",
]
