"""The figures of the STeP paper again: runs, comparison, headline ratios, pictures, report."""

from stepsim.reproduce.families import FIGURES, archived_points, points_of
from stepsim.reproduce.points import Point, Run

__all__ = ["FIGURES", "Point", "Run", "archived_points", "points_of"]
