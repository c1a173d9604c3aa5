"""Hierarchical tiling: a program on tiles of the hardware's size (STeP paper, appendix B.2)."""

from stepsim.graph.rewrites.downtile.walk import Downtiled as Downtiled, downtile as downtile
