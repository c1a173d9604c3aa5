"""Analysis of the finished runs of sweeps: tables, Pareto fronts, comparisons."""

from stepsim.sweep.analysis.baseline import (
    AgainstBaseline,
    BaselineComparison,
    compare_baseline,
    parse_assignments,
)
from stepsim.sweep.analysis.best import Best, BestOfGroup, best
from stepsim.sweep.analysis.compare import Change, Comparison, NewFailure, compare
from stepsim.sweep.analysis.costs import DesignCost, DesignCosts, LeftOut, design_costs
from stepsim.sweep.analysis.differences import key_differences
from stepsim.sweep.analysis.labels import label_points, label_runs
from stepsim.sweep.analysis.measured import count_missing
from stepsim.sweep.analysis.pareto import dominates, frontier, pareto_improvement_distance
from stepsim.sweep.analysis.statistics import Statistics
from stepsim.sweep.analysis.tables import (
    open_table,
    query,
    read_designs,
    read_failures,
    read_runs,
)

__all__ = [
    "AgainstBaseline",
    "BaselineComparison",
    "Best",
    "BestOfGroup",
    "Change",
    "Comparison",
    "DesignCost",
    "DesignCosts",
    "LeftOut",
    "NewFailure",
    "Statistics",
    "best",
    "compare",
    "compare_baseline",
    "count_missing",
    "design_costs",
    "dominates",
    "frontier",
    "key_differences",
    "label_points",
    "label_runs",
    "open_table",
    "pareto_improvement_distance",
    "parse_assignments",
    "query",
    "read_designs",
    "read_failures",
    "read_runs",
]
