"""Decode attention."""

from stepsim.workloads.attention.parameters import Attention

__all__ = ["Attention"]
