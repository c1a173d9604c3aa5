"""Comparing many runs."""

from stepsim.sweep.pareto import dominates, frontier, pareto_improvement_distance

__all__ = ["dominates", "frontier", "pareto_improvement_distance"]
