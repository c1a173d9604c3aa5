"""The figures of the STeP paper again: runs, comparison, headline ratios, pictures, report."""

from stepsim.reproduce.figures import FIGURES, points_of
from stepsim.reproduce.figures.archived import archived_points
from stepsim.reproduce.points import Point, Run

__all__ = ["FIGURES", "Point", "Run", "archived_points", "points_of"]
