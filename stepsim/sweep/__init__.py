"""Many runs: described, executed, kept, compared."""

from stepsim.sweep.analysis import (
    Change,
    Comparison,
    DesignCost,
    DesignCosts,
    LeftOut,
    NewFailure,
    compare,
    design_costs,
    dominates,
    frontier,
    open_table,
    pareto_improvement_distance,
    query,
    read_designs,
    read_runs,
)
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
from stepsim.sweep.signals import Ended
from stepsim.sweep.spec import SweepSpec, load_spec

__all__ = [
    "FAILURES_SCHEMA",
    "UNIT_ROWS_SCHEMA",
    "Change",
    "Comparison",
    "DesignCost",
    "DesignCosts",
    "Ended",
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
