"""Mixture-of-experts layers."""

from stepsim.workloads.moe.parameters import DYNAMIC, Moe

__all__ = ["DYNAMIC", "Moe"]
