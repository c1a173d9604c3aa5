"""Mixture-of-experts layers."""

from stepsim.workloads.moe.parameters import Moe as Moe
