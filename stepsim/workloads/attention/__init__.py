"""Decode attention."""

from stepsim.workloads.attention.parameters import Attention as Attention
