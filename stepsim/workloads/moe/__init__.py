"""Mixture-of-experts layers."""

from stepsim.workloads.moe.parameters import Moe

__all__ = ["Moe"]
